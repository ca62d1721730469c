"""Sentence pairs for one epoch: a pure function of seed, epoch and document.

Google's recipe (fill to a target length, cut between A and B at random, take B
from another document half of the time, put unused sentences back), for all
documents side by side. Unlike Google's code, a chunk of one sentence joins its
neighbour instead of always becoming a random pair, so both labels are equally
frequent; and a random B never comes from A's own document.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bert_from_scratch.data.ahead import Rest, never_rest
from bert_from_scratch.data.counter_random import below, permutation, uniform
from bert_from_scratch.data.shards import Documents
from bert_from_scratch.errors import BertError

IntArray = NDArray[np.int64]

SHORT_PROBABILITY = 0.1
SENTENCES_A_BLOCK = 2000
MIN_DOCUMENTS = 2


@dataclass(frozen=True)
class Sequences:
    """Token ranges that become model inputs, in the order of training.

    Attributes:
        a_start, a_length: Segment A in `TokenShards.tokens`, int64 [n].
        b_start, b_length: Segment B; length 0 where there is none.
        nsp_labels: 0 where B follows A, 1 where it is random; None when
            there are no pairs.
    """

    a_start: IntArray
    a_length: IntArray
    b_start: IntArray
    b_length: IntArray
    nsp_labels: IntArray | None

    def __len__(self) -> int:
        return len(self.a_start)

    @property
    def lengths(self) -> IntArray:
        """Length of every input, special tokens included."""
        num_special = 2 + (self.b_length > 0)
        return self.a_length + self.b_length + num_special

    def take(self, rows: IntArray) -> "Sequences":
        """Returns some of the sequences."""
        labels = self.nsp_labels
        return Sequences(
            self.a_start[rows],
            self.a_length[rows],
            self.b_start[rows],
            self.b_length[rows],
            None if labels is None else labels[rows],
        )


def plan_pairs(
    sentence_ends: IntArray,
    documents: Documents,
    max_length: int,
    seed: int,
    epoch: int,
    rest: Rest = never_rest,
) -> Sequences:
    """Plans the sentence pairs of one epoch, in training order.

    Args:
        sentence_ends: Offsets of all sentences of the corpus.
        documents: Those to use; at least two.
        max_length: Longest input, [CLS] and both [SEP] included.
        seed: Decides everything random, together with `epoch`.
        epoch: Every epoch has other pairs.
        rest: Called every now and then, for other threads' sake.
    """
    if len(documents) < MIN_DOCUMENTS:
        raise BertError(
            "Next sentence prediction needs at least two documents; there "
            f"is {len(documents)}.",
            hint="use --no-nsp, or put blank lines between documents",
        )
    recipe = _Recipe(sentence_ends, documents, max_length - 3, seed, epoch)
    document, first, last = _split_documents(documents)
    turns: list[Sequences] = []
    # 所有文档并排推进：每一轮为每篇未用完的文档各造一对，循环次数只取决于
    # 最长的文档，而不是文档总数
    while len(first):
        pairs, position = recipe.build(document, first, last)
        turns.append(pairs)
        goes_on = last - position >= 2
        document = document[goes_on]
        first, last = position[goes_on], last[goes_on]
        rest()
    planned = _concatenate(turns)
    return planned.take(permutation(len(planned), seed, epoch, _ORDER))


def plan_texts(
    sentence_ends: IntArray,
    documents: Documents,
    max_length: int,
    seed: int,
    epoch: int,
    rest: Rest = never_rest,
) -> Sequences:
    """Plans contiguous texts without pairs; arguments as in `plan_pairs`.

    A document that fits is one text; a longer one is cut into texts of full
    length, at places that differ from epoch to epoch.
    """
    del rest  # there is nothing to interrupt
    budget = max_length - 2
    starts = sentence_ends[documents.first]
    sizes = sentence_ends[documents.last] - starts
    numbers = np.arange(len(sizes))
    # 第一刀落在随机处，之后整段整段地切：每个 epoch 的切口都不同
    head = 1 + below(np.full_like(sizes, budget), seed, epoch, _CUT, numbers)
    head = np.where(sizes <= budget, sizes, np.minimum(head, sizes))
    counts = 1 + -(-(sizes - head) // budget)
    owner = np.repeat(numbers, counts)
    number = np.arange(counts.sum()) - np.repeat(
        np.cumsum(counts) - counts, counts
    )
    offset = np.where(number > 0, head[owner] + (number - 1) * budget, 0)
    length = np.where(
        number > 0, np.minimum(budget, sizes[owner] - offset), head[owner]
    )
    nothing = np.zeros_like(length)
    texts = Sequences(starts[owner] + offset, length, nothing, nothing, None)
    return texts.take(permutation(len(texts), seed, epoch, _ORDER))


# 每种用途各有编号，同一位置的不同抽签才互不相关
_ORDER, _SHORT, _TARGET, _CUT, _LABEL, _OTHER, _SENTENCE, _SIDE_A, _SIDE_B = (
    range(9)
)


@dataclass(frozen=True)
class _Recipe:
    """One epoch's way from sentences to pairs."""

    sentence_ends: IntArray
    documents: Documents
    budget: int
    seed: int
    epoch: int

    def build(
        self, document: IntArray, first: IntArray, last: IntArray
    ) -> tuple[Sequences, IntArray]:
        """Builds one pair from sentences `first` ... `last` of each document.

        Returns:
            The pairs, and the first sentence that each left unused.
        """
        ends = self.sentence_ends
        target = self._draw_targets(first)
        end = np.searchsorted(ends, ends[first] + target)
        # 至少两句才成对；末尾若只剩一句，也并进来，不让它落单
        end = np.clip(end, first + 2, last)
        end = np.where(last - end == 1, last, end)
        cut = first + 1 + below(end - first - 1, *self._key(_CUT, first))
        is_random = uniform(*self._key(_LABEL, first)) < 0.5
        a_start, a_length = ends[first], ends[cut] - ends[first]
        wanted = np.maximum(target - a_length, 1)
        b_first, b_last = self._draw_others(document, first, wanted)
        b_start = np.where(is_random, ends[b_first], ends[cut])
        b_stop = np.where(is_random, ends[b_last], ends[end])
        pairs = self._truncate(
            first,
            Sequences(
                a_start,
                a_length,
                b_start,
                b_stop - b_start,
                is_random.astype(np.int64),
            ),
        )
        # 随机对没用到后半段，放回去留给下一对
        return pairs, np.where(is_random, cut, end)

    def _key(self, use: int, first: IntArray) -> tuple[int | IntArray, ...]:
        return self.seed, self.epoch, use, first

    def _draw_targets(self, first: IntArray) -> IntArray:
        """Full length, but a random shorter one in a tenth of all cases."""
        is_short = uniform(*self._key(_SHORT, first)) < SHORT_PROBABILITY
        limits = np.full_like(first, max(self.budget - 1, 1))
        shorter = 2 + below(limits, *self._key(_TARGET, first))
        return np.where(is_short, shorter, self.budget)

    def _draw_others(
        self, document: IntArray, first: IntArray, wanted: IntArray
    ) -> tuple[IntArray, IntArray]:
        """Draws sentences of about `wanted` tokens from other documents."""
        ends, documents = self.sentence_ends, self.documents
        count = len(documents)
        # 步长取 1 到 D-1 之间，绕一圈也回不到自己：随机段永不来自同一篇
        step = 1 + below(
            np.full_like(document, count - 1), *self._key(_OTHER, first)
        )
        other = (document + step) % count
        other_first, other_last = documents.first[other], documents.last[other]
        b_first = other_first + below(
            other_last - other_first, *self._key(_SENTENCE, first)
        )
        b_last = np.searchsorted(ends, ends[b_first] + wanted)
        return b_first, np.clip(b_last, b_first + 1, other_last)

    def _truncate(self, first: IntArray, pairs: Sequences) -> Sequences:
        """Cuts the longer segment first, from random sides, to the budget."""
        a, b = pairs.a_length, pairs.b_length
        shorter = np.minimum(a, b)
        fits = a + b <= self.budget
        keep = np.where(fits, shorter, np.minimum(shorter, self.budget // 2))
        room = np.where(fits, np.maximum(a, b), self.budget - keep)
        keep_a = np.where(a <= b, keep, np.minimum(a, room))
        keep_b = np.where(a <= b, np.minimum(b, room), keep)
        skip_a = below(a - keep_a + 1, *self._key(_SIDE_A, first))
        skip_b = below(b - keep_b + 1, *self._key(_SIDE_B, first))
        return Sequences(
            pairs.a_start + skip_a,
            keep_a,
            pairs.b_start + skip_b,
            keep_b,
            pairs.nsp_labels,
        )


def _split_documents(
    documents: Documents,
) -> tuple[IntArray, IntArray, IntArray]:
    """Cuts long documents into blocks; returns document, first, last.

    Blocks keep the number of turns small; those of one sentence are left out,
    since no pair can be made of them.
    """
    sizes = documents.last - documents.first
    counts = np.maximum(-(-sizes // SENTENCES_A_BLOCK), 1)
    document = np.repeat(np.arange(len(sizes)), counts)
    number = np.arange(counts.sum()) - np.repeat(
        np.cumsum(counts) - counts, counts
    )
    first = documents.first[document] + number * SENTENCES_A_BLOCK
    last = np.minimum(first + SENTENCES_A_BLOCK, documents.last[document])
    usable = last - first >= 2
    return document[usable], first[usable], last[usable]


def _concatenate(parts: list[Sequences]) -> Sequences:
    if not parts:
        raise BertError(
            "No sentence pair can be made: every document has one sentence.",
            hint="use --no-nsp",
        )
    labels = [part.nsp_labels for part in parts if part.nsp_labels is not None]
    return Sequences(
        np.concatenate([part.a_start for part in parts]),
        np.concatenate([part.a_length for part in parts]),
        np.concatenate([part.b_start for part in parts]),
        np.concatenate([part.b_length for part in parts]),
        np.concatenate(labels),
    )
