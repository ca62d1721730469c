"""Loss and accuracy over many batches: sums first, one division at the end."""

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import nn

from bert_from_scratch.data.batch import Batch
from bert_from_scratch.objectives.output import Part


@dataclass(frozen=True)
class PartResult:
    """One part of the loss over a whole step or evaluation."""

    loss: float
    accuracy: float


class Totals:
    """Sums of one part over some batches, kept on the device."""

    def __init__(self, device: torch.device) -> None:
        # 苹果的 GPU 没有 float64
        dtype = torch.float32 if device.type == "mps" else torch.float64
        self.sums = torch.zeros(3, dtype=dtype, device=device)

    def add(self, part: Part) -> None:
        """Adds the sums of one batch."""
        numbers = (part.total.detach(), part.correct, part.count)
        self.sums += torch.stack([n.to(self.sums.dtype) for n in numbers])

    def mean(self) -> PartResult:
        """Returns the means; the only wait for the device."""
        return self.average(*self.sums.tolist())

    @staticmethod
    def average(total: float, correct: float, count: float) -> PartResult:
        """Divides the sums."""
        return PartResult(total / max(count, 1), correct / max(count, 1))


@torch.inference_mode()
def evaluate_batches(
    model: nn.Module, batches: Iterable[Batch], device: torch.device
) -> dict[str, PartResult]:
    """Evaluates a model that returns `StepOutput`, without dropout."""
    model.eval()
    totals: dict[str, Totals] = {}
    for batch in batches:
        for name, part in model(batch.to(device)).parts.items():
            totals.setdefault(name, Totals(device)).add(part)
    return {name: total.mean() for name, total in totals.items()}
