"""Batches for pre-training: planned by epoch, cut by step and process."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Self

import numpy as np

from bert_from_scratch.data.ahead import Ahead, Rest
from bert_from_scratch.data.assembly import SpecialIds, StaticSizes, assemble
from bert_from_scratch.data.batch import Batch
from bert_from_scratch.data.masking import MaskingRule, mask_tokens
from bert_from_scratch.data.packing import pack_rows
from bert_from_scratch.data.pairs import (
    IntArray,
    Sequences,
    plan_pairs,
    plan_texts,
)
from bert_from_scratch.data.shards import Documents, TokenShards
from bert_from_scratch.data.steps import Position, StepData
from bert_from_scratch.data.word_starts import find_word_starts
from bert_from_scratch.errors import BertError
from bert_from_scratch.tokenizer import WordPieceTokenizer

ROWS_A_STEP = 16
SEQUENCES_A_ROW = 4


@dataclass(frozen=True)
class BatchShape:
    """How much goes into a step, and how it is divided.

    Attributes:
        max_length: Longest sequence.
        row_tokens: Tokens of a row, the unit that is never divided.
        num_rows: Rows a step, over all processes.
        num_accumulated: Micro-batches a step on every process.
        rank: This process.
        num_processes: All processes.
    """

    max_length: int
    row_tokens: int
    num_rows: int
    num_accumulated: int = 1
    rank: int = 0
    num_processes: int = 1

    def __post_init__(self) -> None:
        parts = self.num_processes * self.num_accumulated
        if self.num_rows % parts:
            raise BertError(
                f"A step of {self.num_rows} rows does not divide into "
                f"{self.num_processes} processes x {self.num_accumulated} "
                "micro-batches.",
                hint="raise --batch-tokens to a multiple",
            )

    @classmethod
    def plan(
        cls,
        batch_tokens: int,
        max_length: int,
        num_accumulated: int = 1,
        rank: int = 0,
        num_processes: int = 1,
    ) -> Self:
        """Divides a step of about `batch_tokens` tokens into rows.

        The rows do not depend on the number of processes, so neither does
        the order of the data.
        """
        if batch_tokens < max_length:
            raise BertError(
                f"--batch-tokens {batch_tokens} cannot hold one sequence of "
                f"--max-length {max_length}."
            )
        row_tokens = max(
            batch_tokens // ROWS_A_STEP, SEQUENCES_A_ROW * max_length
        )
        # 行数取整之后再分：装不满一行的零头不该白白丢掉
        row_tokens = batch_tokens // max(batch_tokens // row_tokens, 1)
        return cls(
            max_length,
            row_tokens,
            batch_tokens // row_tokens,
            num_accumulated,
            rank,
            num_processes,
        )

    def multiplied(self, factor: int) -> Self:
        """Returns steps of so many times as many micro-batches."""
        return replace(
            self,
            num_rows=factor * self.num_rows,
            num_accumulated=factor * self.num_accumulated,
        )

    @property
    def rows_a_micro_batch(self) -> int:
        """Rows that go through the model at once."""
        return self.num_rows // (self.num_processes * self.num_accumulated)

    def own_rows(self, cursor: int) -> list[range]:
        """Returns this process's rows of a step, by micro-batch."""
        first = cursor * self.num_rows
        parts = self.num_processes * self.num_accumulated
        size = self.rows_a_micro_batch
        return [
            range(first + part * size, first + (part + 1) * size)
            for part in range(self.rank, parts, self.num_processes)
        ]


class SharedShape:
    """One shape of micro-batches, of one length, for all epochs and phases."""

    def __init__(self, mask_rate: float) -> None:
        """Begins with no shape at all.

        Args:
            mask_rate: The highest of all phases that share the shape.
        """
        self._mask_rate = mask_rate
        self.sizes: StaticSizes | None = None

    def hold(self, shape: BatchShape, plan: "EpochPlan") -> None:
        """Makes it large enough for every micro-batch, and some more."""
        num_rows = shape.rows_a_micro_batch
        num_tokens = num_rows * shape.row_tokens
        num_filler = num_rows + 1
        largest = num_rows * plan.longest_row + num_filler
        if self.sizes is not None and self.sizes.num_sequences >= largest:
            return
        # 留一成余量：以后的 epoch 略有出入时，不必改变形状而重新编译
        num_sequences = _round_up(int(1.1 * largest), 64)
        # 取整最多多出半个词，极短的序列至少要遮一个词，多得更多
        surplus = np.maximum(1 - self._mask_rate * plan.lengths, 0.5).mean()
        num_slots = int(self._mask_rate * num_tokens + num_sequences * surplus)
        num_slots = _round_up(num_slots, 128)
        self.sizes = StaticSizes(num_tokens, num_sequences, num_slots)


@dataclass(frozen=True)
class EpochPlan:
    """The sequences of one epoch, their lengths, and the rows they fill."""

    sequences: Sequences
    lengths: IntArray
    rows: list[IntArray]

    @cached_property
    def longest_row(self) -> int:
        """Number of sequences in the row that has the most."""
        return max(map(len, self.rows))


class PretrainingData:
    """Token shards as an endless row of steps."""

    def __init__(
        self,
        shards: TokenShards,
        tokenizer: WordPieceTokenizer,
        shape: BatchShape,
        rule: MaskingRule,
        seed: int,
        *,
        documents: Documents | None = None,
        with_pairs: bool = True,
        whole_word: bool = False,
        shapes: SharedShape | None = None,
        first_epoch: int = 0,
    ) -> None:
        """Prepares the data; nothing is planned yet.

        Args:
            shards: The corpus.
            tokenizer: That made its ids.
            shape: How much goes into a step.
            rule: What to hide.
            seed: Decides order, pairs and masks.
            documents: Those to use; None: all.
            with_pairs: Whether to make sentence pairs.
            whole_word: Whether to hide whole words.
            shapes: The one shape that all batches have; None: each its own.
            first_epoch: What epoch 0 is counted as: another number draws
                another order and other pairs.
        """
        self.shards = shards
        self.documents = shards.documents() if documents is None else documents
        self.shape = shape
        self.rule = rule
        self.seed = seed
        self.plan_sequences = plan_pairs if with_pairs else plan_texts
        self._special = SpecialIds(
            tokenizer.pad_token_id,
            tokenizer.cls_token_id,
            tokenizer.sep_token_id,
        )
        self._shapes = shapes
        self._first_epoch = first_epoch
        self._words = (
            find_word_starts(shards, tokenizer) if whole_word else None
        )
        # 只留最近两个 epoch 的计划：换 epoch 时预取可能同时用到
        self._plans = Ahead(self._plan, num_kept=2)

    def plan(self, epoch: int) -> EpochPlan:
        """Returns what an epoch consists of."""
        plan = self._plans(epoch)
        if self._shapes is not None:
            # 用到时才放大形状：提前算好的计划不该改变这一轮的批次
            self._shapes.hold(self.shape, plan)
        return plan

    def _plan(self, epoch: int, rest: Rest) -> EpochPlan:
        sequences = self.plan_sequences(
            self.shards.sentence_ends,
            self.documents,
            self.shape.max_length,
            self.seed,
            self._first_epoch + epoch,
            rest,
        )
        lengths = sequences.lengths
        rows = pack_rows(lengths, self.shape.row_tokens, rest)
        return EpochPlan(sequences, lengths, rows)

    @property
    def sizes(self) -> StaticSizes | None:
        """What every batch is filled up to; None: nothing is."""
        return None if self._shapes is None else self._shapes.sizes

    def num_steps(self, epoch: int) -> int:
        """Returns how many steps an epoch has; the last may be smaller."""
        return -(-len(self.plan(epoch).rows) // self.shape.num_rows)

    def epochs_done(self, position: Position) -> float:
        """Returns how many passes lie before a place."""
        part = position.cursor / self.num_steps(position.epoch)
        return position.epochs_before + position.epoch + part

    def advance(self, position: Position, progress: float) -> Position:
        """Returns the same place: here there is one phase."""
        del progress
        return position

    def sample(self, num_tokens: int) -> Iterator[Batch]:
        """Yields masked batches for evaluation, always the same ones."""
        plan = self.plan(0)
        num_rows = max(num_tokens // self.shape.row_tokens, 1)
        size = self.shape.rows_a_micro_batch
        for first in range(0, min(num_rows, len(plan.rows)), size):
            rows = range(first, min(first + size, len(plan.rows)))
            yield self.finish(self.batch(plan, list(rows)), step=0)

    def steps(self, position: Position) -> Iterator[StepData]:
        """Yields steps from a place on, without end."""
        epoch, cursor = position.epoch, position.cursor
        while True:
            for number in range(cursor, self.num_steps(epoch)):
                is_last = number + 1 == self.num_steps(epoch)
                place = (epoch + 1, 0) if is_last else (epoch, number + 1)
                following = replace(position, epoch=place[0], cursor=place[1])
                if 2 * number >= self.num_steps(epoch):
                    # 下一轮的计划趁早在后台慢慢做：换轮时不必等它
                    self._plans.begin(epoch + 1)
                yield self._step(epoch, number, following)
            epoch, cursor = epoch + 1, 0

    def _step(self, epoch: int, cursor: int, following: Position) -> StepData:
        plan = self.plan(epoch)
        first = cursor * self.shape.num_rows
        all_rows = plan.rows[first : first + self.shape.num_rows]
        num_tokens = sum(int(plan.lengths[row].sum()) for row in all_rows)
        batches = [
            self.batch(plan, [r for r in rows if r < len(plan.rows)])
            for rows in map(list, self.shape.own_rows(cursor))
        ]
        return StepData(batches, num_tokens, following)

    def batch(self, plan: EpochPlan, rows: list[int]) -> Batch:
        """Assembles some rows of an epoch."""
        nothing = np.empty(0, dtype=np.int64)
        chosen = np.concatenate([nothing, *(plan.rows[row] for row in rows)])
        # 按长度排好：CPU 上等长的相邻序列可以并成一次注意力计算
        by_length = np.argsort(plan.lengths[chosen], kind="stable")
        chosen = chosen[by_length]
        # 末步行数不够分时，多出的进程拿一条没有标签的填料，照常参与通信
        sizes = self.sizes if rows else self.sizes or StaticSizes(2, 1, 1)
        return assemble(
            self.shards.tokens,
            plan.sequences.take(chosen),
            chosen,
            self._special,
            self.shape.max_length,
            sizes,
            self._words,
        )

    def finish(self, batch: Batch, step: int, phase: int = 0) -> Batch:
        """Draws the masks of a step, where the batch now lies."""
        del phase
        num_slots = None if self.sizes is None else self.sizes.num_slots
        return mask_tokens(batch, self.rule, self.seed, step, num_slots)


def _round_up(number: int, multiple: int) -> int:
    return -(-number // multiple) * multiple
