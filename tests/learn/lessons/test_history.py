"""Masks of the three forms, and encoders that really exist."""

import re
from typing import get_args

import pytest

from bert_from_scratch.finetune.baselines.encoders import Kind
from bert_from_scratch.learn.lesson import Matrix, Table
from bert_from_scratch.learn.lessons.history import (
    BASELINES,
    causal_mask,
    full_mask,
    history,
    layers_to_connect,
)


def test_a_causal_mask_hides_what_comes_later() -> None:
    assert causal_mask(3).tolist() == [
        [True, False, False],
        [True, True, False],
        [True, True, True],
    ]
    assert full_mask(2, 3).all()
    assert full_mask(2, 3).shape == (2, 3)


@pytest.mark.parametrize(("length", "layers"), [(2, 1), (3, 1), (5, 2), (6, 3)])
def test_convolutions_of_three_join_two_words_a_layer(
    length: int, layers: int
) -> None:
    assert layers_to_connect(length, kernel=3) == layers


def test_the_causal_weights_give_later_words_nothing() -> None:
    *_, last = [b for b in history("en").blocks if isinstance(b, Matrix)]
    assert last.values[0].tolist() == [1, 0]
    assert last.values.sum(axis=1) == pytest.approx([1, 1])


def test_the_encoders_named_are_those_of_the_command() -> None:
    known = {"bert", *get_args(Kind)}
    table = next(b for b in history("zh").blocks if isinstance(b, Table))
    named = {n for row in table.rows for n in row[-1].split(", ")}
    assert named == known
    for names in re.findall(r"--encoder (\S+)", BASELINES):
        assert set(names.split(",")) <= known
