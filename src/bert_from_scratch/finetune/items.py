"""Items: what is drawn as one when batches are made."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from bert_from_scratch.data.batch import TokenSequence


@dataclass(frozen=True)
class Item:
    """One sequence to learn from, or all choices of one question.

    Attributes:
        sequences: What the model reads.
        labels: What it should say, in the form its task gives it; None:
            not labelled.
        example: Number of the example that it was made of.
    """

    sequences: tuple[TokenSequence, ...]
    labels: Any = None
    example: int = 0

    @property
    def num_tokens(self) -> int:
        """Tokens of all its sequences."""
        return sum(len(sequence.input_ids) for sequence in self.sequences)


def cut_by_tokens(
    items: Sequence[Item], batch_tokens: int
) -> Iterator[list[Item]]:
    """Cuts items into batches of at most so many tokens, in their order.

    An item that is longer by itself makes a batch of its own.
    """
    batch: list[Item] = []
    num_tokens = 0
    for item in items:
        if batch and num_tokens + item.num_tokens > batch_tokens:
            yield batch
            batch, num_tokens = [], 0
        batch.append(item)
        num_tokens += item.num_tokens
    if batch:
        yield batch


def longest_first(items: Sequence[Item]) -> list[int]:
    """Returns the numbers of the items, those with most tokens first."""
    # 等长的排在一起：CPU 上的注意力可以成组计算，内存不够时第一批就暴露
    return sorted(range(len(items)), key=lambda i: -items[i].num_tokens)
