"""Progress: what is new, what is due, what lies where."""

from datetime import date, timedelta

from bert_from_scratch.learn.cards.content import load_parts
from bert_from_scratch.learn.cards.progress import (
    Standing,
    measure_progress,
    next_due,
)
from bert_from_scratch.learn.cards.schedule import Memory

TODAY = date(2026, 3, 30)
PARTS = load_parts()


def test_a_new_learner_has_everything_ahead() -> None:
    for part, found in zip(
        PARTS, measure_progress(PARTS, {}, TODAY), strict=True
    ):
        count = len(part.cards)
        assert found.letter == part.letter
        assert found.cards == Standing(count, count, 0, (0,) * 6, 0, 0)
        assert found.questions == Standing(8, 8, 0, (0,) * 6, 0, 0)


def test_cards_and_questions_are_counted_where_they_stand() -> None:
    memories = {
        "B01": Memory(1, TODAY, 0, 2),
        "B02": Memory(6, TODAY - timedelta(days=1), 7, 1),
        "B03": Memory(2, TODAY + timedelta(days=1), 1, 0),
        "B-Q8": Memory(2, TODAY + timedelta(days=1), 1, 0),
        "Z01": Memory(1, TODAY, 9, 9),
    }
    (found,) = measure_progress(PARTS[1:2], memories, TODAY)
    count = len(PARTS[1].cards)
    boxes = (1, 1, 0, 0, 0, 1)
    assert found.cards == Standing(count, count - 3, 2, boxes, 8, 3)
    assert found.questions == Standing(8, 7, 0, (0, 1, 0, 0, 0, 0), 1, 0)


def test_the_next_day_is_the_earliest_of_the_cards_asked_for() -> None:
    memories = {
        "A01": Memory(3, date(2026, 4, 5)),
        "A02": Memory(3, date(2026, 4, 2)),
        "B01": Memory(1, TODAY),
    }
    assert next_due(["A01", "A02", "A03"], memories) == date(2026, 4, 2)
    assert next_due(["A03"], memories) is None
