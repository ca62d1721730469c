"""The layout of a file is found by looking."""

import pytest

from bert_from_scratch.corpus.documents import find_language
from bert_from_scratch.corpus.structure import Structure, find_structure

SENTENCES = ["One sentence stands here.", "Another one follows it!"] * 4
PARAGRAPH = "A first sentence. And a second one, longer. Then a third. " * 3
WRAPPED = [
    "This is a line of prose that was broken by hand at about seventy",
    "characters, so that sentences run on over the ends of lines and do",
    "not stop there. Each of the lines has about the same length, but for",
    "the last one.",
]


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ([*SENTENCES, "", *SENTENCES], Structure("sentence", "blank")),
        (SENTENCES, Structure("sentence", "file")),
        (["a cat sits", "a dog runs"] * 9, Structure("sentence", "line")),
        (
            [PARAGRAPH] * 3 + [""] + [PARAGRAPH] * 4,
            Structure("paragraph", "blank"),
        ),
        ([PARAGRAPH, ""] * 6, Structure("paragraph", "file")),
        ([PARAGRAPH] * 6, Structure("paragraph", "file")),
        ([*WRAPPED, ""] * 5, Structure("wrapped", "file")),
        (["今天下雨。我们在家。" * 3] * 5, Structure("paragraph", "file")),
        (["今天下雨。", "我们在家。"] * 5, Structure("sentence", "file")),
        ([], Structure("sentence", "file")),
    ],
)
def test_each_layout_is_recognised(
    lines: list[str], expected: Structure
) -> None:
    assert find_structure(lines) == expected


def test_the_finding_is_told_in_words() -> None:
    assert str(Structure("wrapped", "file")) == (
        "hard-wrapped prose, one document a file"
    )


def test_chinese_text_is_told_from_english() -> None:
    assert find_language(["今天下雨，我们在家 BERT。"]) == "zh"
    assert find_language(["It rained today 雨."]) == "en"
    assert find_language([]) == "en"
