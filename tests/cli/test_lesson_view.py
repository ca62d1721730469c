"""Lessons in the terminal: nothing is lost, nothing is taken for markup."""

import numpy as np
import pytest

from bert_from_scratch.cli.lesson_view import print_lesson
from bert_from_scratch.learn.lesson import (
    Code,
    Formula,
    Heading,
    Items,
    Lesson,
    Matrix,
    Paragraph,
    Table,
    Transcript,
)

LESSON = Lesson(
    "The title",
    (
        Heading("A part"),
        Paragraph("See `[MASK]` and **this**, [red]plainly[/red]."),
        Items(("first [bold]", "second")),
        Formula(("a = b",)),
        Matrix("A name", np.array([[0.125, -3]]), ("row",), ("x", "y")),
        Table(("one", "two"), (("[CLS]", "词"),)),
        Code("bert learn [x]", "bash"),
        Transcript(("-> ['[UNK]']",)),
    ),
)


def test_every_block_is_printed_with_its_brackets(
    capsys: pytest.CaptureFixture[str],
) -> None:
    print_lesson(LESSON)
    shown, errors = capsys.readouterr()
    assert errors == ""
    for text in (
        *("The title", "A part", "`[MASK]`", "this, [red]plainly[/red]."),
        *("first [bold]", "a = b", "A name", "0.12", "-3.00", "row"),
        *("[CLS]", "词", "bert learn [x]", "-> ['[UNK]']"),
    ):
        assert text in shown
    assert "**" not in shown
    assert "\x1b" not in shown


def test_a_narrow_terminal_loses_nothing(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "30")
    words = tuple(f"word{n}" for n in range(12))
    print_lesson(
        Lesson("T", (Table(("x", "y"), ((" ".join(words), "12345"),)),))
    )
    shown = capsys.readouterr().out
    assert "…" not in shown
    assert all(word in shown for word in words)
