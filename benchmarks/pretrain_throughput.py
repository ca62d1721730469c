"""Pre-training beside Hugging Face, on one GPU: tokens a second, MFU, memory.

    python benchmarks/pretrain_throughput.py --data DATA
        [--cases base:128,base:512,large:512] [--steps 30] [--dropout 0.1]
        [--rows 256,512] [--device cpu] [--out FILE.json]

DATA holds token shards (`bert prepare`). Ours is what `bert pretrain` runs:
real pairs, packed, through the real pipeline and trainer, whose time includes
making the batches. The peer is `BertForPreTraining` (sdpa), compiled, with
fused AdamW, on the same pairs as its collator pads them, and on rows without
padding; its batches are made beforehand and lie in pinned memory. Of its batch
sizes the fastest counts. Only real tokens are counted.
"""

import argparse
import gc
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

import report
from bert_from_scratch import BertConfig
from bert_from_scratch.data.pretraining import PretrainingData
from bert_from_scratch.data.steps import Position
from bert_from_scratch.train.assemble import Assembly, assemble
from bert_from_scratch.train.defaults import make_plan
from bert_from_scratch.train.flops import flops_per_token, peak_flops
from bert_from_scratch.train.processes import Processes
from bert_from_scratch.train.step_result import StepResult
from pretrain_throughput_peer import PeerSpeed, measure_peer

SEED = 0
WARM_STEPS = 10
EVER = 1_000_000


def main() -> None:
    """Measures every case and writes one table."""
    arguments = parse_arguments()
    rows: list[dict[str, Any]] = []
    for case in arguments.cases.split(","):
        preset, length = case.split(":")
        for dropout in map(float, arguments.dropout.split(",")):
            rows += measure(arguments, preset, int(length), dropout)
            print_rows(rows[-4:])
    run = report.describe_run(SEED)
    if torch.cuda.is_available():
        run["device"] = torch.cuda.get_device_name()
    report.write(arguments.out, run, rows)


def parse_arguments() -> argparse.Namespace:
    """Reads the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--cases", default="base:128,base:512,large:512")
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--batch-tokens", type=int, default=65536)
    parser.add_argument("--dropout", default="0", help="one, or several: 0,0.1")
    parser.add_argument("--rows", help="batch sizes of the peer, by commas")
    parser.add_argument("--only", choices=("ours", "peer"))
    parser.add_argument("--device", default="auto")
    parser.add_argument(
        "--out", type=Path, default=Path("build/pretrain_throughput.json")
    )
    return parser.parse_args()


def measure(
    arguments: argparse.Namespace, preset: str, length: int, dropout: float
) -> list[dict[str, Any]]:
    """Measures both sides of one case; returns a row each."""
    assembly = build(arguments, preset, length, dropout)
    config = assembly.trainer.model.config
    assert isinstance(config, BertConfig)
    device = assembly.trainer.device
    data = assembly.data.data[0]
    rows: list[dict[str, Any]] = []
    common = {"preset": preset, "length": length, "dropout": dropout}
    if arguments.only != "peer":
        rows.append(
            common | measure_ours(assembly, arguments.steps, config, length)
        )
    # 释放我们的模型，再给对方让出全部显存
    del assembly
    clean(device)
    if arguments.only == "ours":
        return rows
    for is_full in (False, True):
        found = fastest_peer(arguments, config, data, length, device, is_full)
        rows.append(common | describe_peer(found, config, length, device))
    return add_ratios(rows)


def build(
    arguments: argparse.Namespace, preset: str, length: int, dropout: float
) -> Assembly:
    """Builds what `bert pretrain` would run."""
    plan = make_plan(
        arguments.data,
        preset=preset,
        batch_tokens=arguments.batch_tokens,
        max_length=length,
        steps=EVER,
        warmup_steps=100,
        device=arguments.device,
        held_out_share=0.0,
        seed=SEED,
    )
    model = replace(
        plan.model,
        hidden_dropout_prob=dropout,
        attention_probs_dropout_prob=dropout,
    )
    return assemble(replace(plan, model=model), Processes())


def measure_ours(
    assembly: Assembly,
    num_steps: int,
    config: BertConfig,
    length: int,
    tell: Callable[[float], object] | None = None,
) -> dict[str, Any]:
    """Runs our loop for some steps, as it is; tells every loss."""
    trainer = assembly.trainer
    device = trainer.device
    marks: list[tuple[float, StepResult]] = []
    begin = time.perf_counter()

    def note(result: StepResult) -> bool:
        marks.append((time.perf_counter(), result))
        if tell is not None:
            tell(result.loss)
        if len(marks) == WARM_STEPS and device.type == "cuda":
            torch.cuda.reset_peak_memory_stats()
        return len(marks) == WARM_STEPS + num_steps

    # 从一轮的中间开始：开头的几步装箱时偏爱短句对
    middle = assembly.data.data[0].num_steps(0) // 2
    trainer.state = type(trainer.state)(position=Position(cursor=middle))
    trainer.fit(note)
    start = marks[WARM_STEPS - 1][0]
    timed = [result for _, result in marks[WARM_STEPS:]]
    seconds = marks[-1][0] - start
    speed = sum(result.num_tokens for result in timed) / seconds
    return {
        "who": "ours",
        "real tokens/s": speed,
        "MFU": utilisation(speed, config, length, device),
        "peak GB": peak_memory(device),
        "waiting": sum(result.wait_seconds for result in timed) / seconds,
        "seconds to first step": marks[0][0] - begin,
        "tokens a step": sum(r.num_tokens for r in timed) / len(timed),
    }


def fastest_peer(
    arguments: argparse.Namespace,
    config: BertConfig,
    data: PretrainingData,
    length: int,
    device: torch.device,
    is_full: bool,
) -> PeerSpeed:
    """Tries all batch sizes; returns the fastest."""
    sizes = arguments.rows or str(arguments.batch_tokens // length)
    found = []
    for rows in map(int, sizes.split(",")):
        found.append(
            measure_peer(
                config,
                data,
                rows=rows,
                length=length,
                num_steps=arguments.steps,
                warm_steps=WARM_STEPS,
                device=device,
                is_full=is_full,
            )
        )
        clean(device)
    return max(found, key=lambda one: one.speed)


def describe_peer(
    found: PeerSpeed, config: BertConfig, length: int, device: torch.device
) -> dict[str, Any]:
    """Makes the row of a peer."""
    what = "full rows" if found.is_full else "padded"
    return {
        "who": f"Hugging Face, {what}",
        "real tokens/s": found.speed,
        "MFU": utilisation(found.speed, config, length, device),
        "peak GB": found.peak_gb,
        "waiting": 0.0,
        "seconds to first step": found.seconds_to_start,
        "tokens a step": found.tokens_a_step,
    }


def add_ratios(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Adds what ours is, over each peer."""
    ours = next((r for r in rows if r["who"] == "ours"), None)
    for row in rows:
        row["ours / this"] = (
            1.0
            if ours is None
            else ours["real tokens/s"] / row["real tokens/s"]
        )
        row["memory of ours / this"] = (
            1.0 if ours is None else ours["peak GB"] / max(row["peak GB"], 1e-9)
        )
    return rows


def utilisation(
    speed: float, config: BertConfig, length: int, device: torch.device
) -> float:
    """Returns the share of the device's peak that does useful work."""
    peak = peak_flops(device)
    if peak is None:
        return 0.0
    return speed * flops_per_token(config, length) / peak


def peak_memory(device: torch.device) -> float:
    """Returns the most that was allocated, in GB; 0 on a CPU."""
    if device.type != "cuda":
        return 0.0
    return torch.cuda.max_memory_allocated() / 1e9


def clean(device: torch.device) -> None:
    """Frees what the last model held, compiled code included."""
    torch.compiler.reset()
    gc.collect()
    if device.type == "cuda":
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()


def print_rows(rows: list[dict[str, Any]]) -> None:
    """Prints what is known so far, in case the run is cut off."""
    for row in rows:
        shown = (
            f"{name} {value:.4g}" if isinstance(value, float) else str(value)
            for name, value in row.items()
        )
        print("; ".join(shown), flush=True)


if __name__ == "__main__":
    main()
