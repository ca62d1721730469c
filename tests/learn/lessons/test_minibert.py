"""The lesson is about one model: its formula, its counts, its gradients."""

import re
from math import prod

import pytest

from bert_from_scratch.learn.language import LANGUAGES, Language
from bert_from_scratch.learn.lesson import (
    Code,
    Formula,
    Lesson,
    Paragraph,
    Table,
)
from bert_from_scratch.learn.lessons.minibert import minibert
from bert_from_scratch.learn.materials import Materials


@pytest.fixture(scope="module")
def lessons() -> dict[Language, Lesson]:
    materials = Materials(num_epochs=3)
    return {language: minibert(language, materials) for language in LANGUAGES}


@pytest.fixture(scope="module")
def tables(lessons: dict[Language, Lesson]) -> list[Table]:
    blocks = lessons["en"].blocks
    return [block for block in blocks if isinstance(block, Table)]


def texts(lesson: Lesson) -> list[str]:
    return [b.text for b in lesson.blocks if isinstance(b, Paragraph)]


def test_every_weight_is_compared_with_autograd(tables: list[Table]) -> None:
    rows = {row[0]: row for row in tables[1].rows}
    assert rows.keys() == {
        *("token", "query", "key", "value", "gain", "shift"),
        *("dense", "dense_bias", "vocabulary_bias"),
    }
    for *_, size, difference in rows.values():
        assert float(difference) < 1e-10
        assert float(difference) < 1e-8 * float(size)


def test_the_shapes_compared_add_up_to_the_weights_told(
    lessons: dict[Language, Lesson], tables: list[Table]
) -> None:
    shapes = [row[2].split(" × ") for row in tables[1].rows]
    num_weights = sum(prod(map(int, shape)) for shape in shapes)
    # 89 × 128 的表、四个 128 × 128、三个 128、一个 89
    assert num_weights == 89 * 128 + 4 * 128**2 + 3 * 128 + 89
    for lesson in lessons.values():
        assert f"{num_weights:,}" in texts(lesson)[1]


def test_every_weight_stands_in_the_formula(
    lessons: dict[Language, Lesson], tables: list[Table]
) -> None:
    formula = next(
        b for b in lessons["zh"].blocks if isinstance(b, Formula)
    ).lines
    words = set(re.findall(r"\w+", " ".join(formula)))
    assert {row[1] for row in tables[1].rows} <= words


def test_the_mask_is_counted_before_the_vocabulary_is(
    lessons: dict[Language, Lesson],
) -> None:
    for language in LANGUAGES:
        told = {"en": "89 entries", "zh": "89 项"}[language]
        page = "\n".join(texts(lessons[language]))
        first = page.index("88")
        assert "[MASK]" in page[first : page.index(told)]


def test_the_code_shown_is_the_code_that_runs(
    lessons: dict[Language, Lesson],
) -> None:
    codes = [b.text for b in lessons["zh"].blocks if isinstance(b, Code)]
    assert [text.split("(")[0] for text in codes] == [
        "def softmax_backward",
        "def attend_backward",
    ]


def test_chinese_comments_in_code_have_an_english_gist_beside_them(
    lessons: dict[Language, Lesson],
) -> None:
    blocks = lessons["en"].blocks
    places = [n for n, b in enumerate(blocks) if isinstance(b, Code)]
    for place, gist in zip(places, ("sum to 1", "transpose"), strict=True):
        before = blocks[place - 1]
        assert isinstance(before, Paragraph)
        assert gist in before.text
    page = "\n".join(texts(lessons["en"]))
    assert page.count("in Chinese, as everywhere in this project") == 1
