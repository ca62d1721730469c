"""A lesson is a list of plain blocks; how they look is somebody else's work.

Text may hold `code` and **bold**, as in Markdown, and nothing else. Numbers
come in as arrays or formatted from arrays, never typed.
"""

from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Heading:
    """The title of a part of a lesson."""

    text: str


@dataclass(frozen=True)
class Paragraph:
    """Some sentences."""

    text: str


@dataclass(frozen=True)
class Items:
    """A list of short points."""

    points: tuple[str, ...]


@dataclass(frozen=True)
class Formula:
    """Mathematics in plain Unicode, one formula a line."""

    lines: tuple[str, ...]


@dataclass(frozen=True)
class Matrix:
    """A matrix with names for what its rows and columns stand for.

    Attributes:
        name: What it is called, as in "A = softmax(...)".
        values: The numbers, [rows, columns].
        rows: One label a row.
        columns: One label a column.
        digits: Digits after the point.
    """

    name: str
    values: NDArray[np.floating]
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    digits: int = 2

    def __post_init__(self) -> None:
        if self.values.shape != (len(self.rows), len(self.columns)):
            raise ValueError(
                f"{self.name} is {self.values.shape}, but has labels for "
                f"({len(self.rows)}, {len(self.columns)})"
            )

    def cells(self) -> list[list[str]]:
        """Returns the label and the formatted numbers of every row."""
        return [
            [label, *(round_number(value, self.digits) for value in row)]
            for label, row in zip(self.rows, self.values, strict=True)
        ]


@dataclass(frozen=True)
class Table:
    """Rows of text under column titles."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    def __post_init__(self) -> None:
        if any(len(row) != len(self.columns) for row in self.rows):
            raise ValueError(f"a row does not fit the columns {self.columns}")


@dataclass(frozen=True)
class Code:
    """Something to read or to type.

    Attributes:
        text: The lines.
        syntax: "python" or "bash".
    """

    text: str
    syntax: Literal["python", "bash"] = "python"


@dataclass(frozen=True)
class Transcript:
    """What a computation said, line by line."""

    lines: tuple[str, ...]


Block: TypeAlias = (
    Heading | Paragraph | Items | Formula | Matrix | Table | Code | Transcript
)


@dataclass(frozen=True)
class Lesson:
    """One page of the course.

    Attributes:
        title: Its title, in its language.
        blocks: What it says, in order.
    """

    title: str
    blocks: tuple[Block, ...]


def round_number(value: float, digits: int = 2) -> str:
    """Writes a number with so many digits, and never as "-0.00"."""
    text = f"{value:.{digits}f}"
    return text.removeprefix("-") if float(text) == 0 else text


def write_gap(value: float) -> str:
    """Writes a difference as 3e-17, and none at all as 0."""
    return f"{value:.0e}" if value else "0"
