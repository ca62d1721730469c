"""Where batches come from: a place in the data, and what follows it."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Protocol, Self

from bert_from_scratch.data.batch import Batch


@dataclass(frozen=True)
class Position:
    """A place in the data, from which training can go on.

    Attributes:
        epoch: Number of complete passes, in this phase.
        cursor: Steps taken in this pass.
        phase: Number of complete phases.
        epochs_before: Passes made in the phases before this one.
    """

    epoch: int = 0
    cursor: int = 0
    phase: int = 0
    epochs_before: float = 0.0


@dataclass(frozen=True)
class StepData:
    """The batches of one step.

    Attributes:
        micro_batches: For this process, on the CPU.
        num_tokens: Real tokens of the step, over all processes.
        following: The place after this step.
    """

    micro_batches: list[Batch]
    num_tokens: int
    following: Position

    def pin_memory(self) -> Self:
        """Returns the same step where a GPU can fetch it by itself."""
        batches = [batch.pin_memory() for batch in self.micro_batches]
        return replace(self, micro_batches=batches)


class StepSource(Protocol):
    """Data to train on, the same for any number of processes."""

    def steps(self, position: Position) -> Iterator[StepData]:
        """Yields steps from a place on, without end."""

    def num_steps(self, epoch: int) -> int:
        """Returns how many steps an epoch has, in the first phase."""

    def epochs_done(self, position: Position) -> float:
        """Returns how many passes lie before a place."""

    def advance(self, position: Position, progress: float) -> Position:
        """Returns where to go on when so much of the budget is used up.

        That is the same place, or the beginning of a later phase.
        """

    def finish(self, batch: Batch, step: int, phase: int = 0) -> Batch:
        """Completes a batch that has moved to its device: draws masks."""
