"""Files to documents: paragraphs in order, and where documents begin."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path

from bert_from_scratch.corpus.files import DecodeErrors, read_blocks
from bert_from_scratch.corpus.structure import (
    Boundary,
    Structure,
    Unit,
    find_structure,
)

LINES_TO_JUDGE = 2000
CHUNK_CHARACTERS = 1 << 18


@dataclass(frozen=True)
class ReadingOptions:
    """How files are read; None means: find out by looking.

    Attributes:
        unit: What a line is.
        boundary: What ends a document.
        language: For sentence splitting, such as "en" or "zh".
        errors: What to do about bytes that are not UTF-8.
    """

    unit: Unit | None = None
    boundary: Boundary | None = None
    language: str | None = None
    errors: DecodeErrors = "strict"


LOOK_FIRST = ReadingOptions()


@dataclass(frozen=True)
class Chunk:
    """Some paragraphs in a row, of one file.

    Attributes:
        paragraphs: Pieces of text without line ends.
        starts: For each paragraph, whether it begins a document.
        splits: Whether paragraphs still have to be split into sentences.
        language: The language to split by.
        num_bytes: How much of the stored file this chunk took.
    """

    paragraphs: list[str]
    starts: list[bool]
    splits: bool
    language: str
    num_bytes: int


@dataclass(frozen=True)
class FileLayout:
    """What was found about a file."""

    structure: Structure
    language: str


def find_layout(path: Path, options: ReadingOptions) -> FileLayout:
    """Looks at the beginning of a file."""
    lines: list[str] = []
    for block in read_blocks(path, options.errors):
        lines += block.lines
        if len(lines) >= LINES_TO_JUDGE:
            break
    found = find_structure(lines[:LINES_TO_JUDGE])
    return FileLayout(
        Structure(
            options.unit or found.unit, options.boundary or found.boundary
        ),
        options.language or find_language(lines[:LINES_TO_JUDGE]),
    )


def find_language(lines: Iterable[str]) -> str:
    """Returns "zh" for text with many Chinese characters, else "en"."""
    text = "".join(islice(lines, 200))
    num_han = sum("\u4e00" <= character <= "\u9fff" for character in text)
    return "zh" if num_han > 0.2 * len(text) else "en"


def read_chunks(
    path: Path, layout: FileLayout, errors: DecodeErrors = "strict"
) -> Iterator[Chunk]:
    """Reads a file as chunks of about a quarter of a million characters.

    A document that is longer goes on in the next chunk, so memory stays small
    whatever the file.
    """
    num_bytes = 0

    def read_lines() -> Iterator[str]:
        nonlocal num_bytes
        for block in read_blocks(path, errors):
            yield from map(str.strip, block.lines)
            num_bytes += block.num_bytes

    structure = layout.structure
    if structure.unit == "wrapped":
        paragraphs = _unwrap(read_lines())
    else:
        paragraphs = _mark_starts(read_lines(), structure.boundary)
    for group in _group(paragraphs):
        texts, starts = zip(*group, strict=True)
        yield Chunk(
            list(texts),
            list(starts),
            splits=structure.unit != "sentence",
            language=layout.language,
            num_bytes=num_bytes,
        )
        num_bytes = 0


Paragraph = tuple[str, bool]


def _mark_starts(
    lines: Iterable[str], boundary: Boundary
) -> Iterator[Paragraph]:
    """Yields filled lines, and whether each begins a document."""
    is_start = True
    for line in lines:
        if line:
            yield line, is_start
            is_start = boundary == "line"
        elif boundary == "blank":
            is_start = True


def _unwrap(lines: Iterable[str]) -> Iterator[Paragraph]:
    """Joins the lines between blank lines; the whole file is a document."""
    is_start = True
    gathered: list[str] = []
    num_characters = 0
    for line in chain(lines, [""]):
        gathered += [line] if line else []
        num_characters += len(line)
        # 没有空行的长文也要及时交出，不让内存无限增长
        is_full = num_characters > CHUNK_CHARACTERS
        if gathered and (not line or is_full):
            yield _join_lines(gathered), is_start
            is_start, gathered, num_characters = False, [], 0


def _group(paragraphs: Iterable[Paragraph]) -> Iterator[list[Paragraph]]:
    group: list[Paragraph] = []
    num_characters = 0
    for paragraph in paragraphs:
        group.append(paragraph)
        num_characters += len(paragraph[0])
        if num_characters >= CHUNK_CHARACTERS:
            yield group
            group, num_characters = [], 0
    if group:
        yield group


def _join_lines(lines: list[str]) -> str:
    """Joins hard-wrapped lines; Chinese needs no space between them."""
    joined = lines[0]
    for line in lines[1:]:
        if joined[-1] > "\u2e80" and line[0] > "\u2e80":
            joined += line
        else:
            joined += " " + line
    return joined
