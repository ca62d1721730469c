"""Items: what is drawn as one when batches are made."""

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
