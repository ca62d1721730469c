"""Markdown says what the blocks say, and nothing in it turns into markup."""

import numpy as np

from bert_from_scratch.learn.lesson import (
    Block,
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
from bert_from_scratch.learn.markdown import to_markdown


def write(*blocks: Block) -> str:
    return to_markdown(Lesson("T", blocks)).removeprefix("# T\n\n")


def test_every_block_has_its_form() -> None:
    assert write(
        Heading("Part"),
        Paragraph("Some `code` and **bold**."),
        Items(("one", "two")),
        Formula(("a = b", "b = c")),
        Code("print(1)\n"),
        Transcript(("1",)),
    ) == (
        "## Part\n\nSome `code` and **bold**.\n\n- one\n- two\n\n"
        "```text\na = b\nb = c\n```\n\n```python\nprint(1)\n```\n\n"
        "```text\n1\n```\n"
    )


def test_a_matrix_is_a_table_with_its_name_above() -> None:
    matrix = Matrix("A", np.array([[1.0, 2.5]]), ("r",), ("x", "y"), digits=1)
    assert write(matrix) == (
        "**A**\n\n|  | x | y |\n| --- | --: | --: |\n| r | 1.0 | 2.5 |\n"
    )


def test_cells_cannot_break_out_of_their_table() -> None:
    page = write(Table(("a|b",), (("x|y\nz",),)))
    assert page == "| a\\|b |\n| --- |\n| x\\|y z |\n"


def test_tokens_are_shown_not_run() -> None:
    page = write(Table(("t",), (("<script>",), ("a_b*c",), ("a & b",))))
    assert "<script>" not in page
    assert "&lt;script&gt;" in page
    assert r"a\_b\*c" in page
    assert "a &amp; b" in page


def test_code_in_prose_stays_as_it_is() -> None:
    assert write(Paragraph("`a_b <c>` a_b")) == "`a_b <c>` a\\_b\n"


def test_a_fence_is_longer_than_any_in_its_text() -> None:
    page = write(Transcript(("```", "x")))
    assert page == "````text\n```\nx\n````\n"
