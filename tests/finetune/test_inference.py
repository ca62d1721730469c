"""Results belong to their items, however batches are cut and read."""

from collections.abc import Iterator, Sequence
from typing import Any, cast

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from bert_from_scratch.data.batch import Batch, pack
from bert_from_scratch.finetune.encoding import TextSequence
from bert_from_scratch.finetune.inference import run_batches, run_model
from bert_from_scratch.finetune.items import Item
from bert_from_scratch.finetune.task import Task

CPU = torch.device("cpu")


def make_sequence(ids: Sequence[int]) -> TextSequence:
    return TextSequence(np.array(ids, np.int32), np.zeros(len(ids), np.uint8))


def make_items(count: int) -> list[Item]:
    """Texts of 2 to 6 tokens; the first one tells the number of the text."""
    return [
        Item((make_sequence([number + 1] * (2 + number * 3 % 5)),))
        for number in range(count)
    ]


class Packer:
    """A task that does nothing but pack."""

    def collate(self, items: Sequence[Item]) -> Batch:
        return pack([s for item in items for s in item.sequences])


class Sums(nn.Module):
    """Says the sum of its ids of every sequence, float [B]."""

    def logits(self, batch: Batch) -> Tensor:
        sums = torch.zeros(len(batch.cu_seqlens) - 1)  # type: ignore[arg-type]
        return sums.index_add(0, batch.token_owners(), batch.input_ids.float())


class Echo(nn.Module):
    """Says of every token its id and its place, float [T, 2]."""

    def logits(self, batch: Batch) -> Tensor:
        both = (batch.input_ids, batch.position_ids)
        return torch.stack(both, dim=-1).float()


class Product(nn.Module):
    """A matrix product, which autocast computes in half precision."""

    def logits(self, batch: Batch) -> Tensor:
        rows = batch.input_ids.float()[:, None]
        return nn.functional.linear(rows / 3, torch.full((1, 1), 1 / 3))


def run(model: nn.Module, items: list[Item], **options: Any) -> list[Any]:
    task = cast("Task[Any, Any]", Packer())
    return run_model(task, model, items, CPU, **options)


@pytest.mark.parametrize("batch_tokens", [None, 1, 7, 16])
@pytest.mark.parametrize("count", [0, 1, 2, 7, 100])
def test_every_item_gets_its_own_numbers(
    count: int, batch_tokens: int | None
) -> None:
    items = make_items(count)
    sums = run(Sums(), items, batch_tokens=batch_tokens)
    tokens = run(Echo(), items, batch_tokens=batch_tokens)
    for number in range(count):
        length = 2 + number * 3 % 5
        np.testing.assert_array_equal(sums[number], [(number + 1) * length])
        expected = [(number + 1, place) for place in range(length)]
        np.testing.assert_array_equal(tokens[number], expected)
    assert len(sums) == len(tokens) == count


@pytest.mark.parametrize("batch_tokens", [None, 7])
def test_the_scores_of_choices_come_together(batch_tokens: int | None) -> None:
    items = [
        Item((make_sequence([1, 1]), make_sequence([2, 2, 2]))),
        Item(tuple(make_sequence([n] * 4) for n in (3, 4, 5))),
    ]
    first, second = run(Sums(), items, batch_tokens=batch_tokens)
    np.testing.assert_array_equal(first.ravel(), [2, 6])
    np.testing.assert_array_equal(second.ravel(), [12, 16, 20])


def test_half_precision_is_near_and_not_the_same() -> None:
    items = make_items(20)
    exact = np.concatenate(run(Product(), items))
    rounded = np.concatenate(run(Product(), items, half=True))
    assert exact.dtype == rounded.dtype == np.float32
    assert 0 < np.abs(rounded / exact - 1).max() < 1e-2


def test_progress_counts_every_item_once() -> None:
    counts: list[int] = []
    run(Sums(), make_items(50), batch_tokens=9, progress=counts.append)
    assert sum(counts) == 50
    assert len(counts) > 10


def test_numbers_are_read_when_the_next_batch_is_on_its_way() -> None:
    events: list[str] = []

    def batches() -> Iterator[tuple[int, Batch]]:
        for number in range(3):
            yield number, pack([make_sequence([number, number])])

    def compute(batch: Batch) -> Tensor:
        events.append(f"compute {int(batch.input_ids[0])}")
        return batch.input_ids.double()

    for number, numbers in run_batches(batches(), compute, CPU):
        events.append(f"read {number}")
        assert numbers.dtype == np.float32
        assert numbers.tolist() == [number, number]
    assert events == [
        *("compute 0", "compute 1", "read 0"),
        *("compute 2", "read 1", "read 2"),
    ]


@pytest.mark.gpu
@pytest.mark.parametrize("count", [0, 1, 2, 501])
def test_a_gpu_that_nobody_waits_for_loses_and_swaps_nothing(
    count: int,
) -> None:
    gpu = torch.device("cuda")
    batches = (
        (number, pack([make_sequence([number, 7])])) for number in range(count)
    )

    def compute(batch: Batch) -> Tensor:
        # 一个慢的乘积：数字还没算完就被读走的话，这里会露出来
        slow = torch.ones(2048, 2048, device=gpu)
        return batch.input_ids + (slow @ slow - 2048).sum()

    found = list(run_batches(batches, compute, gpu))
    assert [number for number, _ in found] == list(range(count))
    for number, numbers in found:
        assert numbers.tolist() == [number, 7]
