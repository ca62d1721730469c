r"""How a healthy run looks: curves of finished runs, kept with the program.

A curve is one JSON file in `expected/`. To add one, train with held-out
documents (`bert pretrain DATA --out RUN ...`), then:

    values = curve_of_run(Path("RUN"), name="tiny-cpu-20min", hardware="...",
                          command="bert pretrain ...", commit="...",
                          corpus="...")
    path = CURVES_DIR / "tiny-cpu-20min.json"
    path.write_text(json.dumps(values, indent=1) + "\n")

`load_curves` finds it by itself; nothing has to be registered.
"""

import math
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bert_from_scratch.config import read_json
from bert_from_scratch.data.shards import TokenShards
from bert_from_scratch.errors import BertError
from bert_from_scratch.train.pretraining_plan import PretrainingPlan
from bert_from_scratch.train.run_directory import RunDirectory

CURVES_DIR = Path(__file__).parent / "expected"
# 一次只统计一段：整个语料转成 int64 会占几倍于文件的内存
TOKENS_A_CHUNK = 1 << 24


@dataclass(frozen=True)
class CurvePoint:
    """Held-out results at one moment of a run; None: not measured."""

    step: int
    tokens: int
    seconds: float
    mlm_loss: float
    mlm_accuracy: float | None
    nsp_accuracy: float | None


@dataclass(frozen=True)
class ExpectedCurve:
    """What a healthy run of one preset did.

    Attributes:
        name: Of the file, without its ending.
        preset: The model's shape.
        hardware: Where it ran.
        command: How it was started.
        commit: Of this program.
        seed: Of the run.
        corpus: What it read.
        data_tokens: Tokens of that corpus.
        unigram_entropy: Of its tokens, in nats.
        batch_tokens: Tokens a step.
        learning_rate: At its highest.
        max_length: Longest sequence.
        points: Held-out results, by step.
    """

    name: str
    preset: str
    hardware: str
    command: str
    commit: str
    seed: int
    corpus: str
    data_tokens: int
    unigram_entropy: float
    batch_tokens: int
    learning_rate: float
    max_length: int
    points: tuple[CurvePoint, ...]

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> "ExpectedCurve":
        """Reads the contents of a file of `expected/`."""
        points = tuple(CurvePoint(**point) for point in values["points"])
        return cls(**{**values, "points": points})

    @property
    def first_tokens(self) -> int:
        """Tokens seen at the first point."""
        return self.points[0].tokens

    @property
    def last_tokens(self) -> int:
        """Tokens seen at the last point."""
        return self.points[-1].tokens

    @cached_property
    def _log_tokens(self) -> NDArray[np.float64]:
        # 损失对词数的对数近似直线，所以在对数轴上插值
        return np.log([point.tokens for point in self.points])

    def loss_at(self, tokens: float) -> float | None:
        """Returns the MLM loss after so many tokens; its last one later."""
        if tokens < self.first_tokens:
            return None
        losses = [point.mlm_loss for point in self.points]
        return float(np.interp(math.log(tokens), self._log_tokens, losses))

    def nsp_accuracy_at(self, tokens: float) -> float | None:
        """Returns the NSP accuracy after so many tokens, as `loss_at`."""
        accuracies = [point.nsp_accuracy for point in self.points]
        if tokens < self.first_tokens or None in accuracies:
            return None
        values = np.array(accuracies, np.float64)
        return float(np.interp(math.log(tokens), self._log_tokens, values))

    def tokens_until(self, loss: float) -> float | None:
        """Returns when the MLM loss was first so low; None: never."""
        # 取前缀最小值后曲线单调，反函数才唯一
        falling = np.minimum.accumulate([p.mlm_loss for p in self.points])
        if loss < falling[-1]:
            return None
        return math.exp(np.interp(-loss, -falling, self._log_tokens))


def load_curves() -> list[ExpectedCurve]:
    """Reads all curves that came with the program."""
    paths = sorted(CURVES_DIR.glob("*.json"))
    return [ExpectedCurve.from_dict(read_json(path)) for path in paths]


def choose_curve(
    plan: PretrainingPlan, curves: list[ExpectedCurve]
) -> ExpectedCurve | None:
    """Returns the curve of the plan's preset with the nearest batch size."""
    if plan.preset is None or plan.init_dir is not None:
        return None
    fitting = [curve for curve in curves if curve.preset == plan.preset]
    return min(
        fitting,
        key=lambda c: abs(math.log(c.batch_tokens / plan.batch_tokens)),
        default=None,
    )


def unigram_entropy(shards: TokenShards) -> float:
    """Returns the entropy of single tokens, in nats.

    It is the loss of a model that knows how frequent each token is, and
    looks at nothing else.
    """
    counts = np.zeros(shards.meta.vocab_size, np.int64)
    for start in range(0, len(shards.tokens), TOKENS_A_CHUNK):
        chunk = shards.tokens[start : start + TOKENS_A_CHUNK]
        counts += np.bincount(chunk, minlength=len(counts))
    shares = counts[counts > 0] / counts.sum()
    return float(-(shares * np.log(shares)).sum())


def curve_of_run(
    run_dir: Path,
    *,
    name: str,
    hardware: str,
    command: str,
    commit: str,
    corpus: str,
    data_tokens: int | None = None,
    step_tokens: float | None = None,
) -> dict[str, Any]:
    """Makes the contents of a curve file from a finished run.

    Args:
        run_dir: The run; its data must still be there.
        name: Of the curve.
        hardware: Where it ran.
        command: How it was started.
        commit: Of this program.
        corpus: What it read, in words.
        data_tokens: Tokens of its data, where that has changed since.
        step_tokens: Real tokens a step; None: as many as planned.

    Raises:
        BertError: Not a run, without evaluations, or without a preset.
    """
    run = RunDirectory(run_dir)
    plan = PretrainingPlan.from_dict(run.read_config())
    evaluations = run.read_log("evaluations.jsonl")
    if not evaluations or plan.preset is None:
        raise BertError(
            f"{run_dir} makes no curve: it has no evaluations or no preset.",
            hint="train with --preset, --held-out and --eval-every",
        )
    shards = TokenShards.open(plan.data_dir)
    metrics = run.read_log("metrics.jsonl")
    tokens = plan.batch_tokens if step_tokens is None else step_tokens
    return {
        "name": name,
        "preset": plan.preset,
        "hardware": hardware,
        "command": command,
        "commit": commit,
        "seed": plan.training.seed,
        "corpus": corpus,
        "data_tokens": data_tokens or shards.meta.num_tokens,
        "unigram_entropy": round(unigram_entropy(shards), 3),
        "batch_tokens": plan.batch_tokens,
        "learning_rate": plan.training.learning_rate,
        "max_length": plan.max_length,
        "points": [_to_point(x, metrics, tokens) for x in evaluations],
    }


def _to_point(
    evaluation: dict[str, Any], metrics: list[dict[str, Any]], tokens: float
) -> dict[str, Any]:
    step = evaluation["step"]
    before = [line["seconds"] for line in metrics if line["step"] <= step]
    numbers = {
        key: None if evaluation.get(key) is None else round(evaluation[key], 4)
        for key in ("mlm_loss", "mlm_accuracy", "nsp_accuracy")
    }
    return {
        "step": step,
        "tokens": round(step * tokens),
        "seconds": round(max(before, default=0.0), 1),
        **numbers,
    }
