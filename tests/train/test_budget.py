"""How much is used up, and what the learning rate makes of it."""

import time
from typing import Any

import pytest

from bert_from_scratch.data.steps import Position
from bert_from_scratch.train.budget import Budget, warmup_then_decay
from bert_from_scratch.train.settings import TrainingSettings


class TenSteps:
    """A source whose epochs have ten steps."""

    def num_steps(self, epoch: int) -> int:
        return 10

    def epochs_done(self, position: Position) -> float:
        return position.epochs_before + position.epoch + position.cursor / 10


def make_budget(before: float = 0.0, **settings: Any) -> Budget:
    source: Any = TenSteps()
    start = None if before == 0.0 else 10.0
    return Budget(TrainingSettings(**settings), source, before, start)


def test_steps_warm_up_for_a_tenth_and_end_at_zero() -> None:
    budget = make_budget(steps=100)
    factors = [budget.rate_factor(step, Position()) for step in range(101)]
    assert factors[0] == pytest.approx(0.1)
    assert factors[9] == 1.0
    assert factors[55] == pytest.approx(0.5)
    assert factors[100] == 0.0


def test_epochs_count_earlier_phases() -> None:
    budget = make_budget(epochs=4)
    assert budget.progress(0, Position(1, 5)) == pytest.approx(0.375)
    later = Position(0, 5, phase=1, epochs_before=3.0)
    assert budget.progress(0, later) == pytest.approx(0.875)


def test_minutes_begin_their_schedule_at_the_first_step() -> None:
    budget = make_budget(minutes=1.0)
    budget.seconds = 20.0
    assert budget.progress(0, Position()) == 0.0
    budget.start_schedule()
    assert budget.progress(1, Position()) == 0.0
    budget.seconds = 40.0
    assert budget.progress(2, Position()) == pytest.approx(0.5)


def test_minutes_leave_time_for_the_end() -> None:
    budget = make_budget(minutes=1.0, reserved_seconds=20.0)
    budget.start_schedule()
    budget.seconds = 20.0
    assert budget.progress(1, Position()) == pytest.approx(0.5)
    budget.seconds = 40.0
    assert budget.progress(2, Position()) == 1


def test_a_warm_up_by_the_clock_has_enough_steps() -> None:
    budget = make_budget(minutes=1.0, min_warmup_steps=100)
    budget.start_schedule()
    budget.seconds = 30.0
    assert budget.rate_factor(9, Position()) == pytest.approx(0.1)
    assert budget.rate_factor(200, Position()) == pytest.approx(5 / 9)


def test_a_run_by_the_clock_ends_at_zero_though_its_warm_up_is_longer() -> None:
    budget = make_budget(minutes=1.0, warmup_steps=100)
    budget.start_schedule()
    factors = []
    for step in range(0, 121, 2):
        # 每秒两步：半程时第 60 步，热身还没完
        budget.seconds = step / 2
        factors.append(budget.rate_factor(step, Position()))
    assert factors[0] == pytest.approx(0.01)
    assert factors[20] == pytest.approx(0.41)
    assert factors[-1] == 0.0
    ends = factors[factors.index(max(factors)) :]
    assert ends == sorted(ends, reverse=True)


def test_minutes_go_on_after_a_resume_where_they_were() -> None:
    budget = make_budget(before=35.0, minutes=1.0)
    assert budget.progress(5, Position()) == pytest.approx(0.5)
    budget.start_schedule()
    assert budget.schedule_start == 10.0
    budget.tick()
    assert budget.seconds == pytest.approx(35.0, abs=1)
    time.sleep(0.01)
    before = budget.seconds
    budget.tick()
    assert budget.seconds > before


def test_the_rate_is_a_triangle() -> None:
    points = (0.05, 0.1, 0.55, 1.0)
    factors = [warmup_then_decay(p, 0.1) for p in points]
    assert factors == pytest.approx([0.5, 1.0, 0.5, 0.0])
