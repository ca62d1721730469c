"""The lesson on positions asks every model the same."""

from bert_from_scratch.corpus.builtin import simple_sentences
from bert_from_scratch.learn.lesson import Table
from bert_from_scratch.learn.lessons.positions import (
    OPEN_QUESTION,
    count_answers,
    positions,
)
from bert_from_scratch.learn.materials import Materials


def test_the_open_question_has_as_many_answers_as_there_are_people() -> None:
    assert count_answers(simple_sentences(), OPEN_QUESTION) == 5
    assert count_answers(["a b", "a b", "a c d"], "a [MASK]") == 1


def test_without_positions_both_directions_get_one_answer() -> None:
    lesson = positions("en", Materials(num_epochs=2))
    tables = [block for block in lesson.blocks if isinstance(block, Table)]
    assert tables[0].rows[0][1] == "book reads the man the"
    without, placed = tables[1].rows
    assert without[1] == without[2]
    assert without[3] == "0.00"
    assert float(tables[0].rows[0][2]) < 1e-15
    assert placed[0] == "with positions"


def test_three_questions_get_five_answers_each_from_both_models() -> None:
    lesson = positions("zh", Materials(num_epochs=1))
    tables = [block for block in lesson.blocks if isinstance(block, Table)]
    for table in tables[2:4]:
        assert len(table.rows) == 3
        assert len(table.columns) == 6
    assert len(tables[4].rows) == 4
