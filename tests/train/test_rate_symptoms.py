"""A wrong learning rate, and the comparison with the expected curve."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from bert_from_scratch.train import evidence

from ..data.conftest import make_shards
from .doctor_runs import (
    CURVE,
    RATE,
    STEPS,
    Change,
    Line,
    MakeRun,
    bad,
    healthy_loss,
    make_run,
    only_bad,
    shards,
    titles,
)

__all__ = ["make_run", "make_shards", "shards"]


def test_a_loss_that_rises_again_is_a_problem(make_run: MakeRun) -> None:
    def change(line: Line) -> Line:
        rise = max(line["step"] - 600, 0) / 200
        return {**line, "mlm_loss": line["mlm_loss"] + rise}

    run = make_run(change, change, preset="mini")
    only_bad(run, "problem", "The loss rises again", "--lr 0.0005", "too high")


def test_noise_of_small_batches_is_no_rise(make_run: MakeRun) -> None:
    def change(line: Line) -> Line:
        noise = np.random.default_rng(line["step"]).normal(0, 0.6)
        return {**line, "mlm_loss": healthy_loss(2 * line["step"]) + noise}

    assert bad(make_run(change)) == []


def spiking(*steps: int) -> Change:
    def change(line: Line) -> Line:
        height = 2.0 if line["step"] in steps else 0.0
        return {**line, "mlm_loss": line["mlm_loss"] + height}

    return change


def test_spikes_are_noticed(make_run: MakeRun) -> None:
    run = make_run(spiking(400, 650))
    only_bad(run, "warning", "The loss has spikes", "2 times", "step 400")


def test_one_spike_is_forgiven(make_run: MakeRun) -> None:
    assert bad(make_run(spiking(400))) == []


def test_exploding_gradients_are_noticed(make_run: MakeRun) -> None:
    def change(line: Line) -> Line:
        return {**line, "gradient_norm": 90} if line["step"] == 500 else line

    run = make_run(change)
    only_bad(run, "warning", "Gradients explode", "90.00", "step 500", "--lr")


def test_gradients_of_the_warm_up_do_not_count(make_run: MakeRun) -> None:
    def change(line: Line) -> Line:
        return {**line, "gradient_norm": 90} if line["step"] == 50 else line

    assert bad(make_run(change)) == []


@pytest.mark.parametrize("name", ["loss", "mlm_loss", "gradient_norm"])
def test_a_number_that_is_none_is_a_problem(
    make_run: MakeRun, name: str
) -> None:
    def change(line: Line) -> Line:
        return {**line, name: math.nan} if line["step"] == STEPS else line

    words = (f"{name} is nan at step 1,000", "--lr 0.0005")
    only_bad(make_run(change), "problem", "The run broke down", *words)


def slower(line: Line) -> Line:
    """What a healthy run had at a quarter of the steps."""
    return {**line, "mlm_loss": healthy_loss(line["step"] / 4)}


def test_a_slow_smooth_run_has_too_low_a_rate(make_run: MakeRun) -> None:
    def change(line: Line) -> Line:
        return {**slower(line), "lr": line["lr"] / 10}

    run = make_run(change, slower, rate=RATE / 10)
    title = "The learning rate is too low"
    only_bad(run, "warning", title, "3.81 nats", "--lr 0.001", "0.0001")


def test_a_slow_run_of_the_usual_rate_is_behind(make_run: MakeRun) -> None:
    run = make_run(slower, slower)
    title = "Behind the expected curve"
    only_bad(run, "warning", title, "own", "64,000 tokens", CURVE.command)


def test_a_fast_run_is_better_than_expected(make_run: MakeRun) -> None:
    def faster(line: Line) -> Line:
        return {**line, "mlm_loss": line["mlm_loss"] / 1.5}

    run = make_run(faster, faster)
    assert bad(run) == []
    assert "Better than the expected curve" in titles(run)


@pytest.mark.parametrize(
    "difference",
    [
        {"batch_tokens": 512},
        {"data_tokens": 10**6},
        {"unigram_entropy": 5.0},
    ],
)
def test_a_curve_of_other_settings_does_not_judge(
    make_run: MakeRun,
    monkeypatch: pytest.MonkeyPatch,
    difference: dict[str, Any],
) -> None:
    curve = replace(CURVE, **difference)
    monkeypatch.setattr(evidence, "load_curves", lambda: [curve])
    run = make_run(slower, slower)
    assert bad(run) == []
    assert "The expected curve says little here" in titles(run)


def test_a_longer_run_is_not_behind_before_its_rate_falls(
    make_run: MakeRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    curve = replace(CURVE, points=CURVE.points[:5])
    monkeypatch.setattr(evidence, "load_curves", lambda: [curve])
    run = make_run(slower, slower, until=500)
    assert bad(run) == []
    assert "The expected curve says little here" in titles(run)
