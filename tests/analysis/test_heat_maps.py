"""Three pictures with the right numbers and labels in them."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import pytest
from matplotlib.figure import Figure
from matplotlib.image import imread

from bert_from_scratch import BertError, BertModel
from bert_from_scratch.analysis import heat_maps, label_fonts
from bert_from_scratch.analysis.heat_maps import (
    check_matplotlib,
    draw_heat_maps,
    picture_paths,
)
from bert_from_scratch.analysis.inspection import Inspection
from bert_from_scratch.analysis.inspector import Inspector
from bert_from_scratch.analysis.subject import Model

Build = Callable[[Model], Inspector]


@pytest.fixture(scope="module")
def inspection(encoder: BertModel, inspector_of: Build) -> Inspection:
    return inspector_of(encoder).inspect("the $ man $", layer=2, head=3)


@pytest.fixture
def figures(monkeypatch: pytest.MonkeyPatch) -> list[Figure]:
    """Collects the figures instead of writing them."""
    drawn: list[Figure] = []
    monkeypatch.setattr(heat_maps, "_save", lambda f, path: drawn.append(f))
    return drawn


def image_of(axes: Any) -> np.ndarray[Any, Any]:
    return np.asarray(axes.images[0].get_array())


def test_three_pictures_are_written(
    inspection: Inspection, tmp_path: Path
) -> None:
    paths = draw_heat_maps(inspection, tmp_path / "new" / "map.png")
    assert [path.name for path in paths] == [
        *("map.png", "map-heads.png", "map-cls.png"),
    ]
    for path in paths:
        height, width, _ = imread(path).shape
        assert min(height, width) > 250
    assert sorted(p.name for p in (tmp_path / "new").iterdir()) == sorted(
        path.name for path in paths
    )


def test_pictures_hold_the_chosen_weights(
    inspection: Inspection, figures: list[Figure], tmp_path: Path
) -> None:
    draw_heat_maps(inspection, tmp_path / "map.png")
    one, heads, cls = figures
    weights = inspection.maps[1].weights
    assert one.axes[0].get_title() == "layer 2, head 3"
    assert np.array_equal(image_of(one.axes[0]), weights[2])
    for number in range(4):
        assert np.array_equal(image_of(heads.axes[number]), weights[number])
    rows = image_of(cls.axes[0])
    assert rows.shape == (3, len(inspection.tokens))
    np.testing.assert_allclose(rows[1], weights[:, 0].mean(0), rtol=1e-6)


def test_axes_are_labelled_by_tokens_and_a_dollar_is_no_formula(
    inspection: Inspection, figures: list[Figure], tmp_path: Path
) -> None:
    draw_heat_maps(inspection, tmp_path / "map.png")
    tokens = ["[CLS]", "the", "$", "man", "$", "[SEP]"]
    for labels in (
        figures[0].axes[0].get_xticklabels(),
        figures[0].axes[0].get_yticklabels(),
        figures[1].axes[3].get_yticklabels(),
        figures[2].axes[0].get_xticklabels(),
    ):
        assert [label.get_text() for label in labels] == tokens
        assert not any(label.get_parse_math() for label in labels)


def test_a_long_text_is_labelled_now_and_then(
    encoder: BertModel,
    inspector_of: Build,
    figures: list[Figure],
    tmp_path: Path,
) -> None:
    found = inspector_of(encoder).inspect("old man " * 64)
    draw_heat_maps(found, tmp_path / "map.png")
    labels = figures[0].axes[0].get_xticklabels()
    assert len(labels) == 44
    assert labels[1].get_text() == found.tokens[3].token


@pytest.mark.parametrize("fonts", [label_fonts.CHINESE_FONTS, ()])
def test_chinese_is_drawn_without_a_warning_on_any_machine(
    encoder: BertModel,
    inspector_of: Build,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    fonts: tuple[str, ...],
) -> None:
    # pytest 把警告当错误：缺字形的警告会让这里失败
    monkeypatch.setattr(label_fonts, "CHINESE_FONTS", fonts)
    found = inspector_of(encoder).inspect("我喜欢学习")
    draw_heat_maps(found, tmp_path / "map.png")
    assert (tmp_path / "map-cls.png").is_file()


def test_short_chinese_labels_stand_upright(
    encoder: BertModel,
    inspector_of: Build,
    figures: list[Figure],
    tmp_path: Path,
) -> None:
    fonts = label_fonts.find_fonts(["我"])
    if len(fonts) == 1:
        pytest.skip("needs a Chinese font")
    draw_heat_maps(inspector_of(encoder).inspect("我 man"), tmp_path / "m.png")
    for figure in figures:
        # 画过之后再看：刻度文字在画的时候才定下来
        figure.draw_without_rendering()
        turned = {
            label.get_text(): label.get_rotation()
            for label in figure.axes[0].get_xticklabels()
        }
        assert turned == {"[CLS]": 90, "我": 0, "man": 90, "[SEP]": 90}


def test_the_users_own_matplotlib_settings_stay(
    inspection: Inspection, tmp_path: Path
) -> None:
    with matplotlib.rc_context({"font.family": ["monospace"]}):
        draw_heat_maps(inspection, tmp_path / "map.png")
        assert matplotlib.rcParams["font.family"] == ["monospace"]


def test_a_machine_without_matplotlib_is_told_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(BertError, match="Matplotlib") as caught:
        check_matplotlib()
    assert "curves" in str(caught.value.hint)


def test_names_of_pictures_keep_their_folder() -> None:
    paths = picture_paths(Path("a.b") / "map.v2.png")
    assert [str(path) for path in paths.values()] == [
        *("a.b/map.v2.png", "a.b/map.v2-heads.png", "a.b/map.v2-cls.png"),
    ]
