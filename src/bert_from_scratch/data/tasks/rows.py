"""TSV, CSV and JSONL as rows, and the columns that a task asks for."""

import csv
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias

from bert_from_scratch.data.tasks.files import parse_json, read_lines
from bert_from_scratch.errors import BertError

Format = Literal["tsv", "csv", "jsonl", "folder"]
# 列可用表头里的名字，也可用从 0 数起的号码（没有表头的文件）
Column: TypeAlias = str | int
FORMATS: tuple[Format, ...] = ("tsv", "csv", "jsonl", "folder")
LARGEST_FIELD = 1 << 30


@dataclass(frozen=True)
class Row:
    """One row of a table.

    Attributes:
        values: Fields in order; of a JSONL file the object itself.
        place: Where it was read.
    """

    values: list[str] | dict[str, Any]
    place: str

    def value(self, key: Column) -> Any:
        """Returns a field by what `Table.find` returned for its column."""
        if isinstance(self.values, list):
            assert isinstance(key, int)
            return self.values[key]
        if key not in self.values:
            raise BertError(f'{self.place} has no "{key}".')
        return self.values[str(key)]

    def text(self, key: Column) -> str:
        """Returns a field that must be a string."""
        value = self.value(key)
        if not isinstance(value, str):
            raise BertError(
                f'"{key}" is not a text but {value!r}: {self.place}.',
                hint="write it in double quotes",
            )
        return value


@dataclass(frozen=True)
class Table:
    """The rows of one file.

    Attributes:
        path: The file.
        names: Its columns or keys; empty where it has no header.
        width: How many fields a row has; 0 for JSONL.
        rows: At least one.
        num_damaged: Rows left out for a wrong number of fields.
    """

    path: Path
    names: tuple[str, ...]
    width: int
    rows: list[Row]
    num_damaged: int = 0

    def find(self, column: Column) -> Column:
        """Returns what `Row.value` calls a column.

        Args:
            column: A name, or a number from 0; a name of digits that is not
                in the header is a number.

        Raises:
            BertError: There is none such; the message lists those there are.
        """
        if column in self.names:
            named = str(column)
            return self.names.index(named) if self.width else named
        # 表头里没有的纯数字才当作列号，表头优先
        number = int(column) if is_number(column) else -1
        if 0 <= number < self.width:
            return number
        raise BertError(
            f'{self.path} has no column "{column}"; it has {self.describe()}.',
            hint="give one of these, or a number counted from 0",
        )

    def describe(self) -> str:
        """Lists the columns, for a message."""
        if self.names:
            return ", ".join(f'"{name}"' for name in self.names)
        return f"{self.width} columns and no header"


MAX_DIGITS = 9


def is_number(column: Column) -> bool:
    """Says whether a column is given by its number."""
    if isinstance(column, int):
        return True
    return column.isascii() and column.isdigit() and len(column) <= MAX_DIGITS


def needs_header(columns: Iterable[Column | None]) -> bool:
    """Says whether any column is given by a name."""
    return any(c is not None and not is_number(c) for c in columns)


def choose_format(path: Path) -> Format:
    """Tells the format of a path by its suffix; a directory is a folder.

    Raises:
        BertError: It is none of ours.
    """
    if path.is_dir():
        return "folder"
    for name in FORMATS:
        if path.suffix.lower() == f".{name}":
            return name
    raise BertError(
        f"Cannot tell the format of {path} by its name.",
        hint="name it .tsv, .csv or .jsonl",
    )


def read_table(
    path: Path,
    file_format: Format,
    has_header: bool,
    *,
    skip_damaged: bool = False,
) -> Table:
    """Reads all rows of a file.

    Args:
        path: UTF-8 text. In TSV quotes are plain characters; CSV has real
            quoting, and its fields may hold line ends.
        file_format: "tsv", "csv" or "jsonl".
        has_header: Whether the first row names the columns; JSONL has keys.
        skip_damaged: Whether rows with a wrong number of fields are left
            out and counted; otherwise they are an error.
    """
    if file_format == "jsonl":
        return _read_jsonl(path)
    lines = read_lines(path)
    read = _split_csv if file_format == "csv" else _split_tsv
    # TSV 不认引号：MRPC 等官方文件里的引号常不成对
    numbered = list(read(path, lines))
    header = tuple(f.strip() for f in numbered[0][1]) if has_header else ()
    # 第一行定下列数，之后每一行都必须相同
    width = len(numbered[0][1])
    rows = []
    num_damaged = 0
    for number, fields in numbered[1:] if has_header else numbered:
        if len(fields) == width:
            rows.append(Row(fields, f"{path}, line {number}"))
        elif skip_damaged:
            num_damaged += 1
        else:
            raise _wrong_width(path, number, fields, width, file_format)
    if not rows:
        only = ", only a header line" if has_header else ""
        raise BertError(f"{path} holds no examples{only}.")
    return Table(path, header, width, rows, num_damaged)


def _split_tsv(
    path: Path, lines: Sequence[str]
) -> Iterator[tuple[int, list[str]]]:
    del path
    for number, line in enumerate(lines, 1):
        yield number, line.split("\t")


def _split_csv(
    path: Path, lines: Sequence[str]
) -> Iterator[tuple[int, list[str]]]:
    # 默认上限约 13 万字符，一篇长文就会超过
    csv.field_size_limit(LARGEST_FIELD)
    reader = csv.reader((f"{line}\n" for line in lines), strict=True)
    number = 1
    try:
        for fields in reader:
            yield number, fields or [""]
            # 引号内可以换行，所以一行记录可能占好几行
            number = reader.line_num + 1
    except csv.Error as error:
        raise BertError(
            f"{path}, line {number} is not CSV: {error}.",
            hint='close every quote, and write " inside a field as ""',
        ) from error


def _read_jsonl(path: Path) -> Table:
    rows = []
    for number, line in enumerate(read_lines(path), 1):
        place = f"{path}, line {number}"
        values = parse_json(line, place)
        if not isinstance(values, dict):
            raise BertError(
                f"{place} is not a JSON object.",
                hint='write one object a line: {"text": "...", "label": "..."}',
            )
        rows.append(Row(values, place))
    # 取所有行的键：第一行缺了的键，也要能指出是哪一行缺
    names = dict.fromkeys(name for row in rows for name in row.values)
    return Table(path, tuple(names), 0, rows)


def _wrong_width(
    path: Path, number: int, fields: list[str], width: int, file_format: Format
) -> BertError:
    hints = {
        "tsv": "a text must not contain a tab or a line end",
        "csv": 'put a text with a comma or a line end in "double quotes"',
    }
    return BertError(
        f"{path}, line {number} has {len(fields)} fields, but the first line "
        f"has {width}.",
        hint=hints[file_format],
    )
