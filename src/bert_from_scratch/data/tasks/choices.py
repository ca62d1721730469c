"""Multiple choice: SWAG, CODAH, DREAM, JSONL, and tables of one's own."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bert_from_scratch.data.tasks.examples import ChoiceExample
from bert_from_scratch.data.tasks.files import read_json, read_lines
from bert_from_scratch.data.tasks.rows import (
    Column,
    Row,
    Table,
    choose_format,
    is_number,
    needs_header,
    read_table,
)
from bert_from_scratch.errors import BertError

PROMPT_NAMES = ("prompt", "context", "sentence", "question", "text")
ANSWER_NAMES = ("answer", "label")
CHOICE_NAME = re.compile(r"(choice|ending|option)_?(\d+|[a-z])", re.IGNORECASE)


@dataclass(frozen=True)
class ChoiceColumns:
    """Where a table keeps what.

    Attributes:
        prompt: Column of segment A.
        choices: One column a choice; of a JSONL file also a single key that
            holds a list.
        answer: Column of the right choice's number, from 0, or of its text;
            None: not labelled.
        prefix: Column with the words that begin every choice, or None.
        has_header: Whether the first line names the columns. None: it does
            when any column is given by a name.
    """

    prompt: Column
    choices: tuple[Column, ...]
    answer: Column | None = None
    prefix: Column | None = None
    has_header: bool | None = None

    def starts_with_header(self) -> bool:
        """Says whether the first line names the columns."""
        if self.has_header is not None:
            return self.has_header
        return needs_header(
            (self.prompt, *self.choices, self.answer, self.prefix)
        )


SWAG = ChoiceColumns(
    "sent1", ("ending0", "ending1", "ending2", "ending3"), "label", "sent2"
)
CODAH = ChoiceColumns(1, (2, 3, 4, 5), 6)
JSONL = ChoiceColumns("prompt", ("choices",), "answer")


def read_choices(
    path: Path, columns: ChoiceColumns | None = None
) -> list[ChoiceExample]:
    """Reads prompts with their choices, labelled or not.

    Args:
        path: A .tsv, .csv or .jsonl file, or DREAM's .json.
        columns: Where to find what. None: SWAG's or CODAH's own columns, a
            header such as prompt, choice0, choice1, answer, or in JSONL the
            keys "prompt", "choices" and "answer".

    Returns:
        At least one example; all have the same number of choices.

    Raises:
        BertError: The file is at fault; the message names the place.
    """
    if path.suffix.lower() == ".json":
        examples = list(_read_dream(path))
    else:
        examples = list(_read_rows(path, columns))
    if not examples:
        raise BertError(f"{path} holds no examples.")
    _check_choices(examples)
    return examples


def _read_rows(
    path: Path, columns: ChoiceColumns | None
) -> Iterator[ChoiceExample]:
    file_format = choose_format(path)
    if file_format == "folder":
        raise BertError(f"{path} is a folder.", hint="give a file in it")
    if columns is None and file_format == "tsv" and _looks_like_codah(path):
        columns = CODAH
    has_header = True if columns is None else columns.starts_with_header()
    table = read_table(path, file_format, has_header)
    if columns is None:
        columns = _guess_columns(table)
    prompt = table.find(columns.prompt)
    choices = [table.find(column) for column in columns.choices]
    prefix = None if columns.prefix is None else table.find(columns.prefix)
    answer = None if columns.answer is None else table.find(columns.answer)
    for row in table.rows:
        # SWAG 的每个选项都以同一半句开头，拼好后才是完整的一段
        start = "" if prefix is None else f"{row.text(prefix)} "
        # 答案按原文匹配，所以要用还没有拼接的选项
        texts = _choices_of(row, choices)
        yield ChoiceExample(
            row.text(prompt),
            tuple(start + text for text in texts),
            None if answer is None else _answer_of(row, answer, texts),
            row.place,
        )


def _looks_like_codah(path: Path) -> bool:
    # CODAH 没有表头：七列，最后一列是答案的号码
    fields = read_lines(path)[0].split("\t")
    return len(fields) == 7 and fields[6].strip() in ("0", "1", "2", "3")


def _guess_columns(table: Table) -> ChoiceColumns:
    names = {name.lower(): name for name in table.names}
    answer = next((names[n] for n in ANSWER_NAMES if n in names), None)
    # JSONL 的选项是一个列表，不分列
    if not table.width:
        return ChoiceColumns(JSONL.prompt, JSONL.choices, answer)
    if {SWAG.prompt, SWAG.prefix, *SWAG.choices} <= set(table.names):
        return ChoiceColumns(SWAG.prompt, SWAG.choices, answer, SWAG.prefix)
    prompt = next((names[n] for n in PROMPT_NAMES if n in names), None)
    choices = tuple(n for n in table.names if CHOICE_NAME.fullmatch(n))
    if prompt is None or not choices:
        raise BertError(
            f"{table.path} has no columns that are known to hold a prompt and "
            f"its choices; it has {table.describe()}.",
            hint="give --prompt-column, --choice-columns and --answer-column, "
            "or name them prompt, choice0, choice1, ... and answer",
        )
    return ChoiceColumns(prompt, choices, answer)


def _choices_of(row: Row, keys: Iterable[Column]) -> list[str]:
    texts: list[str] = []
    for key in keys:
        value = row.value(key)
        pieces = value if isinstance(value, list) else [value]
        if not all(isinstance(piece, str) for piece in pieces):
            raise BertError(
                f"A choice is not a text: {row.place}.",
                hint="write every choice in double quotes",
            )
        texts += pieces
    return texts


def _answer_of(row: Row, key: Column, texts: list[str]) -> int | None:
    value = row.value(key)
    # 表格里一切都是字符串，数字就是号码；JSON 里字符串则是选项原文
    if isinstance(row.values, list):
        value = value.strip()
        if is_number(value):
            value = int(value)
    return _find_answer(value, texts, row.place)


def _find_answer(value: Any, texts: list[str], place: str) -> int | None:
    """Returns the number of the right choice; None where none is given."""
    if value is None or value == "":
        return None
    if isinstance(value, str):
        if value in texts:
            return texts.index(value)
        raise BertError(
            f'The answer "{value}" is not among the choices: {place}.',
            hint="write it exactly as the choice, or its number from 0",
        )
    # true 不是号码，尽管 Python 当它是 1
    if isinstance(value, bool) or not isinstance(value, int):
        raise BertError(f"The answer is {value!r}, not a number: {place}.")
    if not 0 <= value < len(texts):
        raise BertError(
            f"The answer is {value}, but there are {len(texts)} choices: "
            f"{place}.",
            hint=f"choices are counted from 0 to {len(texts) - 1}",
        )
    return value


def _read_dream(path: Path) -> Iterator[ChoiceExample]:
    articles = read_json(path)
    if not isinstance(articles, list):
        raise BertError(
            f"{path} is not in DREAM's format: it holds no list.",
            hint='for files of your own use .jsonl with "prompt", "choices" '
            'and "answer"',
        )
    for number, article in enumerate(articles, 1):
        place = f"{path}, dialogue {number}"
        try:
            turns, questions = article[0], article[1]
            # 段 A 是整段对话，所有问题共用；问题放进段 B
            prompt = " ".join(turns)
            for count, asked in enumerate(questions, 1):
                where = f"{place}, question {count}"
                yield _read_dream_question(prompt, asked, where)
        except (KeyError, IndexError, TypeError) as error:
            raise BertError(
                f"{place} is not in DREAM's format: [turns, questions, id]."
            ) from error


def _read_dream_question(
    prompt: str, asked: dict[str, Any], place: str
) -> ChoiceExample:
    texts = list(asked["choice"])
    return ChoiceExample(
        prompt,
        tuple(f"{asked['question']} {text}" for text in texts),
        _find_answer(asked.get("answer"), texts, place),
        place,
    )


def _check_choices(examples: list[ChoiceExample]) -> None:
    num_choices = len(examples[0].choices)
    if num_choices < 2:
        raise BertError(
            f"There is only {num_choices} choice: {examples[0].place}.",
            hint="a question needs two choices or more",
        )
    for example in examples:
        # 每题得分要排成 [题, 选项] 的方阵，选项数必须处处相同
        if len(example.choices) != num_choices:
            raise BertError(
                f"{example.place} has {len(example.choices)} choices, but "
                f"the first has {num_choices}.",
                hint="all questions of a file need the same number",
            )
        if not all(t.strip() for t in (example.prompt, *example.choices)):
            raise BertError(
                f"The prompt or a choice is empty: {example.place}.",
                hint="write the text, or remove this question",
            )
    _check_labelled(examples)


def _check_labelled(examples: list[ChoiceExample]) -> None:
    bare = [example.place for example in examples if example.answer is None]
    if bare and len(bare) < len(examples):
        raise BertError(
            f"{len(bare)} of {len(examples)} questions have no answer, the "
            f"first at {bare[0]}.",
            hint="write the answer, or remove these questions",
        )
