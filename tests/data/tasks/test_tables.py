"""Texts and labels come out of tables as they were written."""

import json
from pathlib import Path
from typing import Any

import pytest

from bert_from_scratch import BertError
from bert_from_scratch.data.tasks.examples import TextExample
from bert_from_scratch.data.tasks.tables import (
    TextColumns,
    collect_texts,
    read_texts,
)


def write(path: Path, text: str) -> Path:
    path.write_bytes(text.encode())
    return path


def rows(path: Path, columns: TextColumns | None = None) -> list[Any]:
    return [(e.text, e.pair, e.labels) for e in read_texts(path, columns)]


def test_well_known_names_are_found_in_the_header(tmp_path: Path) -> None:
    path = write(tmp_path / "a.tsv", "id\tSentence\tLabel\n7\tsun\tgood\n")
    assert read_texts(path) == [
        TextExample("sun", None, ("good",), f"{path}, line 2")
    ]


def test_a_pair_of_names_makes_pairs(tmp_path: Path) -> None:
    path = write(tmp_path / "a.tsv", "question\tsentence\nwhy?\tso\n")
    assert rows(path) == [("why?", "so", None)]


def test_quotes_are_plain_in_tsv_and_real_in_csv(tmp_path: Path) -> None:
    tsv = write(tmp_path / "a.tsv", 'text\tlabel\n"he said\tno\nit\'s "\tno\n')
    assert [row[0] for row in rows(tsv)] == ['"he said', "it's \""]
    csv = write(
        tmp_path / "a.csv",
        'text,label\r\n"one, ""two""\nthree",x\r\nfour,y\r\n',
    )
    examples = read_texts(csv)
    assert examples[0].text == 'one, "two"\nthree'
    assert [e.place for e in examples] == [f"{csv}, line 2", f"{csv}, line 4"]


def test_long_csv_fields_are_read(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", "text\n" + "a" * 200_000 + "\n")
    assert len(read_texts(path)[0].text) == 200_000


def test_columns_by_number_mean_no_header(tmp_path: Path) -> None:
    path = write(tmp_path / "a.tsv", "x\t1\t\tsun\ny\t0\t*\train\n")
    expected = [("sun", None, ("1",)), ("rain", None, ("0",))]
    assert rows(path, TextColumns(3, label=1)) == expected
    assert rows(path, TextColumns("3", label="1")) == expected
    skipping = TextColumns(3, label=1, has_header=True)
    assert rows(path, skipping) == expected[1:]


def test_a_header_is_not_taken_for_a_text(tmp_path: Path) -> None:
    path = tmp_path / "a.tsv"
    path.write_text("Sentence\tlabel\nfine .\tgood\n")
    with pytest.raises(
        BertError, match=r"line 1.* looks like a header"
    ) as error:
        read_texts(path, TextColumns(0, None, 1))
    assert "--text-column Sentence" in str(error.value.hint)
    path.write_text("sentence\tnoun\nfine .\tadjective\n")
    assert len(read_texts(path, TextColumns(0, None, 1))) == 2


def test_a_header_of_digits_wins_over_numbers(tmp_path: Path) -> None:
    path = write(tmp_path / "a.tsv", "1\tlabel\nsun\tgood\n")
    columns = TextColumns("1", label="label")
    assert rows(path, columns) == [("sun", None, ("good",))]


def test_line_separators_stay_in_the_text(tmp_path: Path) -> None:
    path = write(tmp_path / "a.tsv", "\ufefftext\na\u2028b\nc\n")
    assert [row[0] for row in rows(path)] == ["a\u2028b", "c"]


@pytest.mark.parametrize(
    ("label", "expected"),
    [
        ("good", ("good",)),
        (3, ("3",)),
        (2.5, ("2.5",)),
        (True, ("true",)),
        (["a", "b"], ("a", "b")),
        ([], ()),
        (None, None),
    ],
)
def test_json_labels_may_be_of_many_types(
    tmp_path: Path, label: object, expected: object
) -> None:
    line = json.dumps({"text": "sun", "label": label})
    assert rows(write(tmp_path / "a.jsonl", line)) == [("sun", None, expected)]


def test_several_labels_stand_apart_by_the_separator(tmp_path: Path) -> None:
    path = write(tmp_path / "a.tsv", "text\tlabels\nx\ta|b\ny\t\nz\tc\n")
    columns = TextColumns("text", label="labels", label_separator="|")
    assert [row[2] for row in rows(path, columns)] == [("a", "b"), (), ("c",)]


def test_files_without_labels_are_read(tmp_path: Path) -> None:
    path = write(tmp_path / "a.tsv", "text\tlabel\nx\t\ny\t\n")
    assert [row[2] for row in rows(path)] == [None, None]
    assert rows(path, TextColumns("text"))[0][2] is None


def test_folders_are_labels(tmp_path: Path) -> None:
    for name in ("pos/b.txt", "pos/a.txt", "neg/c.txt", "unsup/d.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        write(tmp_path / name, f"{name}\n")
    (tmp_path / "pos" / "notes.md").write_text("no example")
    assert rows(tmp_path) == [
        ("neg/c.txt", None, ("neg",)),
        ("pos/a.txt", None, ("pos",)),
        ("pos/b.txt", None, ("pos",)),
    ]


FAULTS = [
    ("a.tsv", "text\tlabel\nx\ty\tz\n", "line 2 has 3 fields.* has 2"),
    ("a.tsv", "text\tlabel\nx\ty\n\nz\tu\n", "line 3 has 1 fields"),
    ("a.csv", "text,label\nx, y,z\n", "line 2 has 3 fields.*double quotes"),
    ("a.csv", 'text,label\nx,y\n"x,y\n', "line 3 is not CSV"),
    ("a.tsv", "x\ty\nz\tu\n", 'known to hold texts.*"x", "y".*--text-column'),
    ("a.tsv", "text\tlabel\nx\ty\n \ty\n\ty\n", "2 of 3 rows.*line 3"),
    ("a.tsv", "text\tpair\nx\t\n", "empty text.*line 2"),
    ("a.tsv", "text\tlabel\nx\t1\ny\t\n", "1 of 2 rows have no label.*line 3"),
    ("a.tsv", "text\tlabel\n", "no examples, only a header"),
    ("a.jsonl", '{"text": "x"}\n{"text": }\n', "line 2 is not JSON.*column 10"),
    ("a.jsonl", '{"text": "x"}\n["y"]\n', "line 2 is not a JSON object"),
    ("a.jsonl", '{"text": "x"}\n{"note": "y"}\n', 'line 2 has no "text"'),
    ("a.jsonl", '{"text": 3}\n', "not a text but 3.*line 1"),
    ("a.jsonl", '{"text": "x", "label": {}}', "label is neither.*line 1"),
    ("a.xml", "<a/>", "Cannot tell the format"),
]


@pytest.mark.parametrize(("name", "content", "message"), FAULTS)
def test_faults_name_their_place(
    tmp_path: Path, name: str, content: str, message: str
) -> None:
    with pytest.raises(BertError, match=message):
        read_texts(write(tmp_path / name, content))


def test_a_missing_column_lists_those_there_are(tmp_path: Path) -> None:
    path = write(tmp_path / "a.tsv", "text\tlabel\nx\ty\n")
    with pytest.raises(BertError, match='"gold"; it has "text", "label"'):
        read_texts(path, TextColumns("text", label="gold"))
    with pytest.raises(BertError, match='"5"; it has 2 columns and no header'):
        read_texts(path, TextColumns(0, label=5))
    path = write(tmp_path / "a.jsonl", '{"text": "x"}')
    with pytest.raises(BertError, match='"1"; it has "text"'):
        read_texts(path, TextColumns("text", label=1))


def test_a_folder_without_texts_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BertError, match="no sub-folders"):
        read_texts(tmp_path)
    with pytest.raises(BertError, match="no folder"):
        read_texts(tmp_path / "gone", format="folder")
    write_dir = tmp_path / "pos"
    write_dir.mkdir()
    write(write_dir / "a.txt", " \n")
    with pytest.raises(BertError, match=r"a\.txt is empty"):
        read_texts(tmp_path)


def test_known_faults_are_left_out_and_counted(tmp_path: Path) -> None:
    path = write(
        tmp_path / "a.tsv", "text\tlabel\nx\ty\nz\n\ty\nv\t-\nw\t\nu\ty\n"
    )
    texts = collect_texts(path, skip_damaged=True, no_gold=("-", ""))
    assert [e.text for e in texts.examples] == ["x", "u"]
    assert (texts.num_damaged, texts.num_without_gold) == (2, 2)
    with pytest.raises(BertError, match="can be used"):
        collect_texts(path, skip_damaged=True, no_gold=("-", "", "y"))
