"""What a model says of one batch: sums and counts, ready to be averaged.

A mean of means is wrong as soon as batches differ in size. So a model returns
sums, and whoever knows the whole step (all of its micro-batches, on all
processes) divides.
"""

from dataclasses import dataclass, replace
from typing import Self

from torch import Tensor

from bert_from_scratch.data.batch import IGNORE_INDEX


@dataclass(frozen=True)
class Part:
    """One part of the loss, summed over its labels.

    Attributes:
        total: Sum of the losses, a scalar with a gradient.
        count: Number of labels, a scalar.
        correct: Number of labels that were guessed right, a scalar.
    """

    total: Tensor
    count: Tensor
    correct: Tensor

    @property
    def mean(self) -> Tensor:
        """The mean over this batch; 0 (not NaN) where nothing is labelled."""
        # 除以真正带标签的个数，而不是 B*S，否则损失随填充量变化
        return self.total / self.count.clamp(min=1)

    def detach(self) -> Self:
        """Returns the numbers without the way back."""
        return replace(self, total=self.total.detach())


@dataclass(frozen=True)
class StepOutput:
    """The parts of a loss by name, such as "mlm" and "nsp"."""

    parts: dict[str, Part]

    @property
    def loss(self) -> Tensor:
        """The loss of this batch by itself: the sum of the parts' means."""
        first, *others = (part.mean for part in self.parts.values())
        return sum(others, start=first)


def count_labels(labels: Tensor) -> Tensor:
    """Counts the labels that are not IGNORE_INDEX, a scalar."""
    return (labels != IGNORE_INDEX).sum()
