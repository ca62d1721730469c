"""A measurement holds or does not; NaN never does."""

import json
import math

import pytest

from bert_from_scratch.analysis.verify.check import (
    Measurement,
    Said,
    at_least,
    at_most,
    equal,
    masked_lm,
    more_than,
)
from bert_from_scratch.analysis.verify.subject import Subject

NAME = Said("size", "大小")


@pytest.mark.parametrize(
    ("measurement", "holds"),
    [
        (at_most(NAME, 1.0, 1.0), True),
        (at_most(NAME, 1.1, 1.0), False),
        (at_least(NAME, 1.0, 1.0), True),
        (at_least(NAME, 0.9, 1.0), False),
        (more_than(NAME, 1.1, 1.0), True),
        (more_than(NAME, 1.0, 1.0), False),
        (equal(NAME, {"shape": [1, 2]}, {"shape": [1, 2]}), True),
        (equal(NAME, {"shape": [1, 2]}, {"shape": [2, 1]}), False),
    ],
)
def test_each_relation_is_what_it_says(
    measurement: Measurement, holds: bool
) -> None:
    assert measurement.holds is holds


@pytest.mark.parametrize("make", [at_most, at_least, more_than, equal])
def test_nan_never_holds(make: type[Measurement]) -> None:
    assert not make(NAME, math.nan, math.nan).holds  # type: ignore[call-arg]
    assert not make(NAME, math.nan, 1.0).holds  # type: ignore[call-arg]


def test_what_is_not_finite_stays_valid_json() -> None:
    values = at_most(NAME, math.nan, math.inf).to_dict()
    text = json.dumps(values, allow_nan=False)
    assert json.loads(text)["value"] == "nan"
    assert json.loads(text)["bound"] == "inf"
    assert values["name"] == {"en": "size", "zh": "大小"}


def test_the_language_chooses_the_words() -> None:
    assert NAME.in_language("en") == "size"
    assert NAME.in_language("zh") == "大小"


def test_the_mlm_head_is_handed_over_where_there_is_one(
    subject: Subject,
) -> None:
    assert masked_lm(subject) is subject.pretraining
