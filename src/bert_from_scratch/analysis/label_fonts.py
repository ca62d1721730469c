"""Fonts for token labels: Chinese where the machine has a font for it."""

import logging
import unicodedata
from collections.abc import Sequence

logger = logging.getLogger(__name__)

DEFAULT_FONT = "DejaVu Sans"
# 先无衬线后宋体；各系统自带的与常见的自由字体
CHINESE_FONTS = (
    "Noto Sans CJK SC",
    "Noto Sans CJK JP",
    "Noto Sans SC",
    "Source Han Sans SC",
    "PingFang SC",
    "Hiragino Sans GB",
    "Heiti SC",
    "Microsoft YaHei",
    "SimHei",
    "WenQuanYi Micro Hei",
    "WenQuanYi Zen Hei",
    "Noto Serif CJK SC",
    "Noto Serif CJK JP",
    "Arial Unicode MS",
    "SimSun",
)


def find_fonts(tokens: Sequence[str]) -> list[str]:
    """Returns the font families to draw with, the default one first.

    Args:
        tokens: What will be drawn; a second font is looked for only where
            the default one lacks a character.
    """
    if not _missing(tokens, [DEFAULT_FONT]):
        return [DEFAULT_FONT]
    found = _installed_fonts()
    if not found:
        # Matplotlib 的字体表是缓存的：新装的字体要自己找一遍
        _add_new_fonts()
        found = _installed_fonts()
    return [DEFAULT_FONT, *found[:1]]


def readable_labels(tokens: Sequence[str], fonts: Sequence[str]) -> list[str]:
    """Returns labels that the fonts can draw.

    A token with a character that no font has becomes its code points, such
    as U+4E2D, and a warning says so.
    """
    missing = _missing(tokens, fonts)
    if not missing:
        return list(tokens)
    logger.warning(
        "No font for %d characters (such as U+%04X): they are drawn as code "
        "points. Install a font such as Noto Sans CJK.",
        len(missing),
        ord(min(missing)),
    )
    return [
        "".join(f"U+{ord(c):04X}" if c in missing else c for c in token)
        for token in tokens
    ]


def is_upright(label: str) -> bool:
    """Says whether a label is one or two Chinese, Japanese or Korean letters.

    These are hard to read on their side, and short enough to stand.
    """
    return len(label) in (1, 2) and all(
        unicodedata.east_asian_width(letter) in "WF" for letter in label
    )


def _installed_fonts() -> list[str]:
    from matplotlib.font_manager import fontManager

    installed = {font.name for font in fontManager.ttflist}
    return [name for name in CHINESE_FONTS if name in installed]


def _add_new_fonts() -> None:
    """Tells Matplotlib of fonts installed since it last looked."""
    from matplotlib.font_manager import findSystemFonts, fontManager

    known = {font.fname for font in fontManager.ttflist}
    for path in set(findSystemFonts()) - known:
        try:
            fontManager.addfont(path)
        except (OSError, RuntimeError) as error:
            logger.debug("Passed over the font %s: %s.", path, error)


def _missing(tokens: Sequence[str], fonts: Sequence[str]) -> set[str]:
    """Returns the characters that none of the fonts has."""
    from matplotlib.font_manager import findfont, get_font

    known: set[int] = set()
    for name in fonts:
        known.update(get_font(findfont(name)).get_charmap())
    return {c for token in tokens for c in token if ord(c) not in known}
