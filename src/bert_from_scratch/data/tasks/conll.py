"""Sentences in columns: a word a line with its tag, as CoNLL keeps them."""

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from bert_from_scratch.data.tasks.examples import TagExample
from bert_from_scratch.data.tasks.files import read_lines
from bert_from_scratch.data.tasks.tag_schemes import tidy_tags
from bert_from_scratch.errors import BertError

logger = logging.getLogger(__name__)

DOCUMENT_START = "-DOCSTART-"


@dataclass(frozen=True)
class _Sentence:
    """Consecutive lines, cut into columns."""

    rows: list[list[str]]
    first_line: int
    document: int


def read_tags(
    path: Path, *, word_column: int = 0, tag_column: int = -1
) -> list[TagExample]:
    """Reads sentences and makes sure that their tags are sound.

    Args:
        path: A word a line, a blank line after each sentence; columns stand
            apart by spaces or tabs, in a .tsv file by one tab. Lines with
            -DOCSTART- begin a document.
        word_column: Column of the words.
        tag_column: Column of the tags; -1 is the last. A file of one column
            is not labelled.

    Returns:
        At least one sentence. Tags in IOB1, where B- stands only between
        neighbours, become BIO; a log line says so.

    Raises:
        BertError: The columns or the tags are at fault; the message names
            the place.
    """
    sentences = read_columns(
        path, word_column=word_column, tag_column=tag_column
    )
    tidied = tidy_tags(sentences)
    for note in tidied.notes:
        logger.warning("%s: %s", path, note)
    return tidied.examples


def read_columns(
    path: Path, *, word_column: int = 0, tag_column: int = -1
) -> list[TagExample]:
    """Reads sentences with their tags as written."""
    sentences = list(_read_sentences(path))
    if not sentences:
        raise BertError(f"{path} holds no sentences.")
    # 第一个词定下列数，-1 才能换算成确切的列
    width = len(sentences[0].rows[0])
    columns = (
        _find_column(word_column, width, path),
        _find_column(tag_column, width, path),
    )
    return [_to_example(s, columns, width, path) for s in sentences]


def _read_sentences(path: Path) -> Iterator[_Sentence]:
    split = _split_at_tabs if path.suffix == ".tsv" else _split_at_blanks
    rows: list[list[str]] = []
    document = 0
    is_document_empty = True
    # 末尾补一个空行，最后一句才会收尾
    for number, line in enumerate([*read_lines(path), ""], 1):
        fields = split(line)
        is_document_start = fields[:1] == [DOCUMENT_START]
        if fields and not is_document_start:
            rows.append(fields)
            continue
        if rows:
            yield _Sentence(rows, number - len(rows), document)
            rows, is_document_empty = [], False
        # 标记只分隔文档，本身不是句子；开头的那个不另起一篇
        if is_document_start and not is_document_empty:
            document += 1
            is_document_empty = True


def _split_at_tabs(line: str) -> list[str]:
    return line.split("\t") if line.strip() else []


def _split_at_blanks(line: str) -> list[str]:
    # 只认空格和制表符：全角空格等也可能是要标注的字
    return [field for field in line.replace("\t", " ").split(" ") if field]


def _find_column(column: int, width: int, path: Path) -> int:
    """Counts a column from the front."""
    if -width <= column < width:
        return column % width
    raise BertError(
        f"{path} has no column {column}: its first word has {width} columns.",
        hint="columns are counted from 0; -1 is the last",
    )


def _to_example(
    sentence: _Sentence, columns: tuple[int, int], width: int, path: Path
) -> TagExample:
    for number, row in enumerate(sentence.rows, sentence.first_line):
        _check_row(row, width, f"{path}, line {number}")
    word_column, tag_column = columns
    words = tuple(row[word_column] for row in sentence.rows)
    tags = tuple(row[tag_column] for row in sentence.rows)
    # 只有一列时词就是全部内容：没有标签，留待预测
    is_labelled = word_column != tag_column
    return TagExample(
        words,
        tags if is_labelled else None,
        sentence.document,
        f"{path}, line {sentence.first_line}",
    )


def _check_row(row: list[str], width: int, place: str) -> None:
    if len(row) != width:
        raise BertError(
            f"{place} has {len(row)} columns, but the first word has {width}.",
            hint="a word must not contain spaces; sentences end with an "
            "empty line",
        )
    if "" in row:
        raise BertError(f"{place} has an empty column.")
