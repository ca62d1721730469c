"""The printed pages: what is in the data, and what is in the repository."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from bert_from_scratch.learn.cards.content import (
    Text,
    load_parts,
)
from bert_from_scratch.learn.cards.pages import (
    cards_page,
    cite,
    questions_page,
    write_cards,
)
from bert_from_scratch.learn.language import LANGUAGES, Language

ROOT = Path(__file__).parents[3]
PARTS = load_parts()


def test_the_pages_of_the_repository_are_those_of_the_data(
    tmp_path: Path,
) -> None:
    written = write_cards(tmp_path)
    names = [path.relative_to(tmp_path).as_posix() for path in written]
    assert sorted(names) == [
        f"{language}/{page}.md"
        for language in LANGUAGES
        for page in ("cards", "questions")
    ]
    for name in names:
        kept = ROOT / "docs" / "course" / name
        assert kept.read_bytes() == (tmp_path / name).read_bytes(), name


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_card_and_every_reason_is_on_its_page(language: Language) -> None:
    cards = cards_page(PARTS, language)
    questions = questions_page(PARTS, language)
    for part in PARTS:
        for card in part.cards:
            assert cards.count(f"**{card.id}** ") == 1
        for question in part.questions:
            assert questions.count(f"**{question.id}** ") == 1
    assert cards.count("<details>") == sum(len(p.cards) for p in PARTS)
    assert questions.count("<details>") == 48
    # 每题四个选项、四条理由
    assert len(re.findall("^- [abcd]\\) ", questions, re.MULTILINE)) == 48 * 8


def test_the_answer_given_is_the_right_one() -> None:
    page = questions_page(PARTS, "en")
    letters = re.findall("<summary>Answer: ([abcd])</summary>", page)
    expected = [
        "abcd"[[option.is_right for option in question.options].index(True)]
        for part in PARTS
        for question in part.questions
    ]
    assert letters == expected


def test_text_is_shown_and_never_run() -> None:
    card = replace(
        PARTS[0].cards[0],
        front=Text("<script>alert(1)</script> & *a_b* `c` | d", "汉"),
    )
    page = cards_page([replace(PARTS[0], cards=(card,))], "en")
    assert "<script>" not in page
    assert (
        "&lt;script&gt;alert(1)&lt;/script&gt; &amp; \\*a\\_b\\* \\`c\\` \\| d"
    ) in page


def test_no_text_looks_like_a_link() -> None:
    for language in LANGUAGES:
        assert "](" not in cards_page(PARTS, language)
        assert "](" not in questions_page(PARTS, language)


@pytest.mark.parametrize(
    ("section", "english", "chinese"),
    [
        ("3.1", "section 3.1", "第 3.1 节"),
        ("Abstract", "abstract", "摘要"),
        ("5.3, table 7", "section 5.3, table 7", "第 5.3 节，表 7"),
        ("3, figure 2", "section 3, figure 2", "第 3 节，图 2"),
    ],
)
def test_places_are_cited_in_the_readers_language(
    section: str, english: str, chinese: str
) -> None:
    assert cite(section, "en") == english
    assert cite(section, "zh") == chinese
