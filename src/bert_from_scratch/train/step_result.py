"""What came of one step: taken at once, read when the numbers are here."""

import math
from dataclasses import dataclass, field
from typing import Self

import torch
from torch import Tensor

from bert_from_scratch.errors import BertError
from bert_from_scratch.train.checkpoint import TrainingState
from bert_from_scratch.train.evaluation import PartResult, Totals
from bert_from_scratch.train.late_numbers import LateNumbers


@dataclass(frozen=True)
class StepResult:
    """The numbers of one step.

    Attributes:
        step: Its number, counted from 1.
        loss: Sum of the parts' losses.
        parts: Loss and accuracy by part.
        learning_rate: That was used.
        gradient_norm: Before clipping.
        num_tokens: Real tokens, over all processes.
        wait_seconds: Spent on waiting for data.
    """

    step: int
    loss: float
    parts: dict[str, PartResult]
    learning_rate: float
    gradient_norm: float
    num_tokens: int
    wait_seconds: float = field(default=0.0, compare=False)

    @property
    def is_finite(self) -> bool:
        """Whether loss and gradient are numbers."""
        return math.isfinite(self.loss) and math.isfinite(self.gradient_norm)


class NonFiniteLossError(BertError):
    """Loss or gradient is not a finite number; the step was not taken.

    Attributes:
        result: The step that was not taken.
    """

    def __init__(self, result: StepResult) -> None:
        parts = (f"{n} {p.loss}" for n, p in result.parts.items())
        super().__init__(
            f"The loss is {result.loss} at step {result.step} "
            f"({', '.join(parts)}), the norm of its gradient "
            f"{result.gradient_norm}.",
            hint="start a new run with a lower --lr or a longer warm-up",
        )
        self.result = result


@dataclass(frozen=True)
class TakenStep:
    """A step whose numbers may still be on their way from the device.

    Attributes:
        before: Where training stood before it.
    """

    before: TrainingState
    learning_rate: float
    num_tokens: int
    wait_seconds: float
    _names: tuple[str, ...]
    _numbers: LateNumbers

    @classmethod
    def of(
        cls,
        totals: dict[str, Totals],
        gradient_norm: Tensor,
        *,
        before: TrainingState,
        learning_rate: float,
        num_tokens: int,
        wait_seconds: float,
    ) -> Self:
        """Sends the numbers off, without waiting for them."""
        sums = [total.sums for total in totals.values()]
        numbers = torch.cat([*sums, gradient_norm.to(sums[0].dtype).reshape(1)])
        return cls(
            before,
            learning_rate,
            num_tokens,
            wait_seconds,
            tuple(totals),
            LateNumbers.send(numbers),
        )

    def read(self) -> StepResult:
        """Waits until the numbers are here."""
        *sums, norm = self._numbers.read().tolist()
        parts = {
            name: Totals.average(*sums[3 * index : 3 * index + 3])
            for index, name in enumerate(self._names)
        }
        return StepResult(
            step=self.before.step + 1,
            loss=sum(part.loss for part in parts.values()),
            parts=parts,
            learning_rate=self.learning_rate,
            gradient_norm=norm,
            num_tokens=self.num_tokens,
            wait_seconds=self.wait_seconds,
        )
