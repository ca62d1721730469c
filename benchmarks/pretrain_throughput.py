"""Pre-training beside Hugging Face, on one GPU: tokens a second, MFU, memory.

    python benchmarks/pretrain_throughput.py --data DATA
        [--cases base:128,base:512,large:512] [--steps 30] [--dropout 0.1]
        [--batch-tokens 65536,131072] [--precision auto,fp8] [--rows 256,512]
        [--pairs google] [--fill padded,full,marked] [--no-compile]
        [--seconds 560] [--device cpu] [--out FILE.json]
    python benchmarks/pretrain_throughput.py --merge FILE.json FILE.json ...

DATA holds token shards (`bert prepare`). Ours is what `bert pretrain` runs:
real pairs, packed, through the real pipeline and trainer, whose time includes
making the batches; every batch size and precision has a row. The peer is
`BertForPreTraining` (sdpa), compiled and in bf16 on a GPU, with fused AdamW,
on the same pairs as its collator pads them, and on rows without padding, with
and without a mask that hides nothing ("marked", "full"); its batches are made
beforehand and lie in pinned memory. Every batch size of `--rows` has a row in
the table; the fastest counts. `--pairs google` gives both sides the pairs of
Google's script, which leave more padding than ours. One that does not fit into
memory, or is not begun because `--seconds` since the start would not suffice,
is named and left out. `--no-compile` runs ours as it stands, one operation
after the other. Dropout is attention's too, on both sides. Only real
tokens are counted; the ratios are those of our fastest row in bf16, and memory
is compared where both have room for equally many tokens. Under `turns.py` every
file of `--merge` is one process's, and time to the first step is that of many
which compile at once.
"""

import argparse
import gc
import math
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import torch

import report
import turns
from bert_from_scratch import BertConfig, atomic
from bert_from_scratch.data.pretraining import PretrainingData
from bert_from_scratch.data.steps import Position
from bert_from_scratch.train.assemble import Assembly, assemble
from bert_from_scratch.train.clock import process_start
from bert_from_scratch.train.defaults import make_plan
from bert_from_scratch.train.flops import flops_per_token, peak_flops
from bert_from_scratch.train.processes import Processes
from bert_from_scratch.train.step_result import StepResult
from google_pairs import plan_google_pairs
from pretrain_throughput_peer import FILLS, PeerSpeed, try_peer
from pretrain_throughput_verdict import (
    CASE,
    OURS,
    add_ratios,
    judge,
    print_row,
    print_verdict,
)

SEED = 0
COMPILING_STEPS = 2
WARM_STEPS = 10
EVER = 1_000_000
EAGER = "ours, not compiled"
# 每行的列都一样：没有测到的数字是空的，不是零
NOTHING: dict[str, Any] = {
    "tokens a step": None,
    "real tokens/s": None,
    "MFU": None,
    "peak GB": None,
    "waiting": None,
    "seconds to first step": None,
    "note": "",
}
COLUMNS = {*CASE, *NOTHING, "who", "rows", "precision"}


def main() -> None:
    """Measures every case; writes what is known after each."""
    arguments = parse_arguments()
    end = process_start() + arguments.seconds
    run = report.describe_run(SEED)
    rows: list[dict[str, Any]] = []
    if arguments.merge:
        files = [report.read(path, COLUMNS) for path in arguments.merge]
        run["merged"] = [file["run"] for file in files]
        rows = [row for file in files for row in file["rows"]]
        report.write(arguments.out, run, judge(rows))
        return
    for preset, length in map(read_case, arguments.cases.split(",")):
        for dropout in map(float, arguments.dropout.split(",")):
            rows += measure(arguments, preset, length, dropout, end)
            report.write(arguments.out, run, rows)


def read_case(text: str) -> tuple[str, int]:
    """Reads "base:128" into preset and length."""
    preset, _, length = text.partition(":")
    if not length.isdigit():
        sys.exit(f"error: {text} is not of the form PRESET:LENGTH")
    return preset, int(length)


def parse_arguments() -> argparse.Namespace:
    """Reads the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--merge", type=Path, nargs="+", default=[])
    parser.add_argument("--cases", default="base:128,base:512,large:512")
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument(
        "--batch-tokens", default="65536", help="of ours: one, or several"
    )
    parser.add_argument(
        "--precision", default="auto", help="of ours: one, or several: auto,fp8"
    )
    parser.add_argument("--dropout", default="0", help="one, or several: 0,0.1")
    parser.add_argument("--rows", help="batch sizes of the peer, by commas")
    parser.add_argument("--pairs", choices=("ours", "google"), default="ours")
    parser.add_argument(
        "--fill",
        default="padded,full",
        help=f"of the peer's rows: one, or several: {','.join(FILLS)}",
    )
    parser.add_argument("--only", choices=("ours", "peer"))
    parser.add_argument("--no-compile", action="store_true", help="of ours")
    parser.add_argument("--seconds", type=float, default=math.inf)
    parser.add_argument("--device", default="auto")
    parser.add_argument(
        "--out", type=Path, default=Path("build/pretrain_throughput.json")
    )
    arguments = parser.parse_args()
    if (arguments.data is None) == (not arguments.merge):
        parser.error("give either --data or --merge")
    unknown = set(arguments.fill.split(",")) - FILLS.keys()
    if unknown:
        parser.error(f"no --fill {', '.join(unknown)}")
    if arguments.steps < 1:
        parser.error("--steps must be at least 1")
    atomic.check_file(arguments.out)
    return arguments


def measure(
    arguments: argparse.Namespace,
    preset: str,
    length: int,
    dropout: float,
    end: float,
) -> list[dict[str, Any]]:
    """Measures both sides of one case; returns a row for each try."""
    rows: list[dict[str, Any]] = []
    common = {
        "preset": preset,
        "length": length,
        "dropout": dropout,
        "pairs": arguments.pairs,
    }
    if arguments.only != "peer":
        for row in measure_ours(arguments, preset, length, dropout):
            rows.append(common | row)
            print_row(rows[-1])
    if arguments.only != "ours":
        for row in measure_peers(arguments, preset, length, dropout, end):
            rows.append(common | row)
            print_row(rows[-1])
    add_ratios(rows)
    print_verdict(rows)
    return rows


def measure_ours(
    arguments: argparse.Namespace, preset: str, length: int, dropout: float
) -> Iterator[dict[str, Any]]:
    """Tries all precisions and batch sizes; yields a row each."""
    sizes = map(int, arguments.batch_tokens.split(","))
    for size, precision in product(sizes, arguments.precision.split(",")):
        assembly = build(
            arguments.data,
            preset,
            length,
            batch_tokens=size,
            dropout=dropout,
            precision=precision,
            pairs=arguments.pairs,
            device=arguments.device,
            compiles=False if arguments.no_compile else None,
        )
        who = EAGER if arguments.no_compile else OURS
        row = {"who": who, "rows": size // length, "precision": precision}
        yield row | measure_loop(assembly, arguments.steps, length)
        device = assembly.trainer.device
        # 释放这个模型，再给下一个让出全部显存
        del assembly
        clean(device)


def build(
    data_dir: Path,
    preset: str,
    length: int,
    *,
    batch_tokens: int,
    dropout: float = 0.0,
    precision: str = "auto",
    pairs: str = "ours",
    device: str = "auto",
    compiles: bool | None = None,
) -> Assembly:
    """Builds what `bert pretrain` would run."""
    plan = make_plan(
        data_dir,
        preset=preset,
        batch_tokens=batch_tokens,
        max_length=length,
        steps=EVER,
        warmup_steps=100,
        device=device,
        precision=precision,
        compiles=compiles,
        held_out_share=0.0,
        seed=SEED,
    )
    model = replace(
        plan.model,
        hidden_dropout_prob=dropout,
        attention_probs_dropout_prob=dropout,
    )
    assembly = assemble(replace(plan, model=model), Processes())
    if pairs == "google":
        assembly.data.data[0].plan_sequences = plan_google_pairs
    return assembly


def measure_loop(
    assembly: Assembly, num_steps: int, length: int
) -> dict[str, Any]:
    """Runs our loop for some steps, as it is."""
    trainer = assembly.trainer
    config, device = trainer.model.config, trainer.device
    assert isinstance(config, BertConfig)
    marks: list[tuple[float, StepResult]] = []
    begin = time.perf_counter()

    def note(result: StepResult) -> bool:
        marks.append((time.perf_counter(), result))
        if len(marks) == WARM_STEPS and device.type == "cuda":
            torch.cuda.reset_peak_memory_stats()
        return len(marks) == WARM_STEPS + num_steps

    first_steps: list[float] = []

    def note_first(_: StepResult) -> bool:
        first_steps.append(time.perf_counter())
        return len(first_steps) >= COMPILING_STEPS

    def compile_steps() -> None:
        # 上一次若因显存不够而中断，会留下半步的梯度
        trainer.optimizer.zero_grad()
        trainer.fit(note_first)

    start_in_the_middle(assembly)
    turns.take(compile_steps, compiles=trainer.settings.compiles)
    trainer.fit(note)
    start = marks[WARM_STEPS - 1][0]
    timed = [result for _, result in marks[WARM_STEPS:]]
    seconds = marks[-1][0] - start
    speed = sum(result.num_tokens for result in timed) / seconds
    return {
        **NOTHING,
        "tokens a step": sum(r.num_tokens for r in timed) / len(timed),
        "real tokens/s": speed,
        "MFU": utilisation(speed, config, length, device),
        "peak GB": peak_memory(device),
        "waiting": sum(result.wait_seconds for result in timed) / seconds,
        "seconds to first step": first_steps[0] - begin,
    }


def start_in_the_middle(assembly: Assembly) -> None:
    """Lets training begin with steps like most others."""
    # 一轮开头的几步，装箱时偏爱短句对
    middle = assembly.data.data[0].num_steps(0) // 2
    state = replace(assembly.trainer.state, position=Position(cursor=middle))
    assembly.trainer.state = state


def measure_peers(
    arguments: argparse.Namespace,
    preset: str,
    length: int,
    dropout: float,
    end: float,
) -> Iterator[dict[str, Any]]:
    """Tries all batch sizes, padded and full; yields a row each."""
    size = int(arguments.batch_tokens.split(",")[0])
    config, data, device = prepare_peer(
        arguments, preset, length, size, dropout
    )
    sizes = arguments.rows or str(size // length)
    longest = 0.0
    for rows in map(int, sizes.split(",")):
        for fill in arguments.fill.split(","):
            row = {"who": f"Hugging Face, {FILLS[fill]}", "rows": rows}
            row |= {"precision": "auto"} | NOTHING
            begin = time.monotonic()
            if begin + longest > end:
                yield row | {"note": "left out: no time"}
                continue
            found = try_peer(
                config,
                data,
                rows=rows,
                length=length,
                num_steps=arguments.steps,
                warm_steps=WARM_STEPS,
                device=device,
                fill=fill,
            )
            clean(device)
            # 以最慢的一次估计下一次：编译占大头，各次相差不多
            longest = max(longest, time.monotonic() - begin)
            if found is None:
                yield row | {"note": "out of memory"}
            else:
                yield row | describe_peer(found, config, length, device)


def prepare_peer(
    arguments: argparse.Namespace,
    preset: str,
    length: int,
    batch_tokens: int,
    dropout: float,
) -> tuple[BertConfig, PretrainingData, torch.device]:
    """Returns the shape of our model, its data, and where it trains."""
    assembly = build(
        arguments.data,
        preset,
        length,
        batch_tokens=batch_tokens,
        dropout=dropout,
        pairs=arguments.pairs,
        device=arguments.device,
    )
    config = assembly.trainer.model.config
    assert isinstance(config, BertConfig)
    return config, assembly.data.data[0], assembly.trainer.device


def describe_peer(
    found: PeerSpeed, config: BertConfig, length: int, device: torch.device
) -> dict[str, Any]:
    """Returns the numbers of a peer."""
    return {
        "tokens a step": found.tokens_a_step,
        "real tokens/s": found.speed,
        "MFU": utilisation(found.speed, config, length, device),
        "peak GB": found.peak_gb,
        "seconds to first step": found.seconds_to_start,
    }


def utilisation(
    speed: float, config: BertConfig, length: int, device: torch.device
) -> float | None:
    """Returns the share of the device's peak in use; None: peak unknown."""
    peak = peak_flops(device)
    if peak is None:
        return None
    return speed * flops_per_token(config, length) / peak


def peak_memory(device: torch.device) -> float | None:
    """Returns the most that was allocated, in GB; None on a CPU."""
    if device.type != "cuda":
        return None
    return torch.cuda.max_memory_allocated() / 1e9


def clean(device: torch.device) -> None:
    """Frees what the last model held, compiled code included."""
    torch.compiler.reset()
    gc.collect()
    if device.type == "cuda":
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()


if __name__ == "__main__":
    report.run(main)
