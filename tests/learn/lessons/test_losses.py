"""The derivations hold: p - y, the divisor, the sum."""

import math

import numpy as np
import pytest

from bert_from_scratch.learn.lesson import Formula, Paragraph
from bert_from_scratch.learn.lessons.losses import (
    ANSWER,
    HIDDEN,
    LENGTHS,
    LOGITS,
    loss_of_row,
    losses,
    numeric_gradient,
)


def test_the_measured_gradient_is_p_minus_y() -> None:
    p = np.exp(LOGITS) / np.exp(LOGITS).sum()
    p[0, ANSWER] -= 1
    measured = numeric_gradient(LOGITS, ANSWER)
    assert np.abs(measured - p).max() < 1e-8
    assert measured.sum() == pytest.approx(0, abs=1e-8)


def test_padding_does_not_change_the_loss_but_the_wrong_divisor_would() -> None:
    parts = [loss_of_row(length) for length in LENGTHS]
    assert all(int(part.count) == len(HIDDEN) for part in parts)
    total = np.log(np.exp(LOGITS).sum())
    by_hand = total - (LOGITS[0, ANSWER] + LOGITS[0, 0]) / 2
    for part in parts:
        assert part.mean.item() == pytest.approx(by_hand)
    wrong = [
        part.total.item() / n for part, n in zip(parts, LENGTHS, strict=True)
    ]
    assert wrong[0] > wrong[1] > wrong[2]


def test_both_forms_of_the_nsp_loss_are_printed_equal() -> None:
    formulas = [
        line
        for block in losses("en").blocks
        if isinstance(block, Formula)
        for line in block.lines
    ]
    (line,) = [line for line in formulas if "NSPLoss" in line]
    expected = f"{math.log(1 + math.exp(-2)):.4f}"
    assert line.count(expected) == 2


def test_a_fresh_bert_base_is_said_to_start_at_eleven() -> None:
    texts = [b.text for b in losses("zh").blocks if isinstance(b, Paragraph)]
    assert any("11.02" in text for text in texts)
