"""The cards and questions as Markdown, for those who read on paper."""

import html
import re
from collections.abc import Iterable
from pathlib import Path

from bert_from_scratch import atomic
from bert_from_scratch.learn.cards.content import (
    Card,
    Part,
    Question,
    Text,
    load_parts,
)
from bert_from_scratch.learn.cards.quiz import OPTION_LETTERS, right_option
from bert_from_scratch.learn.language import LANGUAGES, Language


def write_cards(directory: Path) -> list[Path]:
    """Writes `cards.md` and `questions.md` into a folder for each language.

    Args:
        directory: Gets the folders `en` and `zh`.

    Returns:
        The files that were written.
    """
    written = []
    for language in LANGUAGES:
        for name, page in (
            ("cards.md", cards_page(load_parts(), language)),
            ("questions.md", questions_page(load_parts(), language)),
        ):
            path = directory / language / name
            atomic.write_text(path, page)
            written.append(path)
    return written


def cards_page(parts: Iterable[Part], language: Language) -> str:
    """Returns all flashcards as one page, backs folded away."""
    lines = [f"# {_CARDS[language]}", "", _CARDS_INTRODUCTION[language]]
    for part in parts:
        lines += ["", f"## {part.letter} · {_escape(part.title[language])}"]
        for card in part.cards:
            lines += _card_lines(card, language)
    return "\n".join(lines) + "\n"


def questions_page(parts: Iterable[Part], language: Language) -> str:
    """Returns all questions as one page, answers folded away."""
    lines = [f"# {_QUESTIONS[language]}", "", _QUESTIONS_INTRODUCTION[language]]
    for part in parts:
        lines += ["", f"## {part.letter} · {_escape(part.title[language])}"]
        for question in part.questions:
            lines += _question_lines(question, language)
    return "\n".join(lines) + "\n"


def cite(section: str, language: Language) -> str:
    """Returns a place in the paper as a reader of the language writes it."""
    place, _, more = section.partition(", ")
    if language == "zh":
        where = "摘要" if place == "Abstract" else f"第 {place} 节"
        more = more.replace("table", "表").replace("figure", "图")
        return f"{where}，{more}" if more else where
    where = "abstract" if place == "Abstract" else f"section {place}"
    return f"{where}, {more}" if more else where


def _card_lines(card: Card, language: Language) -> list[str]:
    return [
        "",
        f"**{card.id}** {_escape(card.front[language])} "
        f"*({cite(card.section, language)})*",
        "",
        *_fold(_ANSWER[language], [_escape(card.back[language])]),
    ]


def _question_lines(question: Question, language: Language) -> list[str]:
    options = list(zip(OPTION_LETTERS, question.options, strict=True))
    right = right_option(question)
    (letter,) = (letter for letter, option in options if option is right)
    return [
        "",
        f"**{question.id}** {_escape(question.ask[language])} "
        f"*({cite(question.section, language)})*",
        "",
        *(f"- {x}) {_escape(option.text[language])}" for x, option in options),
        "",
        *_fold(
            _RIGHT_ANSWER[language].format(letter),
            [f"- {x}) {_escape(o.why[language])}" for x, o in options],
        ),
    ]


def _fold(summary: str, lines: list[str]) -> list[str]:
    """Returns lines that a reader opens by a click."""
    opening = f"<details><summary>{summary}</summary>"
    return [opening, "", *lines, "", "</details>"]


def _escape(text: str) -> str:
    """Makes text harmless in Markdown and in the HTML made of it."""
    # 先转义 HTML，再转义 Markdown 的强调、表格等符号
    return re.sub(r"([\\`*_|~])", r"\\\1", html.escape(text, quote=False))


_CARDS = Text("Flashcards: the BERT paper", "闪卡：BERT 论文")
_QUESTIONS = Text("Questions: the BERT paper", "选择题：BERT 论文")
_ANSWER = Text("Answer", "答案")
_RIGHT_ANSWER = Text("Answer: {}", "答案：{}")
_CARDS_INTRODUCTION = Text(
    "Devlin et al. (2019), taken apart. In the terminal, where they come "
    "again when it is time: `bert learn flashcards`.",
    "把 Devlin 等人 2019 年的论文拆成一张张卡片。在终端里到时候会再次出现："
    "`bert learn flashcards --language zh`。",
)
_QUESTIONS_INTRODUCTION = Text(
    "Devlin et al. (2019), four options each, with a reason for every one. "
    "In the terminal, with a score: `bert learn quiz`.",
    "Devlin 等人 2019 年的论文，每题四个选项，每个选项都有解释。在终端里作答"
    "并计分：`bert learn quiz --language zh`。",
)
