"""The picture of a run: losses over steps, learning rate below."""

import logging
from pathlib import Path
from typing import Any

from bert_from_scratch import atomic

logger = logging.getLogger(__name__)


def draw_curve(
    metrics: list[dict[str, Any]], evaluations: list[dict[str, Any]], path: Path
) -> bool:
    """Draws the loss curves of a run as PNG.

    Args:
        metrics: Lines of metrics.jsonl.
        evaluations: Lines of evaluations.jsonl.
        path: Where the picture goes.

    Returns:
        Whether it was drawn; not without Matplotlib.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError:
        logger.warning(
            "No loss curve was drawn: Matplotlib is not installed "
            "(pip install 'bert-from-scratch[curves]')."
        )
        return False
    figure = Figure(figsize=(8, 6), layout="constrained")
    losses, rates = figure.subplots(
        2, 1, sharex=True, gridspec_kw={"height_ratios": [3, 1]}
    )
    for name, label in (("mlm_loss", "MLM"), ("nsp_loss", "NSP")):
        _plot(losses, metrics, name, label=label, linewidth=1, alpha=0.7)
        _plot(losses, evaluations, name, label=f"{label} held out", marker="o")
    _plot(rates, metrics, "lr", color="gray")
    losses.set_ylabel("loss (nats)")
    losses.legend()
    losses.grid(alpha=0.3)
    rates.set_ylabel("learning rate")
    rates.set_xlabel("step")
    with atomic.replace_file(path) as scratch_path:
        figure.savefig(scratch_path, format="png", dpi=120)
    return True


def _plot(
    axes: Any, lines: list[dict[str, Any]], name: str, **style: Any
) -> None:
    points = [
        (line["step"], line[name])
        for line in lines
        if line.get(name) is not None
    ]
    if len(points) == 1:
        # 一个点连不成线，没有记号就什么也看不见
        style["marker"] = "o"
    if points:
        axes.plot(*zip(*points, strict=True), **style)
