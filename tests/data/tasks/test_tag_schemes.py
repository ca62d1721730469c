"""The way entities are marked is recognised, checked, and made BIO."""

import pytest

from bert_from_scratch import BertError
from bert_from_scratch.data.tasks.examples import TagExample
from bert_from_scratch.data.tasks.tag_schemes import (
    check_bio,
    find_scheme,
    tidy_tags,
)


def sentences(*texts: str) -> list[TagExample]:
    return [
        TagExample(
            tuple(f"w{i}" for i in range(len(text.split()))),
            tuple(text.split()),
            place=f"a.txt, line {number}",
        )
        for number, text in enumerate(texts, 1)
    ]


def tags(examples: list[TagExample]) -> list[str]:
    return [" ".join(example.tags or ()) for example in examples]


@pytest.mark.parametrize(
    ("texts", "scheme"),
    [
        (["NN VBZ -LRB- O"], "plain"),
        (["O O"], "plain"),
        (["B-X I-X O", "B-X B-X B-Y"], "bio"),
        (["O B-X", "B-Y"], "bio"),
        (["I-X I-X O", "I-X B-X I-Y"], "iob1"),
        (["B-X E-X S-Y O"], "bioes"),
        (["B-X I-X", "O I-X"], "bio"),
    ],
)
def test_schemes_are_recognised(texts: list[str], scheme: str) -> None:
    assert find_scheme(sentences(*texts)) == scheme


def test_iob1_becomes_bio() -> None:
    tidied = tidy_tags(sentences("I-X I-X O I-X", "I-X B-X I-X I-Y O"))
    assert tags(tidied.examples) == [
        "B-X I-X O B-X",
        "B-X B-X I-X B-Y O",
    ]
    assert "4 I- became B-" in tidied.notes[0]
    check_bio(tidied.examples)


@pytest.mark.parametrize(
    "text", ["B-X I-X B-X O B-Y", "B-X I-X E-X O S-Y S-Y B-X E-X", "NN DT"]
)
def test_sound_tags_stay_as_they_are(text: str) -> None:
    tidied = tidy_tags(sentences(text))
    assert tags(tidied.examples) == [text]
    assert not tidied.notes


@pytest.mark.parametrize("text", ["O I-X B-X", "B-Y I-X", "I-X O B-X"])
def test_an_inside_without_a_beginning_is_an_error(text: str) -> None:
    place = text.split().index("I-X") + 1
    with pytest.raises(
        BertError, match=rf"I-X continues.*word {place} .*line 2; 1 such.*B-X"
    ):
        tidy_tags(sentences("B-Y", text))


def test_it_can_be_repaired_and_is_counted() -> None:
    tidied = tidy_tags(sentences("B-Y I-X I-X", "O I-X"), repair=True)
    assert tags(tidied.examples) == ["B-Y B-X I-X", "O B-X"]
    assert "2 I- tags" in tidied.notes[0]
    assert 'word 2 ("w1") of the sentence at a.txt, line 1' in tidied.notes[0]


@pytest.mark.parametrize(
    "text",
    ["B-X O S-X", "S-X I-X", "B-X E-Y", "S-X B-X", "O E-X", "B-X S-X"],
)
def test_broken_bioes_is_an_error(text: str) -> None:
    with pytest.raises(BertError, match=r"no valid BIOES.*line 1"):
        tidy_tags(sentences(text))


def test_a_tag_without_prefix_among_others_is_an_error() -> None:
    with pytest.raises(BertError, match=r'"PER" has no prefix.*word 2.*line 2'):
        tidy_tags(sentences("B-PER O", "O PER"))


def test_sentences_without_tags_pass() -> None:
    bare = [TagExample(("a", "b"))]
    assert tidy_tags(bare).examples == bare
