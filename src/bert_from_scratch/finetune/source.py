"""Steps of fine-tuning: a number of items each, packed without padding."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from torch import Tensor

from bert_from_scratch.data.batch import Batch
from bert_from_scratch.data.counter_random import permutation
from bert_from_scratch.data.filling import (
    fill_up,
    ignored_like,
    round_up_tokens,
)
from bert_from_scratch.data.steps import Position, StepData
from bert_from_scratch.data.token_budget import cut_by_tokens, longest_first
from bert_from_scratch.finetune.items import Item
from bert_from_scratch.train.processes import Processes

Collate = Callable[[Sequence[Item]], Batch]


class ItemSource:
    """Draws items in an order of its own every epoch.

    A step has `batch_size` items, as in the paper, however many processes share
    it. What one process gets is cut into micro-batches by tokens, so that
    memory is bounded and nothing is padding.
    """

    def __init__(
        self,
        items: Sequence[Item],
        collate: Collate,
        *,
        batch_size: int,
        batch_tokens: int,
        seed: int,
        processes: Processes = Processes(),  # noqa: B008
        has_few_shapes: bool = False,
    ) -> None:
        """Prepares the steps of all epochs.

        Args:
            items: What is drawn, each with labels.
            collate: Makes a packed batch of some.
            batch_size: Items a step.
            batch_tokens: Tokens of a micro-batch at the most.
            seed: Decides the order.
            processes: The group that shares every step.
            has_few_shapes: Whether batches are filled up a little, so that
                many of them have one shape.
        """
        self._items = items
        self._collate = collate
        self._batch_size = batch_size
        self._batch_tokens = batch_tokens
        self._seed = seed
        self._processes = processes
        self._has_few_shapes = has_few_shapes
        self._max_length = max(
            (len(s.input_ids) for item in items for s in item.sequences),
            default=0,
        )

    def num_steps(self, epoch: int = 0) -> int:
        """Returns how many steps an epoch has; the last may be smaller."""
        del epoch
        return -(-len(self._items) // self._batch_size)

    def epochs_done(self, position: Position) -> float:
        """Returns how many passes lie before a place."""
        return position.epoch + position.cursor / self.num_steps()

    def advance(self, position: Position, progress: float) -> Position:
        """Returns the same place: fine-tuning has one phase."""
        del progress
        return position

    def finish(self, batch: Batch, step: int, phase: int = 0) -> Batch:
        """Returns the batch as it is: there are no masks to draw."""
        del step, phase
        return batch

    def order(self, epoch: int) -> list[list[int]]:
        """Returns the numbers of the items of every step of an epoch."""
        # 次序只由种子与轮次决定：恢复时不必保存随机状态
        numbers = permutation(len(self._items), self._seed, epoch).tolist()
        size = self._batch_size
        return [numbers[i : i + size] for i in range(0, len(numbers), size)]

    def steps(self, position: Position) -> Iterator[StepData]:
        """Yields steps from a place on, without end."""
        epoch, cursor = position.epoch, position.cursor
        while True:
            steps = self.order(epoch)
            for number in range(cursor, len(steps)):
                is_last = number + 1 == len(steps)
                following = (
                    Position(epoch + 1, 0)
                    if is_last
                    else Position(epoch, number + 1)
                )
                yield self._make_step(steps[number], following)
            epoch, cursor = epoch + 1, 0

    def _make_step(self, numbers: list[int], following: Position) -> StepData:
        items = [self._items[number] for number in numbers]
        mine = items[self._processes.rank :: self._processes.count]
        if mine:
            lengths = [item.num_tokens for item in mine]
            parts = cut_by_tokens(
                longest_first(lengths), lengths, self._batch_tokens
            )
            batches = [self._make([mine[n] for n in part]) for part in parts]
        else:
            # 最后一步的条目可能少于进程数：没分到的进程也要走完，但不计损失
            batches = [_without_labels(self._collate(items[:1]))]
        num_tokens = sum(item.num_tokens for item in items)
        return StepData(batches, num_tokens, following)

    def _make(self, items: list[Item]) -> Batch:
        batch = self._collate(items)
        if not self._has_few_shapes:
            return batch
        num_tokens = sum(item.num_tokens for item in items)
        return fill_up(
            batch,
            round_up_tokens(num_tokens, self._max_length),
            (self._batch_size + 1) * len(items[0].sequences),
            self._max_length,
        )


def _without_labels(batch: Batch) -> Batch:
    return replace(
        batch,
        labels=_ignored(batch.labels),
        start_positions=_ignored(batch.start_positions),
        end_positions=_ignored(batch.end_positions),
    )


def _ignored(labels: Tensor | None) -> Tensor | None:
    return None if labels is None else ignored_like(labels)
