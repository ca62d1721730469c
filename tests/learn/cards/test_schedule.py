"""Leitner's boxes: what is hard comes often, what is easy seldom."""

from datetime import date, timedelta

from hypothesis import given
from hypothesis import strategies as st

from bert_from_scratch.learn.cards.schedule import (
    NUM_BOXES,
    WAITING_DAYS,
    Memory,
    draw,
    is_due,
    order_by_need,
    review,
)

TODAY = date(2026, 3, 30)
TOMORROW = date(2026, 3, 31)
memories = st.builds(
    Memory,
    st.integers(1, NUM_BOXES),
    st.dates(date(2026, 1, 1), date(2026, 12, 31)),
    st.integers(0, 9),
    st.integers(0, 9),
)


def test_a_new_card_that_is_known_comes_again_tomorrow() -> None:
    assert review(None, True, TODAY) == Memory(2, TOMORROW, 1, 0)


def test_a_new_card_that_is_not_known_comes_again_today() -> None:
    assert review(None, False, TODAY) == Memory(1, TODAY, 0, 1)


def test_a_card_always_known_on_its_day_waits_0_1_3_7_14_30_days() -> None:
    memory, day, waits = Memory(1, TODAY), TODAY, []
    for _ in range(6):
        memory = review(memory, True, day)
        waits.append((memory.due - day).days)
        day = memory.due
    assert waits == [1, 3, 7, 14, 30, 30]
    assert (memory.box, memory.num_right) == (NUM_BOXES, 6)


def test_one_failure_sends_even_the_last_box_back_to_the_first() -> None:
    memory = review(Memory(6, TODAY, 5, 0), False, TODAY)
    assert memory == Memory(1, TODAY, 5, 1)


def test_knowing_a_card_early_moves_nothing() -> None:
    memory = Memory(3, TOMORROW, 2, 0)
    assert review(memory, True, TODAY) == Memory(3, TOMORROW, 3, 0)


def test_failing_early_counts() -> None:
    assert review(Memory(3, TOMORROW), False, TODAY) == Memory(1, TODAY, 0, 1)


@given(memories, st.booleans(), st.dates(date(2026, 1, 1), date(2026, 12, 31)))
def test_any_answer_leaves_a_sound_memory(
    memory: Memory, is_right: bool, today: date
) -> None:
    after = review(memory, is_right, today)
    assert 1 <= after.box <= min(memory.box + 1, NUM_BOXES)
    assert after.num_right == memory.num_right + is_right
    assert after.num_wrong == memory.num_wrong + (not is_right)
    assert is_due(after, today) == (not is_right)
    assert after.due - today <= timedelta(days=365)


def test_boxes_wait_longer_and_longer() -> None:
    assert list(WAITING_DAYS) == sorted(set(WAITING_DAYS))
    assert WAITING_DAYS[0] == 0


def test_need_is_wrong_then_due_then_new_then_what_can_wait() -> None:
    known = {
        "later": Memory(3, TODAY + timedelta(days=9)),
        "soon": Memory(4, TOMORROW),
        "due": Memory(2, TODAY),
        "overdue": Memory(2, date(2026, 3, 1)),
        "wrong": Memory(1, TODAY),
    }
    ids = ["new 1", *known, "new 2"]
    expected = ["wrong", "overdue", "due", "new_1", "new_2", "soon", "later"]
    found = order_by_need(ids, known, TODAY)
    assert [name.replace(" ", "_") for name in found] == expected


def test_a_seed_shuffles_only_what_is_equally_needed() -> None:
    ids = [f"{number}" for number in range(20)]
    known = {"7": Memory(1, TODAY), "3": Memory(5, TOMORROW)}
    orders = {tuple(order_by_need(ids, known, TODAY, s)) for s in range(50)}
    assert len(orders) == 50
    for order in orders:
        assert (order[0], order[-1]) == ("7", "3")
        assert sorted(order) == sorted(ids)


def test_draws_depend_on_seed_and_name_and_nothing_else() -> None:
    # 由命令行独立算出：printf '0 A-Q1' | b2sum -l 64
    assert draw(0, "A-Q1") == 0xD9B1F98C1B3DB1C6
    assert len({draw(s, n) for s in range(9) for n in "abc"}) == 27
    assert all(0 <= draw(s, "x") < 1 << 64 for s in range(99))
