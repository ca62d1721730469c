"""Lines and arguments to examples, by what a task asks for."""

import json
from collections.abc import Callable, Sequence
from typing import Any, cast

from bert_from_scratch.data.tasks.examples import (
    ChoiceExample,
    QuestionExample,
    TextExample,
)
from bert_from_scratch.errors import BertError

Record = dict[str, Any]

# 各任务在 JSONL 里的键，出错时照此提示
KEYS = {
    "classify": '{"text": ..., "pair": ...}',
    "regress": '{"text": ..., "pair": ...}',
    "tag": '{"text": ...}',
    "choose": '{"prompt": ..., "choices": [...]}',
    "answer": '{"question": ..., "context": ..., "id": ...}',
}


def from_arguments(task: str, words: Sequence[str]) -> list[Any]:
    """Makes examples of what was typed.

    Args:
        task: As typed after `bert finetune`.
        words: Texts, each with a tab before the second text of a pair; a
            prompt and its choices; a context after any number of questions.
    """
    if task == "choose":
        if len(words) < 3:
            raise BertError("Give a prompt and at least two choices.")
        if not all(word.strip() for word in words):
            raise BertError("A choice, or the prompt, is empty.")
        return [ChoiceExample(words[0], tuple(words[1:]), place="argument 1")]
    if task == "answer":
        if len(words) < 2:
            raise BertError("Give a question and, after it, the context.")
        *questions, context = words
        return [
            QuestionExample(str(n), q, context, place=f"argument {n}")
            for n, q in enumerate(questions, 1)
        ]
    return [
        _from_text(task, word, f"argument {number}")
        for number, word in enumerate(words, 1)
    ]


def from_line(task: str, line: str, place: str) -> Any:
    """Makes an example of one line: a JSON object, or plain text."""
    record = _parse(line, place)
    if record is not None:
        return _from_record(task, record, place)
    if task in ("choose", "answer"):
        raise BertError(
            f"{place}: a JSON object is expected.",
            hint=f"one a line, as {KEYS[task]}",
        )
    return _from_text(task, line, place)


def _from_text(task: str, line: str, place: str) -> TextExample:
    text, tab, pair = (line, "", "") if task == "tag" else line.partition("\t")
    if not text.strip() or (tab and not pair.strip()):
        raise BertError(f"{place}: the text is empty.")
    return TextExample(text, pair if tab else None, place=place)


def _parse(line: str, place: str) -> Record | None:
    """Returns the JSON object of a line; None: it is plain text."""
    if not line.lstrip().startswith("{"):
        return None
    try:
        return cast("Record", json.loads(line))
    except (ValueError, RecursionError) as error:
        # 断了的 JSON 若当成文字，就会得到一本正经的胡话
        raise BertError(
            f"{place} begins like a JSON object and is none.",
            hint='a text that begins with "{" goes in as {"text": ...}',
        ) from error


def _from_record(task: str, record: Record, place: str) -> Any:
    makers: dict[str, Callable[[Record, str], Any]] = {
        "choose": _choice,
        "answer": _question,
    }
    try:
        return makers.get(task, _text)(record, place)
    except (KeyError, TypeError) as error:
        raise BertError(
            f"{place} lacks {error}.", hint=f"one a line, as {KEYS[task]}"
        ) from error


def _text(record: Record, place: str) -> TextExample:
    pair = record.get("pair")
    return TextExample(
        _string(record, "text"),
        None if pair is None else _string(record, "pair"),
        place=place,
    )


def _choice(record: Record, place: str) -> ChoiceExample:
    choices = record["choices"]
    if not isinstance(choices, list) or len(choices) < 2:
        raise TypeError("a list of at least two choices")
    texts = [_string({"choice": choice}, "choice") for choice in choices]
    return ChoiceExample(_string(record, "prompt"), tuple(texts), place=place)


def _question(record: Record, place: str) -> QuestionExample:
    return QuestionExample(
        id=str(record.get("id", place)),
        question=_string(record, "question"),
        context=_string(record, "context"),
        place=place,
    )


def _string(record: Record, key: str) -> str:
    value = record[key]
    if not isinstance(value, str) or not value.strip():
        raise TypeError(f"a text as {key!r}")
    return value
