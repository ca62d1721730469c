"""The dialogue shows what it is given and takes what can be meant."""

import io
import sys
from dataclasses import replace

import pytest

from bert_from_scratch.cli.learn_dialogue import Dialogue
from bert_from_scratch.learn.cards.content import Text, load_parts
from bert_from_scratch.learn.language import Language

CARD = load_parts()[0].cards[0]
QUESTION = load_parts()[0].questions[0]


def put(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    stdin = io.TextIOWrapper(io.BytesIO(text.encode()), encoding="utf-8")
    monkeypatch.setattr(sys, "stdin", stdin)


def test_brackets_are_shown_and_not_taken_for_styles(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    put(monkeypatch, "\n")
    text = "[bold]is[/bold] [MASK] [sep] [/nothing]"
    Dialogue("en").ask_card(replace(CARD, front=Text(text, "汉")))
    assert text in capsys.readouterr().out


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ("\ny\n", True),
        ("\nYES\n", True),
        ("\n 是 \n", True),
        ("\nn\n", False),
        ("\n否\n", False),
        ("\n\n\n\nno", False),
        ("q\ny\n", None),
        ("\nquit\n", None),
        ("", None),
        ("\n", None),
    ],
)
def test_yes_no_and_enough_are_understood(
    typed: str, expected: bool | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(monkeypatch, typed)
    assert Dialogue("en").ask_card(CARD) is expected


@pytest.mark.parametrize(
    ("typed", "number"),
    [("a\n", 0), ("D\n", 3), ("ｃ\n", 2), ("\ufeffb\n", 1), ("e\nab\nb\n", 1)],
)
def test_a_letter_chooses_the_option_that_stands_there(
    typed: str, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(monkeypatch, typed)
    options = QUESTION.options[::-1]
    chosen = Dialogue("zh").ask_question(QUESTION, options)
    assert chosen is options[number]


def test_a_closed_stdin_is_the_end_of_the_input(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys, "stdin", None)
    assert Dialogue("en").ask_question(QUESTION, QUESTION.options) is None


def test_stdout_stays_free_where_data_is_wanted(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    put(monkeypatch, "a\n")
    Dialogue("en", to_stderr=True).ask_question(QUESTION, QUESTION.options)
    captured = capsys.readouterr()
    assert captured.out == ""
    assert QUESTION.ask.en in captured.err


@pytest.mark.parametrize(
    ("environment", "right", "wrong"),
    [
        ({"FORCE_COLOR": "1"}, "\x1b[32mRight.", "\x1b[31mWrong."),
        ({"FORCE_COLOR": "1", "NO_COLOR": "1"}, "Right.\n", "Wrong.\n"),
        ({}, "Right.\n", "Wrong.\n"),
    ],
    ids=["wanted", "unwanted", "piped"],
)
def test_verdicts_have_a_colour_only_where_it_is_wanted(
    environment: dict[str, str],
    right: str,
    wrong: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for name in ("FORCE_COLOR", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)
    for name, value in {"TERM": "xterm", **environment}.items():
        monkeypatch.setenv(name, value)
    dialogue = Dialogue("en")
    for option in QUESTION.options:
        dialogue.explain(option, QUESTION.options)
    output = capsys.readouterr().out
    assert (output.count(right), output.count(wrong)) == (1, 3)
    assert ("\x1b[3" in output) == (environment == {"FORCE_COLOR": "1"})


@pytest.mark.parametrize(
    ("language", "mark"), [("en", "your answer"), ("zh", "你的答案")]
)
def test_every_option_is_explained_the_right_and_the_chosen_marked(
    language: Language, mark: str, capsys: pytest.CaptureFixture[str]
) -> None:
    options = QUESTION.options
    for chosen in options:
        Dialogue(language).explain(chosen, options)
        _, *lines = capsys.readouterr().out.splitlines()
        for line, letter, option in zip(lines, "abcd", options, strict=True):
            sign = "✓" if option.is_right else " "
            end = f" ← {mark}" if option is chosen else ""
            assert line == f"{sign} {letter}) {option.why[language]}{end}"
