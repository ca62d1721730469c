"""Texts and pairs with their labels: TSV, CSV, JSONL, folders of texts."""

from collections.abc import Collection
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from bert_from_scratch.data.tasks.examples import TextExample
from bert_from_scratch.data.tasks.folders import read_folder
from bert_from_scratch.data.tasks.rows import (
    Column,
    Format,
    Row,
    Table,
    choose_format,
    needs_header,
    read_table,
)
from bert_from_scratch.errors import BertError

# 没有指定列时认得的表头；成对的先找，避免把一对句子只当作一句
PAIR_NAMES = (
    ("sentence1", "sentence2"),
    ("text_a", "text_b"),
    ("text1", "text2"),
    ("text", "pair"),
    ("text", "text_pair"),
    ("question1", "question2"),
    ("question", "sentence"),
    ("premise", "hypothesis"),
    ("#1 string", "#2 string"),
)
TEXT_NAMES = ("text", "sentence", "text_a", "sentence1", "review", "question")
LABEL_NAMES = (
    *("label", "labels", "gold_label", "score", "target"),
    *("is_duplicate", "quality"),
)


@dataclass(frozen=True)
class TextColumns:
    """Where a table keeps what.

    Attributes:
        text: Column of segment A.
        pair: Column of segment B, or None.
        label: Column of the label; None: not labelled.
        label_separator: What stands between labels where several may hold
            at once, such as "|"; an empty field then means none of them.
        has_header: Whether the first line names the columns. None: it does
            when any column is given by a name.
    """

    text: Column
    pair: Column | None = None
    label: Column | None = None
    label_separator: str | None = None
    has_header: bool | None = None


@dataclass(frozen=True)
class Texts:
    """What a file held.

    Attributes:
        examples: In the order of the file, at least one.
        num_damaged: Rows left out: too few fields, or no text.
        num_without_gold: Rows left out, since no label was agreed on.
    """

    examples: list[TextExample]
    num_damaged: int = 0
    num_without_gold: int = 0


def read_texts(
    path: Path,
    columns: TextColumns | None = None,
    *,
    format: Format | None = None,  # noqa: A002
    label_separator: str | None = None,
) -> list[TextExample]:
    """Reads texts or pairs, labelled or not.

    Args:
        path: A .tsv, .csv or .jsonl file, or a folder whose sub-folders are
            the labels and hold one .txt file a text.
        columns: Where to find what; None: by the well-known names in the
            header, such as "sentence" and "label".
        format: What the file is; None: as its suffix says.
        label_separator: As in `TextColumns`, where columns are looked for.

    Returns:
        At least one example. Labels are None where the file has no label
        column, or where that column is empty in all rows.

    Raises:
        BertError: The file is at fault; the message names the line.
    """
    return collect_texts(
        path, columns, file_format=format, label_separator=label_separator
    ).examples


def collect_texts(
    path: Path,
    columns: TextColumns | None = None,
    *,
    file_format: Format | None = None,
    skip_damaged: bool = False,
    no_gold: Collection[str] = (),
    label_separator: str | None = None,
) -> Texts:
    """Reads texts as `read_texts` does, and may leave out known faults.

    Args:
        path: A file or a folder.
        columns: Where to find what.
        file_format: What the file is.
        skip_damaged: Whether rows with a wrong number of fields or without
            a text are left out and counted.
        no_gold: Labels that mean that there is none; such rows are left out
            and counted.
        label_separator: As in `TextColumns`, where columns are looked for.
    """
    file_format = file_format or choose_format(path)
    if file_format == "folder":
        return Texts(read_folder(path))
    has_header = True if columns is None else _has_header(columns)
    table = read_table(path, file_format, has_header, skip_damaged=skip_damaged)
    if columns is None:
        guessed = _guess_columns(table)
        columns = replace(guessed, label_separator=label_separator)
    examples = _read_examples(table, columns)
    if not has_header:
        _refuse_header(examples[0])
    with_text = [e for e in examples if not _is_blank(e)]
    if not skip_damaged:
        _refuse_blank(examples)
    # 先去掉没有文本的，再去掉没有标签的，两个计数互不重叠
    kept = [e for e in with_text if not _means_no_gold(e, no_gold)]
    if not kept:
        raise BertError(f"{path} holds no examples that can be used.")
    return Texts(
        _check_labels(kept),
        table.num_damaged + len(examples) - len(with_text),
        len(with_text) - len(kept),
    )


def _has_header(columns: TextColumns) -> bool:
    if columns.has_header is not None:
        return columns.has_header
    return needs_header((columns.text, columns.pair, columns.label))


def _refuse_header(first: TextExample) -> None:
    """Refuses a header that would be taken for the first text."""
    names = {*TEXT_NAMES, *(name for pair in PAIR_NAMES for name in pair)}
    says_label = first.labels is None or first.labels[0].lower() in LABEL_NAMES
    if says_label and first.text.strip().lower() in names:
        raise BertError(
            f"{first.place} looks like a header: {first.text!r}.",
            hint="give columns by name where the file has a header: "
            f"--text-column {first.text.strip()}",
        )


def _guess_columns(table: Table) -> TextColumns:
    # 同名的列以先出现者为准；比较时不分大小写
    names: dict[str, str] = {}
    for name in table.names:
        names.setdefault(name.lower(), name)
    label = next((names[n] for n in LABEL_NAMES if n in names), None)
    for first, second in PAIR_NAMES:
        if first in names and second in names:
            return TextColumns(names[first], names[second], label)
    text = next((names[n] for n in TEXT_NAMES if n in names), None)
    if text is None:
        raise BertError(
            f"{table.path} has no column that is known to hold texts; its "
            f"columns are {table.describe()}.",
            hint="say which it is: --text-column NAME, or a number from 0 "
            "where the file has no header",
        )
    return TextColumns(text, None, label)


def _read_examples(table: Table, columns: TextColumns) -> list[TextExample]:
    text = table.find(columns.text)
    pair = None if columns.pair is None else table.find(columns.pair)
    label = None if columns.label is None else table.find(columns.label)
    return [
        TextExample(
            text=row.text(text),
            pair=None if pair is None else row.text(pair),
            labels=(
                None
                if label is None
                else _read_labels(row, label, columns.label_separator)
            ),
            place=row.place,
        )
        for row in table.rows
    ]


def _read_labels(
    row: Row, key: Column, separator: str | None
) -> tuple[str, ...] | None:
    """Returns the labels of a row; None where the field is empty."""
    value = row.value(key)
    if isinstance(value, list):
        if all(isinstance(label, str) for label in value):
            return tuple(value)
    # bool 在 Python 里也是 int，必须先判断
    elif isinstance(value, bool):
        return (str(value).lower(),)
    elif value is None or isinstance(value, str | int | float):
        written = "" if value is None else str(value).strip()
        if separator is None or value is None:
            return (written,) if written else None
        # 多标签时空字段是“一个都没有”，与没有标注不同
        pieces = [piece.strip() for piece in written.split(separator)]
        return tuple(piece for piece in pieces if piece)
    raise BertError(
        f"The label is neither a string, a number nor a list of strings, but "
        f"{_shorten(value)}: {row.place}."
    )


def _shorten(value: Any, limit: int = 60) -> str:
    text = repr(value)
    return text if len(text) <= limit else f"{text[:limit]}..."


def _is_blank(example: TextExample) -> bool:
    pair = example.pair
    return not example.text.strip() or (pair is not None and not pair.strip())


def _means_no_gold(example: TextExample, no_gold: Collection[str]) -> bool:
    if not no_gold or example.labels is None:
        return "" in no_gold and example.labels is None
    return any(label in no_gold for label in example.labels)


def _refuse_blank(examples: list[TextExample]) -> None:
    blank = [example.place for example in examples if _is_blank(example)]
    if blank:
        raise BertError(
            f"{len(blank)} of {len(examples)} rows have an empty text, the "
            f"first at {blank[0]}.",
            hint="write the text, or remove these lines",
        )


def _check_labels(examples: list[TextExample]) -> list[TextExample]:
    """Refuses a file in which only some rows are labelled."""
    bare = [example.place for example in examples if example.labels is None]
    # 全部为空是待预测的文件；只缺几个则是标注有误
    if bare and len(bare) < len(examples):
        raise BertError(
            f"{len(bare)} of {len(examples)} rows have no label, the first "
            f"at {bare[0]}.",
            hint="write the label, or remove these lines",
        )
    return examples
