"""What commands share: stderr for people, stdout for data."""

import json
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Table
from rich.text import Text

from bert_from_scratch.corpus.progress import ProgressReport
from bert_from_scratch.errors import BertError

stderr = Console(stderr=True, highlight=False)
stdout = Console(highlight=False)


def print_error(error: BertError) -> None:
    """Prints what is wrong and what to do, as plain lines on stderr."""
    print(f"error: {error.message}", file=sys.stderr)
    if error.hint:
        print(f"hint: {error.hint}", file=sys.stderr)


def print_json(value: Any, indent: int | None = None) -> None:
    """Prints one JSON value on stdout."""
    # 输出不是 UTF-8 时全部转义：读的人照样得到同样的字
    is_unicode = (sys.stdout.encoding or "").lower().startswith("utf")
    print(json.dumps(value, ensure_ascii=not is_unicode, indent=indent))


def say(message: str) -> None:
    """Tells a person something, on stderr."""
    stderr.print(escape(message), soft_wrap=True)


def print_table(
    rows: Iterable[tuple[str, str]], *, is_result: bool = False
) -> None:
    """Shows names and values side by side.

    Args:
        rows: Names and values.
        is_result: Whether this is what was asked for: then it goes to
            stdout, else to stderr.
    """
    table = Table(show_header=False, box=None, padding=(0, 2, 0, 0))
    for name, value in rows:
        table.add_row(escape(name), Text(value, overflow="fold"))
    (stdout if is_result else stderr).print(table)


def read_texts(texts: list[str] | None, input_path: Path | None) -> list[str]:
    """Returns the texts of the arguments, or of a file with one a line."""
    if texts and input_path:
        raise BertError("Give texts or --input, not both.")
    if texts:
        for text in texts:
            if Path(text).suffix and Path(text).is_file():
                say(f"warning: {text} is taken as text; a file is --input.")
        return texts
    if input_path is None:
        raise BertError(
            "No text was given.", hint="add TEXT, or --input FILE (- is stdin)"
        )
    content = _read_input(input_path)
    lines = content.replace("\r\n", "\n").split("\n")
    if lines[-1] == "":
        lines.pop()
    if not lines:
        raise BertError(f"{input_path} is empty.")
    return lines


def _read_input(input_path: Path) -> str:
    try:
        if str(input_path) == "-":
            data = sys.stdin.buffer.read()
        else:
            data = input_path.read_bytes()
        return data.decode().removeprefix("\ufeff")
    except OSError as error:
        raise BertError(
            f"Cannot read {input_path}: {error.strerror}."
        ) from error
    except UnicodeDecodeError as error:
        raise BertError(
            f"{input_path} is not UTF-8 at byte {error.start}."
        ) from error


@contextmanager
def progress_bar() -> Iterator[Progress]:
    """Shows bars on stderr while the block runs."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    progress = Progress(
        *columns,
        console=stderr,
        transient=True,
        disable=not stderr.is_terminal,
    )
    with progress:
        yield progress


@contextmanager
def report_stages() -> Iterator[ProgressReport]:
    """Yields a report that shows a bar for every stage of the work."""
    with progress_bar() as progress:
        tasks: dict[str, Any] = {}

        def report(stage: str, done: int, total: int) -> None:
            if stage not in tasks:
                tasks[stage] = progress.add_task(stage, total=total or None)
            progress.update(tasks[stage], completed=done)

        yield report
