"""Is speed paid for in the loss? Packed bf16, and fp8, beside padded fp32.

    python benchmarks/precision_curves.py --data DATA [--preset small]
        [--steps 500] [--seeds 3] [--batch-tokens 16384]
        [--ways packed,fp8] [--optimizer muon] [--lr 3e-3] [--device auto]

Each seed is trained several ways from the same weights on the same pairs and
masks, without dropout: padded, in float32, one operation after the other; as
`bert pretrain` does it on this machine ("packed": bf16 and compiled on a GPU);
and with `--precision fp8`. The distance between the curves of a seed is held
against the distance between seeds.
"""

import argparse
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

import report
from bert_from_scratch import atomic
from bert_from_scratch.data.batch import Batch
from bert_from_scratch.data.steps import Position, StepData, StepSource
from bert_from_scratch.kernels import fp8
from bert_from_scratch.model.device import choose_device
from bert_from_scratch.train.assemble import assemble
from bert_from_scratch.train.defaults import make_plan
from bert_from_scratch.train.processes import Processes
from bert_from_scratch.train.step_result import StepResult
from pretrain_throughput import clean

WINDOW = 25
BETWEEN = "distance between seeds"
WAYS: dict[str, dict[str, Any]] = {
    "padded": {"precision": "fp32", "compiles": False},
    "packed": {},
    "fp8": {"precision": "fp8"},
}
Curve = NDArray[np.float64]


def main() -> None:
    """Trains every seed every way and compares the curves."""
    arguments = parse_arguments()
    ways = ["padded", *arguments.ways.split(",")]
    run = report.describe_run()
    curves: dict[str, list[Curve]] = {way: [] for way in ways}
    rows: list[dict[str, Any]] = []
    for seed in range(arguments.seeds):
        for way in ways:
            curves[way].append(train(arguments, seed, way))
        rows += [
            describe(seed, way, curves[way][seed], curves["padded"][seed])
            for way in ways[1:]
        ]
        # 每个种子一存：中途被停下，做完的也还在
        note_curves(run, curves)
        report.save(arguments.out, run, rows)
    report.write(arguments.out, run, rows)
    for way in ways[1:]:
        found = [row["mean distance"] for row in rows if row["way"] == way]
        print(f"{way}: at the most {max(found):.4f} nat from padded fp32")
    if run[BETWEEN]:
        print(f"between seeds at the least {min(run[BETWEEN]):.4f} nat")


def note_curves(run: dict[str, Any], curves: dict[str, list[Curve]]) -> None:
    """Notes all curves, and how far those of different seeds are apart."""
    plain = curves["padded"]
    run[BETWEEN] = [
        distance(one, other) for one, other in combinations(plain, 2)
    ]
    run["curves"] = {
        way: [curve.tolist() for curve in found]
        for way, found in curves.items()
    }


def parse_arguments() -> argparse.Namespace:
    """Reads the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--preset", default="small")
    parser.add_argument(
        "--steps", type=int, default=500, help=f"at least {WINDOW}"
    )
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--batch-tokens", type=int, default=16384)
    parser.add_argument("--max-length", type=int, default=128)
    parser.add_argument("--ways", default="packed", help="packed, fp8 or both")
    parser.add_argument("--optimizer", default="adamw")
    parser.add_argument("--lr", type=float, help="by default by the width")
    parser.add_argument("--device", default="auto")
    parser.add_argument(
        "--out", type=Path, default=Path("build/precision_curves.json")
    )
    arguments = parser.parse_args()
    if arguments.steps < WINDOW:
        parser.error(f"--steps must be at least {WINDOW}")
    ways = arguments.ways.split(",")
    unknown = set(ways) - WAYS.keys()
    if unknown:
        parser.error(f"no way {', '.join(unknown)}, of {', '.join(WAYS)}")
    if arguments.seeds < 1:
        parser.error("--seeds must be at least 1")
    atomic.check_file(arguments.out)
    if "fp8" in ways:
        # 先问清楚：不要等别的都练完才发现
        fp8.require(choose_device(arguments.device))
    return arguments


@dataclass(frozen=True)
class PaddedSource:
    """The same steps, spread out to padded rows."""

    source: StepSource

    def steps(self, position: Position) -> Iterator[StepData]:
        """Yields the packed steps; masks are drawn before they are spread."""
        return self.source.steps(position)

    def num_steps(self, epoch: int) -> int:
        """Returns how many steps an epoch has."""
        return self.source.num_steps(epoch)

    def epochs_done(self, position: Position) -> float:
        """Returns how many passes lie before a place."""
        return self.source.epochs_done(position)

    def advance(self, position: Position, progress: float) -> Position:
        """Returns where to go on."""
        return self.source.advance(position, progress)

    def finish(self, batch: Batch, step: int, phase: int = 0) -> Batch:
        """Draws the masks, then pads."""
        return spread(self.source.finish(batch, step, phase))


def spread(batch: Batch) -> Batch:
    """Returns a packed batch as padded rows [B, S]."""
    assert batch.cu_seqlens is not None
    assert batch.mlm_positions is not None
    lengths = batch.cu_seqlens.diff()
    shape = (len(lengths), batch.max_seqlen)
    places = batch.token_owners() * batch.max_seqlen + batch.position_ids

    def to_rows(values: Tensor) -> Tensor:
        rows = torch.zeros(shape, dtype=torch.long, device=values.device)
        rows.view(-1)[places] = values.long()
        return rows

    columns = torch.arange(batch.max_seqlen, device=lengths.device)
    return replace(
        batch,
        input_ids=to_rows(batch.input_ids),
        token_type_ids=to_rows(batch.token_type_ids),
        position_ids=columns.expand(shape),
        attention_mask=columns < lengths[:, None],
        mlm_positions=places[batch.mlm_positions],
        cu_seqlens=None,
    )


def train(arguments: argparse.Namespace, seed: int, way: str) -> Curve:
    """Returns the loss of every step."""
    plan = make_plan(
        arguments.data,
        preset=arguments.preset,
        batch_tokens=arguments.batch_tokens,
        max_length=arguments.max_length,
        steps=arguments.steps,
        device=arguments.device,
        held_out_share=0.0,
        dropout=0.0,
        seed=seed,
        optimizer=arguments.optimizer,
        learning_rate=arguments.lr,
        **WAYS[way],
    )
    trainer = assemble(plan, Processes()).trainer
    if way == "padded":
        trainer.source = PaddedSource(trainer.source)
    losses: list[float] = []

    def note(result: StepResult) -> bool:
        losses.append(result.loss)
        return False

    trainer.fit(note)
    device = trainer.device
    del trainer
    # 每个模型各自编译：不清掉旧的，几个种子之后就到了重编译的上限
    clean(device)
    print(f"seed {seed}, {way}: {np.mean(losses[-WINDOW:]):.4f}", flush=True)
    return np.array(losses)


def smooth(curve: Curve) -> Curve:
    """Averages windows of steps."""
    count = len(curve) // WINDOW
    means: Curve = curve[: count * WINDOW].reshape(count, WINDOW).mean(axis=1)
    return means


def distance(one: Curve, other: Curve) -> float:
    """Returns the mean distance of two smoothed curves, in nats."""
    return float(np.abs(smooth(one) - smooth(other)).mean())


def describe(seed: int, way: str, fast: Curve, plain: Curve) -> dict[str, Any]:
    """Makes one row of the table."""
    gaps = np.abs(smooth(fast) - smooth(plain))
    return {
        "way": way,
        "seed": seed,
        "first loss": float(fast[0]),
        "first loss, padded fp32": float(plain[0]),
        "last loss": float(smooth(fast)[-1]),
        "last loss, padded fp32": float(smooth(plain)[-1]),
        "mean distance": float(gaps.mean()),
        "greatest distance": float(gaps.max()),
    }


if __name__ == "__main__":
    report.run(main)
