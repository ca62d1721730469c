"""Pictures of a fine-tuning: curves, and what was taken for what."""

import json
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bert_from_scratch import atomic

if TYPE_CHECKING:
    from bert_from_scratch.finetune.outcome import Judged
    from bert_from_scratch.finetune.task import Task

logger = logging.getLogger(__name__)

MAX_CLASSES = 40


def draw_attempts(runs_dir: Path, metric: str, path: Path) -> bool:
    """Draws loss and score of every attempt over its steps.

    Returns:
        Whether it was drawn; not without Matplotlib.
    """
    figure = _new_figure((8, 6))
    if figure is None:
        return False
    losses, scores = figure.subplots(2, 1, sharex=True)
    for directory in sorted(runs_dir.iterdir()):
        metrics = _read_lines(directory / "metrics.jsonl")
        evaluations = _read_lines(directory / "evaluations.jsonl")
        steps = [line["step"] for line in metrics]
        # 点数少时画出点来：只有一个点的线是看不见的
        marker = "." if len(metrics) < 30 else ""
        values = [line["loss"] for line in metrics]
        losses.plot(steps, values, alpha=0.7, marker=marker)
        scores.plot(
            [line["step"] for line in evaluations],
            [line[metric] for line in evaluations],
            marker="o",
            label=directory.name,
        )
    losses.set_title("Every attempt: one learning rate and one seed")
    losses.set_ylabel("training loss")
    scores.set_ylabel(f"{metric} on dev")
    scores.set_xlabel("step")
    scores.xaxis.get_major_locator().set_params(integer=True)
    scores.legend(fontsize="small")
    for axes in (losses, scores):
        axes.grid(alpha=0.3)
    _save(figure, path)
    return True


def draw_judged(task: "Task[Any, Any]", judged: "Judged", out: Path) -> None:
    """Draws confusion.png of classes, or scatter.png of numbers."""
    if task.name == "regress":
        gold = [task.gold(example) for example in judged.examples]
        draw_scatter(gold, judged.predictions, out / "scatter.png")
    else:
        draw_confusion(task, judged, out / "confusion.png")


def draw_scatter(
    gold: Sequence[float], predicted: Sequence[float], path: Path
) -> bool:
    """Draws what was predicted over what is right.

    Returns:
        Whether it was drawn; not without Matplotlib.
    """
    figure = _new_figure((5, 5))
    if figure is None:
        return False
    axes = figure.subplots()
    axes.plot(gold, predicted, ".", alpha=0.4)
    ends = [min(*gold, *predicted), max(*gold, *predicted)]
    # 落在对角线上就是完全预测对了
    axes.plot(ends, ends, color="gray", linewidth=1)
    axes.set_aspect("equal")
    axes.set_xlabel("gold")
    axes.set_ylabel("predicted")
    axes.grid(alpha=0.3)
    _save(figure, path)
    return True


def draw_confusion(
    task: "Task[Any, Any]", judged: "Judged", path: Path
) -> bool:
    """Draws the confusion matrix of a task with classes.

    Returns:
        Whether it was drawn; not where there are no classes, or too many.
    """
    found = task.confusion(judged.examples, judged.predictions)
    if found is None:
        return False
    labels, counts = found
    if len(labels) > MAX_CLASSES:
        logger.info(
            "No confusion matrix: %d classes are too many.", len(labels)
        )
        return False
    size = 3 + 0.45 * len(labels)
    figure = _new_figure((size, size))
    if figure is None:
        return False
    axes = figure.subplots()
    # 按行归一：每一行是一个真实类别，颜色表示它被判成各类的比例
    shares = counts / counts.sum(1, keepdims=True).clip(min=1)
    axes.imshow(shares, cmap="Blues", vmin=0, vmax=1)
    for row in range(len(labels)):
        for column in range(len(labels)):
            axes.text(
                column,
                row,
                f"{counts[row, column]:,}",
                ha="center",
                va="center",
                fontsize="small",
                color="white" if shares[row, column] > 0.6 else "black",
            )
    names = [_printable(n, label) for n, label in enumerate(labels)]
    axes.set_xticks(range(len(labels)), names, rotation=45, ha="right")
    axes.set_yticks(range(len(labels)), names)
    axes.set_xlabel("predicted")
    axes.set_ylabel("gold")
    _save(figure, path)
    return True


def _new_figure(size: tuple[float, float]) -> Any:
    try:
        from matplotlib.figure import Figure
    except ImportError:
        logger.warning(
            "No picture was drawn: Matplotlib is not installed "
            "(pip install 'bert-from-scratch[curves]')."
        )
        return None
    return Figure(figsize=size, layout="constrained")


def _printable(number: int, label: str) -> str:
    # Matplotlib 自带的字体没有汉字，画出来全是方框：改写类别的编号
    if not label.isascii():
        return f"class {number}"
    # 一对 $ 之间的文字会被当成公式排版
    return label.replace("$", r"\$")


def _save(figure: Any, path: Path) -> None:
    with atomic.replace_file(path) as scratch_path:
        figure.savefig(scratch_path, format="png", dpi=120)


def _read_lines(path: Path) -> list[dict[str, Any]]:
    text = path.read_text(encoding="utf-8")
    return [json.loads(line) for line in text.split("\n") if line]
