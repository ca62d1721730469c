"""The lesson on positions asks every model the same."""

import pytest

from bert_from_scratch.corpus.builtin import simple_sentences
from bert_from_scratch.learn.lesson import Table
from bert_from_scratch.learn.lessons.positions import TURNED_ROUND, positions
from bert_from_scratch.learn.materials import Materials


@pytest.fixture(scope="module")
def tables() -> list[Table]:
    lesson = positions("en", Materials(num_epochs=2))
    return [block for block in lesson.blocks if isinstance(block, Table)]


def test_without_positions_order_is_invisible(tables: list[Table]) -> None:
    (row,) = tables[0].rows
    assert row[1] == "book reads the man the"
    assert float(row[2]) < 1e-15


def test_without_positions_both_directions_get_one_answer(
    tables: list[Table],
) -> None:
    labels = [row[:2] for row in tables[1].rows]
    assert labels == [
        (places, masks)
        for masks in ("once", "every epoch")
        for places in ("no", "yes")
    ]
    for row in tables[1].rows:
        if row[0] == "no":
            assert row[2] == row[3]
            assert row[4] == "0.00"


def test_no_sentence_answers_the_question_turned_round() -> None:
    first, second = (text.split("[MASK]") for text in TURNED_ROUND)
    assert any(s.endswith(first[1]) for s in simple_sentences())
    assert not any(s.startswith(second[0]) for s in simple_sentences())


def test_three_questions_get_five_answers_each_from_both_models(
    tables: list[Table],
) -> None:
    for table in tables[2:4]:
        assert len(table.rows) == 3
        assert len(table.columns) == 6
    assert len(tables[4].rows) == 4
