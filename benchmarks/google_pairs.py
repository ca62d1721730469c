"""Sentence pairs as Google's published script makes them, for the speed table.

They fill less of a padded row than ours: the script draws a target once a
document, so that a tenth of the documents becomes many short pairs, where ours
draws one for every pair. They are what a padded trainer meets on data made by
that script.
"""

import random

import numpy as np
from numpy.typing import NDArray

from bert_from_scratch.data.ahead import Rest, never_rest
from bert_from_scratch.data.pairs import Sequences
from bert_from_scratch.data.shards import Documents

SHORT_PROBABILITY = 0.1
TRIES = 10
Range = tuple[int, int]
Pair = tuple[Range, Range, bool]


def plan_google_pairs(
    sentence_ends: NDArray[np.int64],
    documents: Documents,
    max_length: int,
    seed: int,
    epoch: int,
    rest: Rest = never_rest,
) -> Sequences:
    """Plans one epoch; takes what `data.pairs.plan_pairs` takes."""
    recipe = _Recipe(
        sentence_ends.tolist(),
        list(
            zip(documents.first.tolist(), documents.last.tolist(), strict=True)
        ),
        max_length - 3,
        random.Random(f"{seed}, {epoch}"),
    )
    pairs: list[Pair] = []
    for number in range(len(recipe.documents)):
        pairs += recipe.pairs_of(number)
        # 下一轮的计划在后台做：不歇着的话，正在计时的那一轮就慢了
        rest()
    recipe.generator.shuffle(pairs)
    numbers = np.array([(*a, *b, is_random) for a, b, is_random in pairs])
    a_start, a_stop, b_start, b_stop, labels = numbers.T
    return Sequences(
        a_start, a_stop - a_start, b_start, b_stop - b_start, labels
    )


class _Recipe:
    """The recipe, on ranges of tokens instead of lists of them."""

    def __init__(
        self,
        ends: list[int],
        documents: list[Range],
        budget: int,
        generator: random.Random,
    ) -> None:
        self.ends = ends
        self.documents = documents
        self.budget = budget
        self.generator = generator

    def pairs_of(self, number: int) -> list[Pair]:
        """Makes the pairs of one document."""
        ends, draw = self.ends, self.generator
        first, last = self.documents[number]
        # 原脚本一篇文档只抽一次：抽到短目标的文档，整篇切成许多短句对
        target = self._draw_target()
        pairs: list[Pair] = []
        chunk, place = first, first
        while place < last:
            place += 1
            if place < last and ends[place] - ends[chunk] < target:
                continue
            size = place - chunk
            cut = chunk + (draw.randint(1, size - 1) if size >= 2 else 1)
            is_random = size == 1 or draw.random() < 0.5
            a, b = (ends[chunk], ends[cut]), (ends[cut], ends[place])
            if is_random:
                b = self._draw_other(number, target - (a[1] - a[0]))
                # 没用到的句子放回去
                place = cut
            pairs.append((*self._truncate(a, b), is_random))
            chunk = place
        return pairs

    def _draw_target(self) -> int:
        if self.generator.random() < SHORT_PROBABILITY:
            return self.generator.randint(2, self.budget)
        return self.budget

    def _draw_other(self, number: int, wanted: int) -> Range:
        """Takes a second segment from a random document."""
        for _ in range(TRIES):
            other = self.generator.randrange(len(self.documents))
            if other != number:
                break
        first, last = self.documents[other]
        start = stop = self.generator.randrange(first, last)
        while stop < last:
            stop += 1
            if self.ends[stop] - self.ends[start] >= wanted:
                break
        return self.ends[start], self.ends[stop]

    def _truncate(self, a: Range, b: Range) -> tuple[Range, Range]:
        """Shortens the longer one by a token until both fit."""
        sides = [list(a), list(b)]
        sizes = [a[1] - a[0], b[1] - b[0]]
        while sum(sizes) > self.budget:
            longer = 0 if sizes[0] > sizes[1] else 1
            at_front = self.generator.random() < 0.5
            sides[longer][0 if at_front else 1] += 1 if at_front else -1
            sizes[longer] -= 1
        return (sides[0][0], sides[0][1]), (sides[1][0], sides[1][1])
