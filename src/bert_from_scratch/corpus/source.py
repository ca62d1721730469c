"""Text that can be read more than once: files, or lines from Python."""

import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path

from bert_from_scratch.corpus.files import (
    DecodeErrors,
    TextBlock,
    find_files,
    read_blocks,
)

LINES_A_BLOCK = 4096


@dataclass(frozen=True)
class TextSource:
    """Text as blocks of lines.

    Attributes:
        blocks: Reads the text from its beginning, each time it is called.
        num_bytes: Sum of the blocks' `num_bytes`; 0 when unknown.
    """

    blocks: Callable[[], Iterator[TextBlock]]
    num_bytes: int


@contextmanager
def open_source(
    files_or_lines: Path | Iterable[str | Path],
    errors: DecodeErrors = "strict",
) -> Iterator[TextSource]:
    """Opens text for reading it any number of times.

    Args:
        files_or_lines: `Path` objects name files and folders; strings are
            lines of text themselves. An iterator, which can be read only
            once, is kept in a temporary file meanwhile.
        errors: What to do about bytes that are not UTF-8.
    """
    if isinstance(files_or_lines, str):
        raise TypeError("give a list of lines, or Path objects; not a string")
    if isinstance(files_or_lines, Path):
        files_or_lines = [files_or_lines]
    items = iter(files_or_lines)
    first = next(items, None)
    if isinstance(first, Path):
        if isinstance(files_or_lines, Iterator):
            files_or_lines = [first, *items]
        yield _from_files(find_files(_check_paths(files_or_lines)), errors)
    elif isinstance(files_or_lines, Iterator):
        yield from _spool(chain([] if first is None else [first], items))
    else:
        yield TextSource(lambda: _lines_to_blocks(files_or_lines), 0)


def _spool(lines: Iterable[str | Path]) -> Iterator[TextSource]:
    """Keeps lines that come only once in a temporary file."""
    with tempfile.NamedTemporaryFile(suffix=".txt") as file:
        for item in lines:
            line = _check_line(item).replace("\0", "")
            file.write(line.encode() + b"\n")
        file.flush()
        yield _from_files([Path(file.name)], "strict")


def _from_files(paths: list[Path], errors: DecodeErrors) -> TextSource:
    def blocks() -> Iterator[TextBlock]:
        for path in paths:
            yield from read_blocks(path, errors)

    return TextSource(blocks, sum(path.stat().st_size for path in paths))


def _lines_to_blocks(lines: Iterable[str | Path]) -> Iterator[TextBlock]:
    remaining = iter(lines)
    while block := [_check_line(x) for x in islice(remaining, LINES_A_BLOCK)]:
        yield TextBlock(block, 0)


def _check_line(item: str | Path) -> str:
    if isinstance(item, Path):
        raise TypeError("give either Path objects or lines of text, not both")
    return item


def _check_paths(items: Iterable[str | Path]) -> Iterator[Path]:
    for item in items:
        if not isinstance(item, Path):
            raise TypeError(
                "give either Path objects or lines of text, not both"
            )
        yield item
