"""What the lines of a text file are: found by looking, then said aloud."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from statistics import mean, median
from typing import Literal

Unit = Literal["sentence", "paragraph", "wrapped"]
Boundary = Literal["blank", "file", "line"]

_SENTENCE_END = re.compile(r"[.!?。！？…][\"'”’»」』)\]）]*$")
_INNER_END = re.compile(r"[.!?][\"'”’)]* +[\"'“‘(]*[A-Z]|[。！？][^”’」』）]")


@dataclass(frozen=True)
class Structure:
    """How a file is laid out.

    Attributes:
        unit: What a line is: a sentence, a paragraph, or a piece of
            hard-wrapped prose, whose paragraphs end at blank lines.
        boundary: What ends a document: a blank line, the end of the file,
            or every line.
    """

    unit: Unit
    boundary: Boundary

    def __str__(self) -> str:
        units = {
            "sentence": "one sentence a line",
            "paragraph": "one paragraph a line",
            "wrapped": "hard-wrapped prose",
        }
        boundaries = {
            "blank": "blank lines between documents",
            "file": "one document a file",
            "line": "every line a document",
        }
        return f"{units[self.unit]}, {boundaries[self.boundary]}"


def find_structure(lines: Sequence[str]) -> Structure:
    """Judges a file by its beginning.

    Args:
        lines: The first lines of the file, some hundred at least where it
            has them.
    """
    text = [line.strip() for line in lines]
    filled = [line for line in text if line]
    if not filled:
        return Structure("sentence", "file")
    runs = [
        len(list(run)) for is_filled, run in groupby(text, bool) if is_filled
    ]
    ended = mean(bool(_SENTENCE_END.search(line)) for line in filled)
    several = mean(bool(_INNER_END.search(line)) for line in filled)
    if _is_wrapped(filled, runs, ended):
        return Structure("wrapped", "file")
    unit: Unit = "paragraph" if several > 0.25 else "sentence"
    if len(runs) == 1:
        # 没有空行也没有句号：互不相干的短句，一行就是一篇
        return Structure(unit, "file" if ended > 0.5 else "line")
    # 几乎每行之后都有空行：空行分的是段落，不是文档
    return Structure(unit, "blank" if mean(runs) > 1.5 else "file")


def _is_wrapped(filled: list[str], runs: list[int], ended: float) -> bool:
    """Whether sentences run on over lines of about one length."""
    lengths = sorted(map(len, filled))
    widest = lengths[int(0.95 * (len(lengths) - 1))]
    return (
        max(runs) > 2
        and ended < 0.5
        and 40 <= widest <= 120
        and median(lengths) > 0.6 * widest
    )
