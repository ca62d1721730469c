"""Questions about texts: SQuAD 1.1, SQuAD 2.0 and CMRC 2018."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from bert_from_scratch.data.tasks.examples import Answer, QuestionExample
from bert_from_scratch.data.tasks.files import read_json
from bert_from_scratch.errors import BertError

NOT_IN_CONTEXT = -1


@dataclass(frozen=True)
class Questions:
    """What a file held.

    Attributes:
        examples: In the order of the file, at least one.
        num_moved: Answers that were not where the file says, and were found
            elsewhere in their context.
        num_lost: Answers that are nowhere in their context.
        num_skipped: Questions left out of training, since none of their
            answers is in the context.
        num_impossible: Questions that the context does not answer.
    """

    examples: list[QuestionExample]
    num_moved: int = 0
    num_lost: int = 0
    num_skipped: int = 0
    num_impossible: int = 0


def read_questions(path: Path, *, for_training: bool = False) -> Questions:
    """Reads a file in SQuAD's JSON format.

    An answer that is not at its `answer_start` moves to the nearest place
    where its text is. One that is nowhere in the context cannot be trained
    on: it is left out, and with it a question that has no other. To
    evaluate, it is kept with the start NOT_IN_CONTEXT: its text still counts.

    Args:
        path: The file.
        for_training: Whether every question needs an answer in its context,
            or the mark that there is none.

    Raises:
        BertError: Something is missing, or an id comes twice; the message
            names article, paragraph and question.
    """
    examples: list[QuestionExample] = []
    counts: Counter[str] = Counter()
    for written in _read_all(path):
        example = _place_answers(written, counts)
        if for_training:
            _check_answered(example)
            example = _keep_found(example)
            # 原有答案全都找不到：训练时没有可指的位置，只好略过
            if written.answers and not example.answers:
                counts["skipped"] += 1
                continue
        examples.append(example)
    if not examples:
        raise BertError(f"{path} holds no questions that can be used.")
    _check_ids(examples)
    return Questions(
        examples,
        num_moved=counts["moved"],
        num_lost=counts["lost"],
        num_skipped=counts["skipped"],
        num_impossible=sum(example.is_impossible for example in examples),
    )


def _read_all(path: Path) -> Iterator[QuestionExample]:
    """Yields every question with its answers as written."""
    articles = _get(read_json(path), "data", list, str(path))
    for number, article in enumerate(articles, 1):
        place = f"{path}, article {number}"
        title = article.get("title", "") if isinstance(article, dict) else ""
        paragraphs = _get(article, "paragraphs", list, place)
        for count, paragraph in enumerate(paragraphs, 1):
            where = f"{place}, paragraph {count}"
            context = _get(paragraph, "context", str, where)
            if not context.strip():
                raise BertError(f"The context is empty: {where}.")
            for asked in _get(paragraph, "qas", list, where):
                yield _read_question(asked, context, str(title), where)


def _read_question(
    asked: Any, context: str, title: str, paragraph: str
) -> QuestionExample:
    name = _get(asked, "id", (str, int), paragraph)
    place = f"{paragraph}, question {name}"
    is_impossible = bool(asked.get("is_impossible", False))
    answers = []
    # 无答案题的 plausible_answers 只是干扰项，不读
    if "answers" in asked and not is_impossible:
        answers = _get(asked, "answers", list, place)
    return QuestionExample(
        id=str(name),
        question=_get(asked, "question", str, place),
        context=context,
        answers=tuple(
            Answer(
                # CMRC 的个别答案写成了数字
                str(_get(answer, "text", (str, int, float), place)),
                _get(answer, "answer_start", int, place),
            )
            for answer in answers
        ),
        is_impossible=is_impossible,
        title=title,
        place=place,
    )


def _get(
    values: Any, key: str, kinds: type | tuple[type, ...], place: str
) -> Any:
    """Returns the value of a key, or says what is missing and where."""
    if not isinstance(values, dict) or key not in values:
        raise BertError(
            f'There is no "{key}": {place}.',
            hint="the format is SQuAD's: data > paragraphs > context and qas",
        )
    if not isinstance(values[key], kinds):
        name = type(values[key]).__name__
        raise BertError(f'"{key}" is of the wrong type, {name}: {place}.')
    return values[key]


def _place_answers(
    example: QuestionExample, counts: Counter[str]
) -> QuestionExample:
    """Puts every answer where its text is, and counts those that moved."""
    answers = []
    for written in example.answers:
        start = _find_nearest(written, example.context)
        if start == NOT_IN_CONTEXT:
            counts["lost"] += 1
        elif start != written.start:
            counts["moved"] += 1
        answers.append(replace(written, start=start))
    return replace(example, answers=tuple(answers))


def _find_nearest(answer: Answer, context: str) -> int:
    """Returns where the text is, as near as can be to the start given."""
    if not answer.text.strip():
        return NOT_IN_CONTEXT
    # 起点为负时 startswith 会从末尾数起，碰巧相同也不算在原处
    if answer.start >= 0 and context.startswith(answer.text, answer.start):
        return answer.start
    # 同样的文字可能出现多次，取离原位置最近的一处
    starts = []
    start = context.find(answer.text)
    while start >= 0:
        starts.append(start)
        start = context.find(answer.text, start + 1)
    return min(
        starts,
        key=lambda start: abs(start - answer.start),
        default=NOT_IN_CONTEXT,
    )


def _keep_found(example: QuestionExample) -> QuestionExample:
    # 训练要的是位置，没有位置的答案用不上
    found = [a for a in example.answers if a.start != NOT_IN_CONTEXT]
    return replace(example, answers=tuple(found))


def _check_answered(example: QuestionExample) -> None:
    if not example.answers and not example.is_impossible:
        raise BertError(
            f"The question has no answer to train on: {example.place}.",
            hint='if the context does not answer it, write "is_impossible": '
            "true",
        )


def _check_ids(examples: list[QuestionExample]) -> None:
    seen: set[str] = set()
    for example in examples:
        if example.id in seen:
            raise BertError(
                f'The question id "{example.id}" comes twice, the second time '
                f"at {example.place}.",
                hint="predictions are filed by id; make all ids differ",
            )
        seen.add(example.id)
