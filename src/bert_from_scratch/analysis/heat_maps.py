"""Attention as pictures: one head, all heads of a layer, and [CLS].

Letters: L layers, N heads, S tokens.
"""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from bert_from_scratch import atomic
from bert_from_scratch.analysis.label_fonts import (
    find_fonts,
    is_upright,
    readable_labels,
)
from bert_from_scratch.errors import BertError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from bert_from_scratch.analysis.inspection import Inspection

MAX_LABELS = 64
COLOURS = "Blues"


def check_matplotlib() -> None:
    """Refuses to draw where Matplotlib is not installed."""
    try:
        import matplotlib  # noqa: F401
    except ImportError as error:
        raise BertError(
            "--png needs Matplotlib, which is not installed.",
            hint="pip install 'bert-from-scratch[curves]'",
        ) from error


def picture_paths(path: Path) -> dict[str, Path]:
    """Returns where the three pictures go: NAME.png and two beside it."""
    return {
        "head": path,
        "heads": path.with_stem(f"{path.stem}-heads"),
        "cls": path.with_stem(f"{path.stem}-cls"),
    }


def draw_heat_maps(inspection: "Inspection", path: Path) -> list[Path]:
    """Draws the chosen head, all heads of the chosen layer, and [CLS].

    Args:
        inspection: Its `layer` and `head` are drawn; head 1 where it is None.
        path: Of the first picture; the others stand beside it.

    Returns:
        The three files.
    """
    check_matplotlib()
    import matplotlib

    tokens = [token.token for token in inspection.tokens]
    fonts = find_fonts(tokens)
    labels = readable_labels(tokens, fonts)
    paths = picture_paths(path)
    # 字体只在这里生效：不改动使用者自己的 Matplotlib 设置
    with matplotlib.rc_context({"font.family": fonts}):
        _save(_draw_head(inspection, labels), paths["head"])
        _save(_draw_heads(inspection, labels), paths["heads"])
        _save(_draw_cls(inspection, labels), paths["cls"])
    return list(paths.values())


def _draw_head(inspection: "Inspection", labels: Sequence[str]) -> "Figure":
    layer, head = inspection.layer, inspection.head or 1
    weights = inspection.maps[layer - 1].weights[head - 1]
    size = 2.5 + 0.3 * min(len(labels), MAX_LABELS)
    figure = _new_figure(max(size, 4.5), max(size, 4.5))
    axes = figure.subplots()
    image = axes.imshow(weights, cmap=COLOURS, vmin=0)
    axes.set_title(f"layer {layer}, head {head}")
    axes.set_ylabel("token that looks")
    axes.set_xlabel("token that is looked at")
    _label(axes, "x", labels)
    _label(axes, "y", labels)
    figure.colorbar(image, ax=axes, label="attention", shrink=0.7)
    return figure


def _draw_heads(inspection: "Inspection", labels: Sequence[str]) -> "Figure":
    weights = inspection.maps[inspection.layer - 1].weights
    num_columns = math.ceil(math.sqrt(len(weights)))
    num_rows = math.ceil(len(weights) / num_columns)
    # 每张小图都带标签；词多时只标一部分，仍看得清位置
    side = 1.4 + 0.14 * min(len(labels), 24)
    figure = _new_figure(num_columns * side, num_rows * side)
    places = figure.subplots(num_rows, num_columns, squeeze=False).flat
    for number, axes in enumerate(places, 1):
        if number > len(weights):
            axes.set_axis_off()
            continue
        axes.imshow(weights[number - 1], cmap=COLOURS, vmin=0)
        axes.set_title(f"head {number}", fontsize=9)
        _label(axes, "x", labels, limit=24, size=5)
        _label(axes, "y", labels, limit=24, size=5)
    figure.suptitle(f"layer {inspection.layer}, all heads")
    return figure


def _draw_cls(inspection: "Inspection", labels: Sequence[str]) -> "Figure":
    """Draws what [CLS] looks at in every layer, the mean over its heads."""
    rows = np.stack([one.weights[:, 0].mean(0) for one in inspection.maps])
    width = 2.5 + 0.3 * min(len(labels), MAX_LABELS)
    figure = _new_figure(max(width, 5), 2 + 0.3 * len(rows))
    axes = figure.subplots()
    image = axes.imshow(rows, cmap=COLOURS, vmin=0, aspect="auto")
    axes.set_title("what [CLS] looks at, mean over heads")
    axes.set_ylabel("layer")
    axes.set_yticks(range(len(rows)), map(str, range(1, len(rows) + 1)))
    _label(axes, "x", labels)
    figure.colorbar(image, ax=axes, label="attention")
    return figure


def _label(
    axes: "Axes",
    side: str,
    labels: Sequence[str],
    limit: int = MAX_LABELS,
    size: float = 9,
) -> None:
    every = math.ceil(len(labels) / limit)
    places = range(0, len(labels), every)
    set_ticks: Any = axes.set_xticks if side == "x" else axes.set_yticks
    shown = [labels[place] for place in places]
    # 汉字横倒难认：短的标签不转，一字一行
    is_tall = [side == "x" and is_upright(label) for label in shown]
    set_ticks(
        places,
        ["\n".join(s) if t else s for s, t in zip(shown, is_tall, strict=True)],
        fontsize=size,
        rotation=90 if side == "x" else 0,
        # 词里的 $ 不是数学公式
        parse_math=False,
    )
    for label, stands in zip(axes.get_xticklabels(), is_tall, strict=False):
        if stands:
            label.set_rotation(0)


def _new_figure(width: float, height: float) -> "Figure":
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def _save(figure: "Figure", path: Path) -> None:
    with atomic.replace_file(path) as scratch_path:
        figure.savefig(scratch_path, format="png", dpi=130)
