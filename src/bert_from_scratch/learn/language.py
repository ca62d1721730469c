"""The two languages of the course, side by side."""

from collections.abc import Callable
from typing import Literal

Language = Literal["en", "zh"]
LANGUAGES: tuple[Language, ...] = ("en", "zh")


def speaker(language: Language) -> Callable[[str, str], str]:
    """Returns a function that picks from an English and a Chinese text.

    >>> say = speaker("zh")
    >>> say("word", "词")
    '词'
    """
    # 两种语言并排写：改了一边，另一边就在眼前
    return lambda english, chinese: english if language == "en" else chinese
