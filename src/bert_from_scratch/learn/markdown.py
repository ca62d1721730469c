"""Lessons as Markdown, for `docs/course` and for any viewer."""

import html
import re
from collections.abc import Sequence
from functools import singledispatch

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


def to_markdown(lesson: Lesson) -> str:
    """Writes a lesson as one Markdown page."""
    parts = [f"# {lesson.title}", *(_write(block) for block in lesson.blocks)]
    return "\n\n".join(parts) + "\n"


@singledispatch
def _write(block: Block) -> str:
    raise TypeError(f"no Markdown for {type(block).__name__}")


@_write.register
def _(block: Heading) -> str:
    return f"## {block.text}"


@_write.register
def _(block: Paragraph) -> str:
    return _prose(block.text)


@_write.register
def _(block: Items) -> str:
    return "\n".join(f"- {_prose(point)}" for point in block.points)


@_write.register
def _(block: Formula) -> str:
    return _fence("text", block.lines)


@_write.register
def _(block: Matrix) -> str:
    rows = [[_cell(text) for text in row] for row in block.cells()]
    columns = ["", *map(_cell, block.columns)]
    return f"**{_cell(block.name)}**\n\n" + _table(columns, rows, "--:")


@_write.register
def _(block: Table) -> str:
    rows = [[_cell(text) for text in row] for row in block.rows]
    return _table([_cell(text) for text in block.columns], rows, "---")


@_write.register
def _(block: Code) -> str:
    return _fence(block.syntax, block.text.strip("\n").split("\n"))


@_write.register
def _(block: Transcript) -> str:
    return _fence("text", block.lines)


def _fence(syntax: str, lines: Sequence[str]) -> str:
    text = "\n".join(lines)
    # 围栏要比内容里最长的一串反引号更长，内容才不会提前结束它
    runs = re.findall("`{3,}", text)
    fence = "`" * max([3, *(len(run) + 1 for run in runs)])
    return f"{fence}{syntax}\n{text}\n{fence}"


def _table(
    columns: Sequence[str], rows: Sequence[Sequence[str]], rule: str
) -> str:
    first = "---" if rule == "--:" else rule
    rules = [first, *[rule] * (len(columns) - 1)]
    lines = [columns, rules, *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _prose(text: str) -> str:
    """Keeps `code` and **bold**; everything else means itself."""
    parts = re.split(r"(`[^`]*`|\*\*)", text)
    # 反引号之间原样保留；其余字符不许被当成标记或 HTML
    return "".join(
        part if index % 2 else _escape(part) for index, part in enumerate(parts)
    )


def _cell(text: str) -> str:
    return _prose(text).replace("|", r"\|").replace("\n", " ")


def _escape(text: str) -> str:
    return re.sub(r"([\\*_`])", r"\\\1", html.escape(text, quote=False))
