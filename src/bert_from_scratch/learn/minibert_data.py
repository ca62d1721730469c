"""MiniBert's exercise: short sentences, one word hidden in each.

Letters: B sentences, S positions, D width of a vector, V words.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Self, TypeAlias

import numpy as np

from bert_from_scratch.errors import BertError
from bert_from_scratch.learn.minibert_layers import Floats, Ints
from bert_from_scratch.learn.syllabus import NUM_EPOCHS

Parameters: TypeAlias = dict[str, Floats]

MASK = "[MASK]"


@dataclass(frozen=True)
class Vocabulary:
    """The words of some sentences in alphabetical order, [MASK] last."""

    words: tuple[str, ...]

    @classmethod
    def of(cls, sentences: Sequence[str]) -> Self:
        """Collects the words of sentences."""
        words = {word for line in sentences for word in line.split()}
        return cls((*sorted(words), MASK))

    def __len__(self) -> int:
        return len(self.words)

    def encode(self, sentence: str) -> list[int]:
        """Returns the numbers of the words of a sentence."""
        words = sentence.split()
        for word in words:
            if word not in self.words:
                raise BertError(f"MiniBert does not know the word {word!r}.")
        return [self.words.index(word) for word in words]


@dataclass(frozen=True)
class MaskedBatch:
    """Sentences of one length, each with one hidden word.

    Attributes:
        input_ids: Word numbers, [MASK] in the hidden place, int [B, S].
        mlm_positions: The hidden place of each sentence, int [B].
        mlm_labels: The word that was there, int [B].
        dropout_scale: What attention's output is multiplied by: 0 where it
            is dropped, 1 / (1 - rate) elsewhere, float [B, S, D]; 1 where
            nothing is dropped.
    """

    input_ids: Ints
    mlm_positions: Ints
    mlm_labels: Ints
    dropout_scale: Floats


@dataclass(frozen=True)
class Exercise:
    """How MiniBert is trained; the defaults are the tutorial's.

    Attributes:
        sentences: The text.
        width: Width of every vector, D.
        dropout: Share of attention's output that is dropped.
        num_epochs: Times that all sentences are read.
        fresh_masks: Whether every epoch hides other words; otherwise the
            word that a sentence hides is drawn once and for all.
        with_positions: Whether words know their places.
        seed: Decides the first weights, the hidden words and the dropout.
    """

    sentences: tuple[str, ...]
    width: int = 128
    dropout: float = 0.1
    num_epochs: int = NUM_EPOCHS
    fresh_masks: bool = False
    with_positions: bool = False
    seed: int = 0

    @cached_property
    def vocabulary(self) -> Vocabulary:
        """The words of the sentences, and [MASK]."""
        return Vocabulary.of(self.sentences)

    def first_parameters(self) -> Parameters:
        """Draws the weights to start from, as BERT does: small normals."""
        generator = np.random.default_rng(self.seed)
        size, width = len(self.vocabulary), self.width
        longest = max(len(line.split()) for line in self.sentences)
        shapes = {"token": size, "query": width, "key": width, "value": width}
        shapes |= {"dense": width, "position": longest}
        drawn = {
            name: generator.normal(0, 0.02, (rows, width))
            for name, rows in shapes.items()
        }
        if not self.with_positions:
            del drawn["position"]
        return drawn | {
            "gain": np.ones(width),
            "shift": np.zeros(width),
            "dense_bias": np.zeros(width),
            "vocabulary_bias": np.zeros(size),
        }

    def epochs(self) -> Iterator[list[MaskedBatch]]:
        """Yields the batches of every epoch: one for each sentence length."""
        generator = np.random.default_rng([self.seed, 1])
        # 等长的句子放在一批：没有填充，也就不需要填充掩码
        groups = self.by_length()
        places = [_draw_places(ids, generator) for ids in groups]
        for epoch in range(self.num_epochs):
            if self.fresh_masks and epoch:
                places = [_draw_places(ids, generator) for ids in groups]
            yield [
                hide(ids, columns, len(self.vocabulary) - 1, scale)
                for ids, columns in zip(groups, places, strict=True)
                for scale in [self._draw_dropout(ids.shape, generator)]
            ]

    def by_length(self) -> list[Ints]:
        """Returns the sentences as numbers, [B, S], a length each."""
        encoded = [self.vocabulary.encode(line) for line in self.sentences]
        lengths = sorted({len(ids) for ids in encoded})
        return [
            np.array([ids for ids in encoded if len(ids) == length])
            for length in lengths
        ]

    def _draw_dropout(
        self, shape: tuple[int, ...], generator: np.random.Generator
    ) -> Floats:
        kept = generator.random((*shape, self.width)) >= self.dropout
        # 留下的放大，期望不变：预测时就不必再改
        return kept / (1 - self.dropout)


def hide(
    ids: Ints, columns: Ints, mask_id: int, dropout_scale: Floats
) -> MaskedBatch:
    """Puts [MASK] in one column of each row: ids [B, S], columns [B]."""
    rows = np.arange(len(ids))
    masked = ids.copy()
    masked[rows, columns] = mask_id
    return MaskedBatch(masked, columns, ids[rows, columns], dropout_scale)


def _draw_places(ids: Ints, generator: np.random.Generator) -> Ints:
    return generator.integers(0, ids.shape[1], len(ids))
