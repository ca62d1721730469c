"""Phases: short sequences and small batches first, larger ones later."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise

from bert_from_scratch.data.batch import Batch
from bert_from_scratch.data.pretraining import PretrainingData
from bert_from_scratch.data.steps import Position, StepData
from bert_from_scratch.errors import BertError

TOLERANCE = 1e-6


@dataclass(frozen=True)
class Phase:
    """A length, how much of the budget it gets, and what else is different.

    Attributes:
        max_length: Longest sequence.
        share: Part of the budget, over 0 and up to 1.
        batch_tokens: Tokens a step, a multiple of the run's; None: the run's.
        mask_rate: Share of tokens that are hidden; None: the run's.
    """

    max_length: int
    share: float = 1.0
    batch_tokens: int | None = None
    mask_rate: float | None = None


def read_phases(text: str) -> tuple[Phase, ...]:
    """Reads the form of the command line.

    >>> read_phases("128:0.9,512:0.1")[1].max_length
    512
    >>> read_phases("128:0.3,128:0.7:131072:0.15")[1].batch_tokens
    131072
    """
    try:
        phases = tuple(_read_phase(part) for part in text.split(","))
    except ValueError as error:
        raise BertError(
            f"--phases {text} is not of the form "
            "LENGTH:SHARE[:BATCH_TOKENS[:MASK_RATE]],...",
            hint="as in the paper: --phases 128:0.9,512:0.1",
        ) from error
    total = sum(phase.share for phase in phases)
    if not abs(total - 1) <= TOLERANCE or any(p.share <= 0 for p in phases):
        raise BertError(
            f"The shares of --phases {text} must be positive and sum to 1, "
            f"not {total:g}."
        )
    for one, other in pairwise(phases):
        if replace(one, share=1.0) == replace(other, share=1.0):
            raise BertError(f"--phases {text} names the same phase twice.")
    return phases


def _read_phase(text: str) -> Phase:
    length, share, *rest = text.split(":")
    if len(rest) > 2:
        raise ValueError(text)
    # 空着的一项照整个训练的设置：128:0.5::0.3 只改遮盖率
    batch, rate = (*rest, "", "")[:2]
    return Phase(
        int(length),
        float(share),
        int(batch) if batch else None,
        float(rate) if rate else None,
    )


class PhasedData:
    """Pre-training data of several kinds, one after the other."""

    def __init__(
        self, phases: Sequence[Phase], data: Sequence[PretrainingData]
    ) -> None:
        """Puts phases in order.

        Args:
            phases: Lengths and shares.
            data: One for every phase.
        """
        self.data = list(data)
        self._ends = list(accumulate(phase.share for phase in phases))

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

    def finish(self, batch: Batch, step: int, phase: int = 0) -> Batch:
        """Draws the masks of a step, where the batch now lies."""
        return self.data[phase].finish(batch, step)
