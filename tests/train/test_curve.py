"""The picture of a run shows what was logged."""

from pathlib import Path

import pytest

from bert_from_scratch.train.curve import draw_curve

# 图例右边起；左边只有坐标轴，都是灰的
LEFT_OF_THE_LEGEND = 800


@pytest.mark.parametrize("num_lines", [1, 5])
def test_a_line_of_metrics_is_seen_and_so_are_several(
    num_lines: int, tmp_path: Path
) -> None:
    image = pytest.importorskip("matplotlib.image")
    lines = [
        {"step": step, "mlm_loss": 7.0 - step, "nsp_loss": 0.7, "lr": 1e-3}
        for step in range(num_lines)
    ]
    path = tmp_path / "curve.png"
    assert draw_curve(lines, [], path)
    colours = image.imread(path)[:, :LEFT_OF_THE_LEGEND, :3]
    assert (colours.max(-1) - colours.min(-1) > 0.2).sum() > 50
