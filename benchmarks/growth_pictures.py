"""The pictures of `growth.py`: what was measured, and what was expected."""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bert_from_scratch import atomic

# 色觉障碍者也分得清的两色；线型与标记也不同，黑白打印仍可辨
MEASURED = {"color": "#0072B2", "marker": "o", "linewidth": 2.0}
EXPECTED = {
    "color": "#D55E00",
    "marker": "s",
    "linestyle": "--",
    "markerfacecolor": "white",
}

# 纵坐标跨度超过这么多倍才用对数
WIDE = 3.0

Rows = Sequence[Mapping[str, Any]]


def draw_growth(rows: Rows, labels: Mapping[str, str], folder: Path) -> None:
    """Draws one picture an axis: time a token, and memory.

    Args:
        rows: Of `growth.py`.
        labels: What is varied, by axis.
        folder: Where `batch.png`, `length.png` and the others go.
    """
    from matplotlib.figure import Figure

    for name, label in labels.items():
        points = [row for row in rows if row["axis"] == name]
        if len(points) < 2:
            continue
        figure = Figure(figsize=(9, 3.4), layout="constrained")
        time, memory = figure.subplots(1, 2)
        draw_time(time, points)
        draw_memory(memory, points)
        for axes in (time, memory):
            finish_axes(axes, points, label)
        path = folder / f"{name}.png"
        with atomic.replace_file(path) as scratch_path:
            figure.savefig(scratch_path, format="png", dpi=120)
        print(f"drawn: {path}", file=sys.stderr)


def draw_time(axes: Any, rows: Rows) -> None:
    """Draws time a token beside the arithmetic it needs, first point = 1."""
    values = [row["value"] for row in rows]
    expected = [row["FLOP ×"] for row in rows]
    measured = [row["busy ×"] for row in rows]
    axes.plot(values, measured, label="measured", **MEASURED)
    axes.plot(values, expected, label="FLOP by the formula", **EXPECTED)
    on_cpu = rows[0]["point"]["device"] == "cpu"
    clock = "Processor time" if on_cpu else "Time"
    axes.set_title(f"{clock} a token and process (first = 1)", fontsize=11)
    if max(*measured, *expected) > WIDE:
        # 幂律在双对数坐标里是直线，斜率就是指数
        axes.set_yscale("log", base=2)
    else:
        axes.set_ylim(0, 1.15 * max(*measured, *expected))
    axes.yaxis.set_major_formatter(lambda y, _: f"{y:g}×")


def draw_memory(axes: Any, rows: Rows) -> None:
    """Draws peak memory beside what the weights alone need."""
    values = [row["value"] for row in rows]
    peaks = [row["peak GB"] for row in rows]
    fixed = [row["fixed GB"] for row in rows]
    axes.plot(values, peaks, label="peak", **MEASURED)
    label = "weights, gradients, averages"
    axes.plot(values, fixed, label=label, **EXPECTED)
    axes.set_title("Memory of a process (GB)", fontsize=11)
    # 从零画起：两线之间的距离就是激活值，要能直接看出大小
    axes.set_ylim(0, 1.15 * max(peaks))


def finish_axes(axes: Any, rows: Rows, label: str) -> None:
    """Writes the values themselves below the axis."""
    values = [row["value"] for row in rows]
    if rows[0]["axis"] != "length":
        axes.set_xscale("log", base=2)
    # 长度一轴用等距坐标：注意力随长度线性增长，画出来是直线
    axes.set_xticks(values, [f"{value:,}" for value in values])
    axes.minorticks_off()
    axes.set_xlabel(label)
    axes.grid(alpha=0.3)
    axes.legend(frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
