"""The result directory: model, numbers, predictions, mistakes, pictures.

model/               a Hugging Face directory, with task.json and a card
metrics.json         scores of every attempt, mean and deviation
predictions.jsonl    one object an example of dev, in its order
mistakes.jsonl       the wrong ones, the worst first
curve.png            losses and scores of the attempts
confusion.png        which class was taken for which (classes only)
scatter.png          what was predicted over what is right (numbers only)
runs/                the logs of every attempt
"""

import json
import shutil
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from torch import nn

from bert_from_scratch import atomic
from bert_from_scratch.data.tasks.recipes import TaskData
from bert_from_scratch.finetune.attempt import AttemptResult, Scores
from bert_from_scratch.finetune.card import model_card
from bert_from_scratch.finetune.pictures import draw_attempts, draw_judged
from bert_from_scratch.finetune.plan import FinetunePlan
from bert_from_scratch.finetune.task import Task
from bert_from_scratch.finetune.tasks import save_task


@dataclass(frozen=True)
class Judged:
    """Predictions with their scores.

    Attributes:
        task: That made them, tuned on the examples.
        examples: Labelled.
        predictions: One an example.
        scores: By name, 0 to 1.
    """

    task: Task[Any, Any]
    examples: Sequence[Any]
    predictions: Sequence[Any]
    scores: Scores


@dataclass(frozen=True)
class Outcome:
    """What came of a fine-tuning.

    Attributes:
        model_dir: The model to use.
        metric: The score that decided.
        best: The attempt that the model is from.
        attempts: All of them.
        mean: Of every score, over the seeds of the best learning rate.
        deviation: Standard deviations; 0 with one seed.
        scores: Of the model on dev.
        others: Of the model on other sets, by their names.
    """

    model_dir: Path
    metric: str
    best: AttemptResult
    attempts: tuple[AttemptResult, ...]
    mean: Scores
    deviation: Scores
    scores: Scores
    others: dict[str, Scores]

    def to_dict(self) -> dict[str, Any]:
        """Returns plain values, ready for JSON."""
        return {**asdict(self), "model_dir": str(self.model_dir)}


def write_outcome(
    out: Path,
    plan: FinetunePlan,
    data: TaskData,
    model: nn.Module,
    judged: Judged,
    others: dict[str, Scores],
    attempts: list[AttemptResult],
    best: AttemptResult,
) -> Outcome:
    """Writes everything; `metrics.json` last, as the sign that it is done."""
    mean, deviation = summarise(attempts, best.learning_rate)
    outcome = Outcome(
        model_dir=out / "model",
        metric=judged.task.metric,
        best=best,
        attempts=tuple(attempts),
        mean=mean,
        deviation=deviation,
        scores=judged.scores,
        others=others,
    )
    write_predictions(out, judged)
    draw_attempts(out / "runs", judged.task.metric, out / "curve.png")
    draw_judged(judged.task, judged, out)
    card = model_card(plan, data, outcome)
    # 没有 metrics.json 就没有写完：上次断在这里的半份结果可以重写
    shutil.rmtree(outcome.model_dir, ignore_errors=True)
    save_task(judged.task, model, outcome.model_dir, card, plan.data.columns)
    values = {
        "task": plan.task,
        **outcome.to_dict(),
        "model_dir": "model",
        "num_train": len(data.train),
        "num_dev": len(data.dev),
        "sources": dict(data.sources),
        "notes": list(data.notes),
        "plan": plan.to_dict(),
    }
    atomic.write_json(out / "metrics.json", values)
    return outcome


def summarise(
    attempts: Iterable[AttemptResult], learning_rate: float
) -> tuple[Scores, Scores]:
    """Returns mean and standard deviation of all scores over the seeds."""
    rows = [a.scores for a in attempts if a.learning_rate == learning_rate]
    mean = {name: statistics.fmean(r[name] for r in rows) for name in rows[0]}
    deviation = {
        name: statistics.stdev(r[name] for r in rows) if len(rows) > 1 else 0.0
        for name in rows[0]
    }
    return mean, deviation


def write_predictions(out: Path, judged: Judged) -> int:
    """Writes predictions and, the worst first, mistakes.

    Returns:
        The number of mistakes.
    """
    task = judged.task
    lines, mistakes = [], []
    for example, prediction in zip(
        judged.examples, judged.predictions, strict=True
    ):
        line = {
            **task.describe(example, prediction),
            "gold": task.gold(example),
        }
        lines.append(line)
        wrong = task.mistake(example, prediction)
        if not wrong <= 0:
            mistakes.append({"mistake": wrong, "place": example.place, **line})
    mistakes.sort(key=lambda line: -line["mistake"])
    _write_lines(out / "predictions.jsonl", lines)
    _write_lines(out / "mistakes.jsonl", mistakes)
    return len(mistakes)


def _write_lines(path: Path, lines: Iterable[dict[str, Any]]) -> None:
    with (
        atomic.replace_file(path) as scratch_path,
        scratch_path.open("w", encoding="utf-8", newline="\n") as file,
    ):
        for line in lines:
            file.write(json.dumps(line, ensure_ascii=False) + "\n")
