"""A quiz: what is asked, in which order, and how it went."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date

from bert_from_scratch.learn.cards.content import Option, Part, Question
from bert_from_scratch.learn.cards.schedule import (
    Memory,
    draw,
    order_by_need,
)

OPTION_LETTERS = "abcd"


@dataclass(frozen=True)
class Answer:
    """What somebody answered.

    Attributes:
        question: What was asked.
        option: What was chosen.
    """

    question: Question
    option: Option


@dataclass(frozen=True)
class Score:
    """How many answers were right.

    Attributes:
        num_right: Of them, how many were right.
        num_answers: All.
    """

    num_right: int
    num_answers: int


def choose_questions(
    parts: Sequence[Part],
    memories: Mapping[str, Memory],
    count: int,
    today: date,
    seed: int,
) -> list[Question]:
    """Chooses what to ask: due ones first, then new ones, then the rest.

    Args:
        parts: Where the questions come from.
        memories: What is known of each, by id.
        count: How many, at the most.
        today: The day.
        seed: Shuffles what is equally needed.
    """
    questions = {q.id: q for part in parts for q in part.questions}
    ids = order_by_need(questions, memories, today, seed)
    return [questions[name] for name in ids[:count]]


def shuffle_options(question: Question, seed: int) -> tuple[Option, ...]:
    """Returns the options in an order that only the seed decides."""
    numbers = range(len(question.options))
    # 打乱选项：记住的应是内容，而不是“这题选 b”
    order = sorted(numbers, key=lambda n: draw(seed, f"{question.id} {n}"))
    return tuple(question.options[n] for n in order)


def right_option(question: Question) -> Option:
    """Returns the one right option."""
    (right,) = (option for option in question.options if option.is_right)
    return right


def total_score(answers: Iterable[Answer]) -> Score:
    """Counts the right answers."""
    verdicts = [answer.option.is_right for answer in answers]
    return Score(sum(verdicts), len(verdicts))


def score_by_part(
    parts: Sequence[Part], answers: Sequence[Answer]
) -> dict[str, Score]:
    """Counts the right answers of each part that was asked, by letter."""
    scores = {}
    for part in parts:
        own = [a for a in answers if a.question in part.questions]
        if own:
            scores[part.letter] = total_score(own)
    return scores
