"""Phases: short sequences for most of the budget, long ones at the end."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

from bert_from_scratch.data.batch import Batch
from bert_from_scratch.data.pretraining import PretrainingData
from bert_from_scratch.data.steps import Position, StepData
from bert_from_scratch.errors import BertError

TOLERANCE = 1e-6


@dataclass(frozen=True)
class Phase:
    """A length, and how much of the budget it gets.

    Attributes:
        max_length: Longest sequence.
        share: Part of the budget, over 0 and up to 1.
    """

    max_length: int
    share: float = 1.0


def read_phases(text: str) -> tuple[Phase, ...]:
    """Reads the form of the command line.

    >>> read_phases("128:0.9,512:0.1")
    (Phase(max_length=128, share=0.9), Phase(max_length=512, share=0.1))
    """
    try:
        pairs = [part.split(":") for part in text.split(",")]
        phases = [Phase(int(length), float(share)) for length, share in pairs]
    except ValueError as error:
        raise BertError(
            f"--phases {text} is not of the form LENGTH:SHARE,LENGTH:SHARE.",
            hint="as in the paper: --phases 128:0.9,512:0.1",
        ) from error
    total = sum(phase.share for phase in phases)
    if not abs(total - 1) <= TOLERANCE or any(p.share <= 0 for p in phases):
        raise BertError(
            f"The shares of --phases {text} must be positive and sum to 1, "
            f"not {total:g}."
        )
    if len({phase.max_length for phase in phases}) < len(phases):
        raise BertError(f"--phases {text} names a length twice.")
    return tuple(phases)


class PhasedData:
    """Pre-training data of several lengths, one after the other."""

    def __init__(
        self, phases: Sequence[Phase], data: Sequence[PretrainingData]
    ) -> None:
        """Puts phases in order.

        Args:
            phases: Lengths and shares.
            data: One for every phase, of its length.
        """
        self.data = list(data)
        self._ends = list(accumulate(phase.share for phase in phases))
        self._by_length = {part.shape.max_length: part for part in self.data}

    def steps(self, position: Position) -> Iterator[StepData]:
        """Yields steps of the phase of a place, without end."""
        return self.data[position.phase].steps(position)

    def num_steps(self, epoch: int) -> int:
        """Returns how many steps an epoch of the first phase has."""
        return self.data[0].num_steps(epoch)

    def epochs_done(self, position: Position) -> float:
        """Returns how many passes lie before a place, over all phases."""
        return self.data[position.phase].epochs_done(position)

    def advance(self, position: Position, progress: float) -> Position:
        """Returns the place itself, or the beginning of a later phase."""
        ends = self._ends[:-1]
        phase = sum(progress >= end - TOLERANCE for end in ends)
        if phase <= position.phase:
            return position
        # 记下此前走过的遍数：按遍数的预算才知道已用了多少
        return Position(phase=phase, epochs_before=self.epochs_done(position))

    def finish(self, batch: Batch, step: int) -> Batch:
        """Draws the masks of a step, where the batch now lies."""
        # 各阶段长度不同，批次的长度上限就说明它属于哪个阶段
        return self._by_length[batch.max_seqlen].finish(batch, step)
