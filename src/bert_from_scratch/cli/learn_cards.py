"""`bert learn flashcards | quiz | progress`: the paper, asked and answered."""

import os
import secrets
import sys
from collections.abc import Sequence
from dataclasses import asdict
from datetime import date
from pathlib import Path
from typing import Annotated, Any

import typer

from bert_from_scratch.cli.console import print_json
from bert_from_scratch.cli.learn_dialogue import Dialogue
from bert_from_scratch.cli.options import JsonFlag
from bert_from_scratch.errors import BertError
from bert_from_scratch.learn.cards import content, progress, quiz, schedule
from bert_from_scratch.learn.cards.state import StateFile, default_path
from bert_from_scratch.learn.language import Language

PartOption = Annotated[
    str | None,
    typer.Option(help="One part of the paper, A to F; by default all."),
]
CountOption = Annotated[int, typer.Option(help="How many, at the most.")]
LanguageOption = Annotated[Language, typer.Option(help="English or Chinese.")]
StateOption = Annotated[
    Path | None,
    typer.Option(
        help="Where progress is kept; by default the state directory of "
        "the user.",
        metavar="FILE",
    ),
]


def register(app: typer.Typer) -> None:
    """Adds the commands to `bert learn`."""
    for command, example in (
        (flashcards, "flashcards --part C --language zh"),
        (take_quiz, "quiz --part B --count 5"),
        (show_progress, "progress --language zh"),
    ):
        name = example.split()[0]
        epilog = f"Example: bert learn {example}"
        app.command(name, epilog=epilog)(command)


def flashcards(
    part: PartOption = None,
    count: CountOption = 10,
    language: LanguageOption = "en",
    also_early: Annotated[
        bool, typer.Option("--all", help="Also cards that are not due yet.")
    ] = False,
    state: StateOption = None,
) -> None:
    """Learn the BERT paper by cards that come again when it is time.

    Known cards wait longer and longer; the others come again at once. Works
    from a pipe too: a line for every Enter and every answer.
    """
    parts, state_file = _open(part, count, state)
    memories = state_file.prepare()
    today = date.today()
    cards = {card.id: card for part in parts for card in part.cards}
    ids = schedule.order_by_need(cards, memories, today)
    dialogue = Dialogue(language)
    if not also_early:
        ids = [x for x in ids if schedule.is_due(memories.get(x), today)]
    if not ids:
        dialogue.say_nothing_due(progress.next_due(cards, memories))
        return
    verdicts = []
    for number, name in enumerate(ids[:count], start=1):
        dialogue.show_place(number, min(count, len(ids)), cards[name])
        is_known = dialogue.ask_card(cards[name])
        if is_known is None:
            break
        state_file.record(name, is_known, today)
        verdicts.append(is_known)
    dialogue.sum_up_cards(verdicts)


def take_quiz(
    part: PartOption = None,
    count: CountOption = 10,
    language: LanguageOption = "en",
    seed: Annotated[
        int | None,
        typer.Option(
            help="Order of questions and options; by default another one "
            "each time."
        ),
    ] = None,
    state: StateOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Answer questions on the BERT paper; every option is explained.

    Wrong ones come again first. Answers are a, b, c or d, also from a pipe.
    With --json the dialogue goes to stderr.
    """
    parts, state_file = _open(part, count, state)
    memories = state_file.prepare()
    today = date.today()
    seed = secrets.randbelow(1 << 32) if seed is None else seed
    asked = quiz.choose_questions(parts, memories, count, today, seed)
    dialogue = Dialogue(language, to_stderr=as_json)
    answers: list[quiz.Answer] = []
    for number, question in enumerate(asked, start=1):
        dialogue.show_place(number, len(asked), question)
        options = quiz.shuffle_options(question, seed)
        option = dialogue.ask_question(question, options)
        if option is None:
            break
        state_file.record(question.id, option.is_right, today)
        dialogue.explain(option, options)
        answers.append(quiz.Answer(question, option))
    scores = quiz.score_by_part(parts, answers)
    dialogue.sum_up_quiz(quiz.total_score(answers), scores)
    if as_json:
        print_json(_to_json(seed, len(asked), answers, scores))


def show_progress(
    language: LanguageOption = "en",
    state: StateOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Show what is due, what lies in which box, and the score by part."""
    _, state_file = _open(None, 1, state)
    memories = state_file.read()
    parts = content.load_parts()
    today = date.today()
    standings = progress.measure_progress(parts, memories, today)
    if as_json:
        print_json(
            {
                "state": str(state_file.path),
                "waiting_days": schedule.WAITING_DAYS,
                "parts": [asdict(standing) for standing in standings],
            }
        )
        return
    dialogue = Dialogue(language)
    for part, standing in zip(parts, standings, strict=True):
        dialogue.show_standing(part, standing)
    dialogue.show_boxes()


def _open(
    part: str | None, count: int, state: Path | None
) -> tuple[Sequence[content.Part], StateFile]:
    """Checks what all commands are given."""
    if count < 1:
        raise BertError(f"--count must be at least 1, got {count}.")
    parts = content.choose_parts(part)
    return parts, StateFile(state or default_path(os.environ, sys.platform))


def _to_json(
    seed: int,
    num_questions: int,
    answers: Sequence[quiz.Answer],
    scores: dict[str, quiz.Score],
) -> dict[str, Any]:
    """Returns the result of a quiz as plain values."""
    return {
        "seed": seed,
        "num_questions": num_questions,
        **asdict(quiz.total_score(answers)),
        "parts": {letter: asdict(score) for letter, score in scores.items()},
        "answers": [
            {
                "id": answer.question.id,
                "section": answer.question.section,
                "answer": answer.option.text.en,
                "is_right": answer.option.is_right,
            }
            for answer in answers
        ],
    }
