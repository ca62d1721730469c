"""Columns become sentences, with their documents and places."""

import logging
from pathlib import Path

import pytest

from bert_from_scratch import BertError
from bert_from_scratch.data.tasks.conll import read_tags
from bert_from_scratch.data.tasks.examples import TagExample

NEWS = """-DOCSTART- -X- -X- O

Anna NNP B-NP B-PER
Bell NNP I-NP I-PER
sings VBZ B-VP O

Rome NNP B-NP B-LOC

-DOCSTART- -X- -X- O

Rain NN B-NP O
"""


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def test_sentences_know_document_and_place(tmp_path: Path) -> None:
    path = write(tmp_path / "a.txt", NEWS)
    assert read_tags(path) == [
        TagExample(
            ("Anna", "Bell", "sings"),
            ("B-PER", "I-PER", "O"),
            0,
            f"{path}, line 3",
        ),
        TagExample(("Rome",), ("B-LOC",), 0, f"{path}, line 7"),
        TagExample(("Rain",), ("O",), 1, f"{path}, line 11"),
    ]


def test_line_ends_and_the_last_blank_line_do_not_matter(
    tmp_path: Path,
) -> None:
    path = write(tmp_path / "a.txt", NEWS)
    expected = read_tags(path)
    path.write_bytes(NEWS.rstrip().replace("\n", "\r\n").encode())
    assert read_tags(path) == expected


def test_columns_can_be_chosen(tmp_path: Path) -> None:
    path = write(tmp_path / "a.txt", NEWS)
    assert read_tags(path, tag_column=1)[0].tags == ("NNP", "NNP", "VBZ")
    assert read_tags(path, word_column=1)[1].words == ("NNP",)


def test_one_column_is_not_labelled(tmp_path: Path) -> None:
    path = write(tmp_path / "a.txt", "Anna\nsings\n\nRain\n")
    assert [e.tags for e in read_tags(path)] == [None, None]


def test_files_without_document_starts_are_one_document(
    tmp_path: Path,
) -> None:
    path = write(tmp_path / "a.txt", "京 B-LOC\n城 I-LOC\n\n雨 O\n")
    examples = read_tags(path)
    assert [e.words for e in examples] == [("京", "城"), ("雨",)]
    assert {e.document for e in examples} == {0}


def test_tsv_stands_apart_by_tabs_alone(tmp_path: Path) -> None:
    path = write(tmp_path / "a.tsv", "New York\tB-LOC\n\u3000\tO\n")
    assert read_tags(path)[0].words == ("New York", "\u3000")


def test_wide_spaces_are_words(tmp_path: Path) -> None:
    path = write(tmp_path / "a.txt", "京 O\n\u3000 O\n城\tO\n")
    assert read_tags(path)[0].words == ("京", "\u3000", "城")


def test_conversion_from_iob1_is_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = write(tmp_path / "a.txt", "Anna I-PER\nBell I-PER\n")
    with caplog.at_level(logging.WARNING):
        assert read_tags(path)[0].tags == ("B-PER", "I-PER")
    assert "IOB1" in caplog.text


FAULTS = [
    ("a O\nb O x\n", "line 2 has 3 columns, but the first word has 2"),
    ("a O\n\nb\n", "line 3 has 1 columns"),
    ("-DOCSTART- O\n\n", "no sentences"),
    (
        "a B-X\n\nb O\nc I-X\n",
        r'I-X continues no entity: word 2 \("c"\).*line 3',
    ),
]


@pytest.mark.parametrize(("content", "message"), FAULTS)
def test_faults_name_their_place(
    tmp_path: Path, content: str, message: str
) -> None:
    with pytest.raises(BertError, match=message):
        read_tags(write(tmp_path / "a.txt", content))


def test_empty_words_and_missing_columns_are_refused(tmp_path: Path) -> None:
    with pytest.raises(BertError, match="line 2 has an empty column"):
        read_tags(write(tmp_path / "a.tsv", "a\tO\n\tO\n"))
    with pytest.raises(BertError, match=r"no column 4: .* has 2 columns"):
        read_tags(write(tmp_path / "a.txt", "a O\n"), tag_column=4)
