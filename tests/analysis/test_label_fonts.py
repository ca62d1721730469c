"""Labels are drawn in a font that has them, or said in code points."""

import logging

import pytest
from matplotlib.font_manager import fontManager

from bert_from_scratch.analysis import label_fonts
from bert_from_scratch.analysis.label_fonts import (
    find_fonts,
    is_upright,
    readable_labels,
)


def test_latin_text_needs_the_default_font_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    installed = fontManager.ttflist[0].name
    monkeypatch.setattr(label_fonts, "CHINESE_FONTS", (installed,))
    assert find_fonts(["the", "##ing", "é"]) == ["DejaVu Sans"]


def test_chinese_text_gets_a_second_font_where_there_is_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # 默认字体没有汉字；随便给一个装着的字体当“中文字体”即可看清选择的规则
    installed = fontManager.ttflist[0].name
    monkeypatch.setattr(label_fonts, "CHINESE_FONTS", ("None Such", installed))
    assert find_fonts(["学"]) == ["DejaVu Sans", installed]
    monkeypatch.setattr(label_fonts, "CHINESE_FONTS", ("None Such",))
    assert find_fonts(["学"]) == ["DejaVu Sans"]


def test_characters_without_a_font_become_code_points(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.WARNING):
        labels = readable_labels(["the", "学", "a习"], ["DejaVu Sans"])
    assert labels == ["the", "U+5B66", "aU+4E60"]
    assert "No font for 2 characters" in caplog.text


def test_labels_that_can_be_drawn_stay_and_nobody_is_warned(
    caplog: pytest.LogCaptureFixture,
) -> None:
    tokens = ["[CLS]", "##s", "$x$", "é"]
    with caplog.at_level(logging.WARNING):
        assert readable_labels(tokens, ["DejaVu Sans"]) == tokens
    assert not caplog.records


def test_a_font_that_matplotlib_has_not_seen_yet_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # 假装缓存里只有默认字体，另一个字体是刚装上的
    default = [f for f in fontManager.ttflist if f.name == "DejaVu Sans"]
    serif = next(f for f in fontManager.ttflist if f.name == "DejaVu Serif")
    monkeypatch.setattr(fontManager, "ttflist", default)
    monkeypatch.setattr(
        "matplotlib.font_manager.findSystemFonts", lambda: [serif.fname]
    )
    monkeypatch.setattr(label_fonts, "CHINESE_FONTS", ("DejaVu Serif",))
    assert find_fonts(["学"]) == ["DejaVu Sans", "DejaVu Serif"]


@pytest.mark.parametrize(
    ("label", "expected"),
    [
        *(("学", True), ("学习", True), ("。", True), ("ひ", True)),
        *(("人工智", False), ("a", False), ("##学", False), ("", False)),
    ],
)
def test_one_or_two_chinese_letters_stand_upright(
    label: str, expected: bool
) -> None:
    assert is_upright(label) is expected
