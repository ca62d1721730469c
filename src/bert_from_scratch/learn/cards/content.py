"""Cards and questions on the BERT paper, in English and Chinese.

The texts lie in `parts/`, one TOML file for each of the parts A to F, both
languages side by side. Loading checks them, so a mistake in a file is found
before anybody is asked a question that has two right answers or none.
"""

import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from bert_from_scratch.errors import BertError
from bert_from_scratch.learn.language import LANGUAGES, Language

LETTERS = "ABCDEF"
NUM_OPTIONS = 4

# 论文实有的章节、表和图：写错的出处在加载时就会暴露
_SECTION = re.compile(
    r"(Abstract|1|2|2\.[1-3]|3|3\.[12]|4|4\.[1-4]|5|5\.[1-3]|6"
    r"|A\.[1-5]|B\.1|C\.[12])(, (table [1-8]|figure [1-5]))?"
)
_IDS = {"cards": r"{}\d\d", "questions": r"{}-Q\d"}


@dataclass(frozen=True)
class Text:
    """One text in both languages.

    Attributes:
        en: In English.
        zh: In Chinese.
    """

    en: str
    zh: str

    def __getitem__(self, language: Language) -> str:
        return self.zh if language == "zh" else self.en


@dataclass(frozen=True)
class Card:
    """A flashcard.

    Attributes:
        id: Its name in the state file; never given to another card.
        section: Where the paper says so, such as "5.3, table 7".
        front: The question.
        back: The answer.
    """

    id: str
    section: str
    front: Text
    back: Text


@dataclass(frozen=True)
class Option:
    """One possible answer.

    Attributes:
        text: The answer.
        why: Why it is right or wrong.
        is_right: Whether it is the right one.
    """

    text: Text
    why: Text
    is_right: bool


@dataclass(frozen=True)
class Question:
    """A question with four options, one of which is right.

    Attributes:
        id: Its name in the state file; never given to another question.
        section: Where the paper says so.
        ask: The question.
        options: In the order of the printed page.
    """

    id: str
    section: str
    ask: Text
    options: tuple[Option, ...]


@dataclass(frozen=True)
class Part:
    """A part of the paper.

    Attributes:
        letter: "A" to "F".
        title: What it is about.
        cards: Its flashcards.
        questions: Its questions.
    """

    letter: str
    title: Text
    cards: tuple[Card, ...]
    questions: tuple[Question, ...]


@cache
def load_parts() -> tuple[Part, ...]:
    """Reads and checks all parts, A to F."""
    folder = files("bert_from_scratch.learn.cards") / "parts"
    return tuple(
        read_part((folder / f"{letter.lower()}.toml").read_text("utf-8"))
        for letter in LETTERS
    )


def choose_parts(letter: str | None) -> tuple[Part, ...]:
    """Returns the part that a user names, or all of them.

    Raises:
        BertError: There is no such part; the hint lists those there are.
    """
    if letter is None:
        return load_parts()
    chosen = tuple(p for p in load_parts() if p.letter == letter.upper())
    if not chosen:
        listed = "; ".join(f"{p.letter}: {p.title.en}" for p in load_parts())
        raise BertError(f"There is no part {letter!r}.", hint=listed)
    return chosen


def read_part(text: str) -> Part:
    """Reads and checks one file of `parts/`.

    Raises:
        ValueError: Something in it is missing, doubled or unknown.
    """
    values = tomllib.loads(text)
    letter = values["letter"]
    for kind, pattern in _IDS.items():
        _check_entries(values[kind], pattern.format(letter))
    return Part(
        letter,
        _text(values["title"], letter),
        tuple(_card(card) for card in values["cards"]),
        tuple(_question(question) for question in values["questions"]),
    )


def _check_entries(entries: Iterable[Mapping[str, Any]], pattern: str) -> None:
    """Checks names and sources; ids belong to the part and are unique."""
    seen = set()
    for entry in entries:
        name = entry["id"]
        if name in seen or not re.fullmatch(pattern, name):
            raise ValueError(f"{name}: the id is doubled or not of this part")
        if not _SECTION.fullmatch(entry.get("section", "")):
            raise ValueError(f"{name}: the paper has no such section")
        seen.add(name)


def _card(values: Mapping[str, Any]) -> Card:
    name = values["id"]
    _check_keys(values, {"id", "section", "front", "back"}, name)
    front, back = _text(values["front"], name), _text(values["back"], name)
    return Card(name, values["section"], front, back)


def _question(values: Mapping[str, Any]) -> Question:
    name = values["id"]
    _check_keys(values, {"id", "section", "ask", "options"}, name)
    options = tuple(_option(option, name) for option in values["options"])
    num_right = sum(option.is_right for option in options)
    if len(options) != NUM_OPTIONS or num_right != 1:
        raise ValueError(
            f"{name}: {num_right} of {len(options)} options are right"
        )
    for language in LANGUAGES:
        # 两个选项文字相同，就无从判断选的是哪一个
        if len({option.text[language] for option in options}) < len(options):
            raise ValueError(f"{name}: two options read the same")
    return Question(
        name, values["section"], _text(values["ask"], name), options
    )


def _option(values: Mapping[str, Any], name: str) -> Option:
    _check_keys({"is_right": False} | dict(values), _OPTION_KEYS, name)
    return Option(
        _text(values["text"], name),
        _text(values["why"], name),
        values.get("is_right", False),
    )


_OPTION_KEYS = {"text", "why", "is_right"}


def _text(values: Mapping[str, str], name: str) -> Text:
    """Reads a text; both languages must be there."""
    _check_keys(values, set(LANGUAGES), name)
    text = Text(**values)
    if not text.en.strip() or not text.zh.strip():
        raise ValueError(f"{name}: a text is empty")
    return text


def _check_keys(values: Mapping[str, Any], keys: set[str], name: str) -> None:
    if set(values) != keys:
        wrong = ", ".join(sorted(set(values) ^ keys))
        raise ValueError(f"{name}: missing or unknown: {wrong}")
