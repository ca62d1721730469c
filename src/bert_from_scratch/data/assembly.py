"""Token ranges to a packed `Batch`: [CLS] A [SEP] B [SEP], end to end."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from bert_from_scratch.data.batch import IGNORE_INDEX, Batch
from bert_from_scratch.data.pairs import IntArray, Sequences
from bert_from_scratch.data.word_starts import WordStarts


@dataclass(frozen=True)
class SpecialIds:
    """The ids that assembly puts in."""

    pad: int
    cls: int
    sep: int


@dataclass(frozen=True)
class StaticSizes:
    """Sizes that every batch is filled up to, so that shapes never change.

    Attributes:
        num_tokens: T.
        num_sequences: B.
        num_slots: P, prediction slots.
    """

    num_tokens: int
    num_sequences: int
    num_slots: int


def assemble(
    tokens: NDArray[Any],
    sequences: Sequences,
    keys: IntArray,
    special: SpecialIds,
    max_length: int,
    sizes: StaticSizes | None = None,
    words: WordStarts | None = None,
) -> Batch:
    """Copies token ranges into one packed batch.

    Args:
        tokens: All ids of the corpus.
        sequences: What goes into the batch.
        keys: One number a sequence that its masks depend on.
        special: Ids of the special tokens.
        max_length: Longest sequence, for the attention kernel.
        sizes: Fill up to these sizes; None: as many as there are.
        words: Where words start; None: not needed.
    """
    lengths = sequences.lengths
    starts = np.cumsum(lengths) - lengths
    num_tokens = int(lengths.sum())
    ids = np.full(num_tokens, special.sep, dtype=np.int32)
    ids[starts] = special.cls
    has_b = sequences.b_length > 0
    b_places = starts + sequences.a_length + 2
    _copy(tokens, sequences.a_start, sequences.a_length, ids, starts + 1)
    _copy(tokens, sequences.b_start, sequences.b_length, ids, b_places)
    # 段号：从 B 的第一个词到它的 [SEP] 为 1，其余为 0
    tail = np.where(has_b, sequences.b_length + 1, 0)
    edges = np.stack([lengths - tail, tail], axis=1).ravel()
    types = np.repeat(np.tile(np.array([0, 1], np.int32), len(lengths)), edges)
    places = np.arange(num_tokens) - np.repeat(starts, lengths)
    labels = sequences.nsp_labels
    marks = None
    if words is not None:
        # 特殊符号各自成词，不与相邻的词连成一体
        marks = np.ones(num_tokens, dtype=np.bool_)
        _copy(words, sequences.a_start, sequences.a_length, marks, starts + 1)
        _copy(words, sequences.b_start, sequences.b_length, marks, b_places)
    parts = _Parts(
        ids, types, places.astype(np.int32), lengths, keys, labels, marks
    )
    if sizes is not None:
        parts = parts.fill_up(sizes, special.pad, max_length)
    return parts.to_batch(max_length)


@dataclass(frozen=True)
class _Parts:
    """The arrays of a batch on their way to tensors."""

    ids: NDArray[np.int32]
    types: NDArray[np.int32]
    places: NDArray[np.int32]
    lengths: IntArray
    keys: IntArray
    labels: IntArray | None
    marks: NDArray[np.bool_] | None

    def fill_up(
        self, sizes: StaticSizes, pad: int, max_length: int
    ) -> "_Parts":
        """Adds filler tokens, in filler sequences, up to fixed sizes."""
        room = sizes.num_tokens - len(self.ids)
        # 填料也切成不超长的序列：变长注意力内核要求每条都不超过上限
        full, rest = divmod(room, max_length)
        filler = [max_length] * full + ([rest] if rest else [])
        filler += [0] * (sizes.num_sequences - len(self.lengths) - len(filler))
        nothing = np.zeros(room, np.int32)
        places = np.arange(room, dtype=np.int32) % max_length
        count = len(filler)
        return _Parts(
            np.concatenate([self.ids, nothing + np.int32(pad)]),
            np.concatenate([self.types, nothing]),
            np.concatenate([self.places, places]),
            np.concatenate([self.lengths, np.array(filler, np.int64)]),
            np.concatenate([self.keys, np.zeros(count, np.int64)]),
            None
            if self.labels is None
            else np.concatenate([self.labels, np.full(count, IGNORE_INDEX)]),
            None
            if self.marks is None
            else np.concatenate([self.marks, np.ones(room, np.bool_)]),
        )

    def to_batch(self, max_length: int) -> Batch:
        starts = np.zeros(len(self.lengths) + 1, dtype=np.int32)
        np.cumsum(self.lengths, out=starts[1:])
        return Batch(
            input_ids=torch.from_numpy(self.ids),
            token_type_ids=torch.from_numpy(self.types),
            position_ids=torch.from_numpy(self.places),
            cu_seqlens=torch.from_numpy(starts),
            max_seqlen=max_length,
            nsp_labels=None
            if self.labels is None
            else torch.from_numpy(self.labels),
            sequence_keys=torch.from_numpy(self.keys),
            word_starts=None
            if self.marks is None
            else torch.from_numpy(self.marks),
        )


def _copy(
    source: NDArray[Any] | WordStarts,
    sources: IntArray,
    lengths: IntArray,
    target: NDArray[Any],
    targets: IntArray,
) -> None:
    """Copies many ranges at once, without a Python loop."""
    within = np.arange(lengths.sum()) - np.repeat(
        np.cumsum(lengths) - lengths, lengths
    )
    from_places = np.repeat(sources, lengths) + within
    target[np.repeat(targets, lengths) + within] = source[from_places]
