"""Steps of an epoch, and the plan of the next one."""

import threading
from collections.abc import Iterator
from itertools import islice
from typing import Any

import pytest

from bert_from_scratch.data import pretraining as room
from bert_from_scratch.data.masking import MaskingRule
from bert_from_scratch.data.pairs import Sequences, plan_pairs
from bert_from_scratch.data.pretraining import (
    BatchShape,
    EpochPlan,
    PretrainingData,
    SharedShape,
)
from bert_from_scratch.data.steps import Position, StepData

from .conftest import VOCAB_SIZE, MakeShards, make_tokenizer

RULE = MaskingRule(4, (0, 1, 2, 3, 4), VOCAB_SIZE)


@pytest.fixture
def planned(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, str]]:
    """Notes every epoch that is planned, and the thread that does it."""
    found: list[tuple[int, str]] = []

    def note(*arguments: Any) -> Sequences:
        found.append((arguments[4], threading.current_thread().name))
        return plan_pairs(*arguments)

    monkeypatch.setattr(room, "plan_pairs", note)
    return found


@pytest.fixture
def data(
    make_shards: MakeShards, planned: list[tuple[int, str]]
) -> PretrainingData:
    return PretrainingData(
        make_shards([[10] * 40, [12] * 40, [7] * 50]),
        make_tokenizer(),
        BatchShape.plan(256, 64),
        RULE,
        seed=0,
        shapes=SharedShape(0.15),
    )


def take(steps: Iterator[StepData], count: int) -> list[StepData]:
    return list(islice(steps, count))


def test_the_next_epoch_is_planned_in_the_second_half_of_this_one(
    data: PretrainingData, planned: list[tuple[int, str]]
) -> None:
    count = data.num_steps(0)
    assert count >= 4
    steps = data.steps(Position())
    take(steps, (count + 1) // 2)
    assert [epoch for epoch, _ in planned] == [0]
    take(steps, count // 2 + 1)
    assert [epoch for epoch, _ in planned] == [0, 1]
    # 下一轮的计划由后台做成
    assert planned[1][1] == "plan"


def test_a_plan_made_ahead_changes_no_batch_of_this_epoch(
    data: PretrainingData, monkeypatch: pytest.MonkeyPatch
) -> None:
    held: list[EpochPlan] = []
    monkeypatch.setattr(
        SharedShape, "hold", lambda self, shape, plan: held.append(plan)
    )
    steps = data.steps(Position())
    count = data.num_steps(0)
    take(steps, count)
    # 下一轮的计划早已做好，它的形状却要等到它开始才生效
    present, following = data._plans(0), data._plans(1)
    assert held
    assert all(plan is present for plan in held)
    take(steps, 1)
    assert held[-1] is following


def test_the_steps_are_the_same_wherever_they_begin(
    data: PretrainingData,
) -> None:
    count = data.num_steps(0)
    whole = take(data.steps(Position()), count + 2)
    later = take(data.steps(Position(cursor=count - 1)), 3)
    for one, other in zip(whole[-3:], later, strict=True):
        assert one.following == other.following
        for batch, again in zip(
            one.micro_batches, other.micro_batches, strict=True
        ):
            assert batch.input_ids.equal(again.input_ids)


@pytest.mark.parametrize("batch_tokens", [256, 999, 1000, 4096, 65536, 100_000])
def test_a_step_has_nearly_the_tokens_that_were_asked_for(
    batch_tokens: int,
) -> None:
    shape = BatchShape.plan(batch_tokens, 128)
    size = shape.num_rows * shape.row_tokens
    assert 0.98 * batch_tokens <= size <= batch_tokens
    assert shape.row_tokens >= 128
