from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
import torch

from bert_from_scratch.data.batch import IGNORE_INDEX, Batch, pack
from bert_from_scratch.data.steps import Position, StepData
from bert_from_scratch.finetune.encoding import TextSequence
from bert_from_scratch.finetune.items import Item
from bert_from_scratch.finetune.source import ItemSource
from bert_from_scratch.train.processes import Processes


def make_items(lengths: Sequence[int]) -> list[Item]:
    return [
        Item(
            (
                TextSequence(
                    np.full(length, number, np.int32),
                    np.zeros(length, np.uint8),
                ),
            ),
            number,
            number,
        )
        for number, length in enumerate(lengths)
    ]


def collate(items: Sequence[Item]) -> Batch:
    batch = pack([item.sequences[0] for item in items])
    return replace(batch, labels=torch.tensor([i.labels for i in items]))


def make_source(
    lengths: Sequence[int],
    processes: Processes = Processes(),  # noqa: B008
    batch_tokens: int = 1000,
) -> ItemSource:
    return ItemSource(
        make_items(lengths),
        collate,
        batch_size=4,
        batch_tokens=batch_tokens,
        seed=3,
        processes=processes,
    )


def take(source: ItemSource, count: int, position: Position) -> list[StepData]:
    steps = source.steps(position)
    return [next(steps) for _ in range(count)]


def labels_of(steps: Sequence[StepData]) -> list[int]:
    return [
        label
        for step in steps
        for batch in step.micro_batches
        if batch.labels is not None
        for label in batch.labels.tolist()
    ]


def test_an_epoch_has_every_item_once() -> None:
    source = make_source(range(2, 12))
    assert source.num_steps() == 3
    assert sorted(labels_of(take(source, 3, Position()))) == list(range(10))


def test_epochs_differ_in_order() -> None:
    source = make_source(range(2, 12))
    steps = take(source, 6, Position())
    assert labels_of(steps[:3]) != labels_of(steps[3:])
    assert steps[2].following == Position(1, 0)


def test_a_place_leads_to_the_same_steps() -> None:
    source = make_source(range(2, 12))
    whole = take(source, 6, Position())
    rest = take(source, 3, Position(1, 0))
    assert labels_of(rest) == labels_of(whole[3:])


def test_micro_batches_keep_to_the_budget_of_tokens() -> None:
    source = make_source(range(2, 12), batch_tokens=12)
    for step in take(source, 3, Position()):
        for batch in step.micro_batches:
            alone = batch.labels is not None and len(batch.labels) == 1
            assert alone or len(batch.input_ids) <= 12


@pytest.mark.parametrize("count", [2, 3, 4, 8])
def test_processes_share_the_same_steps(count: int) -> None:
    alone = take(make_source(range(2, 12)), 3, Position())
    shares = [
        take(make_source(range(2, 12), Processes(rank, count)), 3, Position())
        for rank in range(count)
    ]
    for number, step in enumerate(alone):
        found = [
            label
            for share in shares
            for label in labels_of([share[number]])
            if label != IGNORE_INDEX
        ]
        assert sorted(found) == sorted(labels_of([step]))
        assert {share[number].num_tokens for share in shares} == {
            step.num_tokens
        }
        assert all(share[number].micro_batches for share in shares)
