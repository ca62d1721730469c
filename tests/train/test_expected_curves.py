"""Expected curves: made of runs, read between their points."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest

from bert_from_scratch.data.shards import TokenShards
from bert_from_scratch.train.expected_curves import (
    CurvePoint,
    ExpectedCurve,
    curve_of_run,
    load_curves,
    unigram_entropy,
)

from ..data.conftest import make_shards
from .doctor_runs import BATCH_TOKENS, CURVE, STEPS, MakeRun, make_run, shards

__all__ = ["make_run", "make_shards", "shards"]


def test_the_curve_is_straight_over_the_logarithm_of_tokens() -> None:
    points = tuple(
        CurvePoint(0, tokens, 0.0, loss, None, None)
        for tokens, loss in ((100, 6.0), (10_000, 4.0))
    )
    curve = replace(CURVE, points=points)
    assert curve.loss_at(1000) == pytest.approx(5)
    assert curve.loss_at(10**6) == 4
    assert curve.loss_at(99) is None
    assert curve.tokens_until(5) == pytest.approx(1000)
    assert curve.tokens_until(3.9) is None
    assert curve.nsp_accuracy_at(1000) is None


def test_the_entropy_of_two_equal_tokens_is_log_2(shards: TokenShards) -> None:
    tokens = np.array([7, 9] * 50, np.uint16)
    assert unigram_entropy(replace(shards, tokens=tokens)) == pytest.approx(
        math.log(2)
    )


def test_a_run_becomes_its_own_expected_curve(make_run: MakeRun) -> None:
    values = curve_of_run(
        make_run(),
        name="own",
        hardware="here",
        command="bert pretrain DATA",
        commit="0000000",
        corpus="random",
    )
    curve = ExpectedCurve.from_dict(json.loads(json.dumps(values)))
    assert curve.data_tokens == 5000
    assert len(curve.points) == STEPS // 100
    assert curve.points[-1] == CurvePoint(
        STEPS, STEPS * BATCH_TOKENS, STEPS / 10, 2.1099, 0.4, 0.9
    )


def test_every_curve_of_the_program_can_be_read() -> None:
    curves = load_curves()
    assert "base" in {curve.preset for curve in curves}
    for curve in curves:
        tokens = [point.tokens for point in curve.points]
        assert tokens == sorted(tokens)
        assert curve.points[-1].mlm_loss < curve.unigram_entropy
