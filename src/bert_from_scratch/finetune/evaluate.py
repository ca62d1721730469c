"""Scoring a fine-tuned model on labelled examples."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from bert_from_scratch import atomic
from bert_from_scratch.errors import BertError
from bert_from_scratch.finetune.inference import predict
from bert_from_scratch.finetune.outcome import Judged, write_predictions
from bert_from_scratch.finetune.pictures import draw_judged
from bert_from_scratch.finetune.task import Task


@dataclass(frozen=True)
class TaskEvaluation:
    """What came of it.

    Attributes:
        task: As typed after `bert finetune`.
        scores: By name, 0 to 1.
        num_examples: All that were judged.
        num_mistakes: Those that were wrong.
    """

    task: str
    scores: dict[str, float]
    num_examples: int
    num_mistakes: int = 0


def evaluate_task(
    task: Task[Any, Any],
    model: nn.Module,
    examples: list[Any],
    device: torch.device,
    out: Path | None = None,
    progress: Callable[[int], None] | None = None,
) -> TaskEvaluation:
    """Predicts and scores labelled examples.

    Args:
        task: Of the model.
        model: On `device`.
        examples: Labelled.
        device: Where to compute.
        out: Where predictions, mistakes and a picture go; None:
            nowhere.
        progress: Told the number of sequences done.
    """
    if not examples:
        raise BertError("There is nothing to evaluate on: 0 examples.")
    task.check(examples)
    if out is not None:
        _make_ready(out)
    predictions = predict(task, model, examples, device, progress=progress)
    scores = task.score(examples, predictions)
    judged = Judged(task, examples, predictions, scores)
    num_mistakes = sum(
        not task.mistake(*both) <= 0
        for both in zip(examples, predictions, strict=True)
    )
    if out is not None:
        write_predictions(out, judged)
        draw_judged(task, judged, out)
        values = {"task": task.name, "scores": scores, "num": len(examples)}
        atomic.write_json(out / "scores.json", values)
    return TaskEvaluation(task.name, scores, len(examples), num_mistakes)


def _make_ready(out: Path) -> None:
    """Refuses the directory of a model; clears what another report left."""
    atomic.check_directory(out)
    for name in ("plan.json", "config.json"):
        if (out / name).exists():
            raise BertError(
                f"{out} is a model or a run; its own results would be lost.",
                hint="choose another --out",
            )
    (out / "confusion.png").unlink(missing_ok=True)
