"""Blocks refuse what does not fit, and write numbers as people do."""

import numpy as np
import pytest

from bert_from_scratch.learn.lesson import (
    Matrix,
    Table,
    round_number,
    write_gap,
)


def test_a_matrix_needs_a_label_for_every_row_and_column() -> None:
    with pytest.raises(ValueError, match=r"A is \(2, 2\)"):
        Matrix("A", np.eye(2), ("a", "b"), ("a",))


def test_a_table_needs_a_cell_for_every_column() -> None:
    with pytest.raises(ValueError, match="does not fit"):
        Table(("a", "b"), (("1",),))


def test_cells_have_the_digits_that_were_asked_for() -> None:
    matrix = Matrix("A", np.array([[1 / 3, -2]]), ("r",), ("a", "b"), digits=3)
    assert matrix.cells() == [["r", "0.333", "-2.000"]]


@pytest.mark.parametrize("value", [-0.0, -0.001, 0.0])
def test_zero_has_no_sign(value: float) -> None:
    assert round_number(value) == "0.00"
    assert round_number(-0.006) == "-0.01"


@pytest.mark.parametrize(
    ("value", "text"), [(0.0, "0"), (2.4e-7, "2e-07"), (1e-300, "1e-300")]
)
def test_no_difference_is_written_without_an_exponent(
    value: float, text: str
) -> None:
    assert write_gap(value) == text
