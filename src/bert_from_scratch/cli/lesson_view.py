"""Lessons in the terminal: the same blocks, drawn by rich."""

import re
from collections.abc import Iterable, Sequence
from functools import singledispatch
from typing import Literal

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.syntax import Syntax
from rich.table import Table as RichTable
from rich.text import Text

from bert_from_scratch.learn.lesson import (
    Block,
    Code,
    Formula,
    Heading,
    Items,
    Lesson,
    Matrix,
    Paragraph,
    Table,
    Transcript,
)


def print_lesson(lesson: Lesson) -> None:
    """Prints a lesson on stdout."""
    console = Console(highlight=False)
    console.print(Text(lesson.title, style="bold underline"))
    for block in lesson.blocks:
        console.print()
        console.print(_draw(block))


@singledispatch
def _draw(block: Block) -> RenderableType:
    raise TypeError(f"nothing draws a {type(block).__name__}")


@_draw.register
def _(block: Heading) -> RenderableType:
    return Text(block.text, style="bold cyan")


@_draw.register
def _(block: Paragraph) -> RenderableType:
    return _prose(block.text)


@_draw.register
def _(block: Items) -> RenderableType:
    grid = RichTable.grid(padding=(0, 1))
    for point in block.points:
        grid.add_row("•", _prose(point))
    return grid


@_draw.register
def _(block: Formula) -> RenderableType:
    return Padding(
        Text("\n".join(block.lines), style="italic"), (0, 0, 0, 4), expand=False
    )


@_draw.register
def _(block: Matrix) -> RenderableType:
    table = _table(["", *block.columns], block.cells(), numbers=True)
    # 名字不用表格的标题：窄表会把它折断
    named = Group(_prose(block.name), table)
    return Padding(named, (0, 0, 0, 4), expand=False)


@_draw.register
def _(block: Table) -> RenderableType:
    return Padding(
        _table(block.columns, block.rows), (0, 0, 0, 4), expand=False
    )


@_draw.register
def _(block: Code) -> RenderableType:
    code = Syntax(
        block.text.strip("\n"),
        block.syntax,
        background_color="default",
        word_wrap=True,
    )
    return Padding(code, (0, 0, 0, 4), expand=False)


@_draw.register
def _(block: Transcript) -> RenderableType:
    return Padding(Text("\n".join(block.lines)), (0, 0, 0, 4), expand=False)


def _table(
    columns: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    numbers: bool = False,
) -> RichTable:
    table = RichTable(box=None, padding=(0, 2, 0, 0), header_style="dim")
    for number, title in enumerate(columns):
        justify: Literal["left", "right"] = (
            "right" if numbers and number else "left"
        )
        # 窄终端里换行而不截断：被省略的数等于没有印
        table.add_column(_prose(title), justify=justify, overflow="fold")
    for row in rows:
        table.add_row(*map(_prose, row))
    return table


def _prose(text: str) -> Text:
    """Styles `code` and **bold**; everything else is shown as it is."""
    # 用 Text 而不是标记语言：[MASK] 不该被当成样式吃掉
    shown = Text()
    for part in re.split(r"(`[^`]*`|\*\*.*?\*\*)", text):
        if part.startswith("`"):
            shown.append(part, style="green")
        elif part.startswith("**"):
            shown.append(part.strip("*"), style="bold")
        else:
            shown.append(part)
    return shown
