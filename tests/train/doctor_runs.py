"""Synthetic runs for the doctor: a healthy one, and changes to it."""

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bert_from_scratch import BertConfig
from bert_from_scratch.data.shards import TokenShards
from bert_from_scratch.train import evidence
from bert_from_scratch.train.doctor import examine
from bert_from_scratch.train.expected_curves import (
    CurvePoint,
    ExpectedCurve,
)
from bert_from_scratch.train.pretraining_plan import PretrainingPlan
from bert_from_scratch.train.run_directory import RunDirectory
from bert_from_scratch.train.settings import TrainingSettings
from bert_from_scratch.train.symptoms import Finding

from ..data.conftest import VOCAB_SIZE, MakeShards, make_shards

__all__ = ["make_shards"]

STEPS, BATCH_TOKENS, RATE = 1000, 64, 1e-3
Line = dict[str, Any]
Change = Callable[[Line], Line]
MakeRun = Callable[..., Path]


def healthy_loss(step: float) -> float:
    """Falls from chance to 2 nats, as loss does: fast, then slower."""
    return 2 + (math.log(VOCAB_SIZE) - 2) * math.exp(-step / 250)


def healthy_line(step: int) -> Line:
    generator = np.random.default_rng(step)
    warm = min(step / 100, (STEPS - step) / (STEPS - 100))
    return {
        "step": step,
        "loss": healthy_loss(step) + 0.4,
        "mlm_loss": healthy_loss(step) + generator.normal(0, 0.03),
        "mlm_accuracy": 0.4,
        "nsp_loss": 0.4,
        "nsp_accuracy": 0.5 + 0.4 * step / STEPS + generator.normal(0, 0.03),
        "lr": RATE * warm,
        "gradient_norm": 2 + generator.normal(0, 0.2),
        "tokens_per_second": 1000 + generator.normal(0, 50),
        "data_wait": 0.01,
        "seconds": step / 10,
    }


def healthy_evaluation(step: int) -> Line:
    loss = healthy_loss(step) + 0.02
    return {
        "step": step,
        "mlm_loss": loss,
        "mlm_accuracy": 0.4,
        "nsp_loss": 0.4,
        "nsp_accuracy": 0.5 + 0.4 * step / STEPS,
        "perplexity": math.exp(loss),
    }


CURVE = ExpectedCurve(
    name="own",
    preset="tiny",
    hardware="here",
    command="bert pretrain DATA --preset tiny",
    commit="0000000",
    seed=0,
    corpus="random",
    data_tokens=5000,
    unigram_entropy=6.8,
    batch_tokens=BATCH_TOKENS,
    learning_rate=RATE,
    max_length=128,
    points=tuple(
        CurvePoint(
            step,
            step * BATCH_TOKENS,
            step / 10,
            healthy_evaluation(step)["mlm_loss"],
            0.4,
            healthy_evaluation(step)["nsp_accuracy"],
        )
        for step in range(100, STEPS + 1, 100)
    ),
)


@pytest.fixture
def shards(make_shards: MakeShards) -> TokenShards:
    """5,000 tokens in 50 documents."""
    return make_shards([[20] * 5] * 50)


@pytest.fixture
def make_run(
    shards: TokenShards, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> MakeRun:
    """Returns a function: changes to a healthy run, to its directory."""
    monkeypatch.setattr(evidence, "load_curves", lambda: [CURVE])

    def make(
        change: Change = lambda line: line,
        change_evaluation: Change = lambda line: line,
        *,
        until: int = STEPS,
        rate: float = RATE,
        **plan: Any,
    ) -> Path:
        directory = tmp_path / "run"
        directory.mkdir()
        values: dict[str, Any] = {
            "data_dir": str(shards.directory),
            "data_sha256": shards.meta.sha256,
            "preset": "tiny",
            "batch_tokens": BATCH_TOKENS,
            **plan,
        }
        made = PretrainingPlan(
            model=BertConfig.preset("tiny", vocab_size=VOCAB_SIZE),
            training=TrainingSettings(steps=STEPS, learning_rate=rate),
            **values,
        )
        RunDirectory(directory).create(made.to_dict())
        write(directory, "metrics", 10, until, healthy_line, change)
        write(
            directory,
            "evaluations",
            100,
            until,
            healthy_evaluation,
            change_evaluation,
        )
        return directory

    return make


def write(
    directory: Path,
    name: str,
    every: int,
    until: int,
    healthy: Callable[[int], Line],
    change: Change,
) -> None:
    lines = [change(healthy(x)) for x in range(every, until + 1, every)]
    text = "".join(json.dumps(line) + "\n" for line in lines)
    (directory / f"{name}.jsonl").write_text(text)


def bad(directory: Path) -> list[Finding]:
    return [x for x in examine(directory).findings if x.level != "ok"]


def only_bad(directory: Path, level: str, title: str, *words: str) -> None:
    """Asserts that one thing is wrong, and what is said about it."""
    (finding,) = bad(directory)
    assert (finding.level, finding.title) == (level, title)
    for word in words:
        assert word in finding.detail + finding.advice


def titles(directory: Path) -> set[str]:
    return {finding.title for finding in examine(directory).findings}


def flat(loss: float) -> Change:
    """An MLM loss that falls no further than to a level."""

    def change(line: Line) -> Line:
        return {**line, "mlm_loss": max(line["mlm_loss"], loss)}

    return change
