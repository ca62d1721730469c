"""Where the time of a pre-training step goes, kernel by kernel, on one GPU.

    python benchmarks/step_profile.py --data DATA
        [--cases base:128,base:512,large:512] [--batch-tokens 65536]
        [--dropout 0] [--top 12] [--out FILE.json]

Takes some steps of `bert pretrain` as it is, and sums the time of every kernel
that PyTorch's profiler saw. What is left of a step is time in which the GPU
waited.
"""

import argparse
import time
from collections import defaultdict
from itertools import count
from pathlib import Path
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile

import report
from bert_from_scratch.train.step_result import StepResult
from pretrain_throughput import SEED, build, clean

WARM_STEPS = 10
STEPS = 5
# 按名字归类；次序要紧，先中者得
KINDS = {
    "products": ("gemm", "cutlass", "nvjet", "sm90_xmma", "splitK", "ampere"),
    "attention": ("forward", "backward_queries", "backward_keys", "flash"),
    "activation": ("_gelu",),
    "cross-entropy": ("_loss_",),
    "optimiser": ("multi_tensor", "FusedAdam", "lpnorm", "foreach"),
    "copies": ("Memcpy", "Memset"),
    "compiled": ("triton_",),
}


def main() -> None:
    """Profiles every case and writes one table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--cases", default="base:128,base:512,large:512")
    parser.add_argument("--batch-tokens", type=int, default=65536)
    parser.add_argument("--dropout", type=float, default=0.0)
    parser.add_argument("--top", type=int, default=12)
    parser.add_argument("--device", default="cuda")
    parser.add_argument(
        "--out", type=Path, default=Path("build/step_profile.json")
    )
    arguments = parser.parse_args()
    rows: list[dict[str, Any]] = []
    for case in arguments.cases.split(","):
        preset, length = case.split(":")
        found = profile_steps(arguments, preset, int(length))
        rows += [{"case": case, **row} for row in found]
    report.write(arguments.out, report.describe_run(SEED), rows)


def profile_steps(
    arguments: argparse.Namespace, preset: str, length: int
) -> list[dict[str, Any]]:
    """Returns a row for every kind of kernel, and for the longest ones."""
    assembly = build(arguments, preset, length, arguments.dropout)
    trainer = assembly.trainer
    numbers = count(1)

    def stop_after(limit: int) -> bool:
        return next(numbers) >= limit

    trainer.fit(lambda _: stop_after(WARM_STEPS))
    # 先不带测量器走几步：它自己也要时间
    plain = Stopwatch(STEPS)
    trainer.fit(plain.note)
    numbers = count(1)
    activities = [ProfilerActivity.CUDA]
    with profile(activities=activities, acc_events=True) as found:
        trainer.fit(lambda _: stop_after(STEPS))
    # 循环总比读数早一步：停下时，下一步的梯度也已经算了
    kernels = {
        event.key: event.self_device_time_total / 1000 / (STEPS + 1)
        for event in found.key_averages()
        if event.self_device_time_total
    }
    del trainer, assembly
    clean(torch.device("cuda"))
    return describe(kernels, plain.milliseconds, arguments.top)


class Stopwatch:
    """Measures some steps of the loop."""

    def __init__(self, num_steps: int) -> None:
        self._num_steps = num_steps
        self._marks: list[float] = []

    def note(self, result: StepResult) -> bool:
        """Notes the end of a step; returns whether it was the last."""
        del result
        self._marks.append(time.perf_counter())
        return len(self._marks) > self._num_steps

    @property
    def milliseconds(self) -> float:
        """Mean time of a step."""
        return 1000 * (self._marks[-1] - self._marks[0]) / self._num_steps


def describe(
    kernels: dict[str, float], step: float, num_top: int
) -> list[dict[str, Any]]:
    """Sums kernels by kind; names the longest one by one."""
    kinds: dict[str, float] = defaultdict(float)
    for name, milliseconds in kernels.items():
        kinds[find_kind(name)] += milliseconds
    busy = sum(kernels.values())
    kinds["(no kernel)"] = step - busy
    rows = [{"what": "a step", "ms": step, "share": 1.0}]
    by_time = sorted(kinds.items(), key=lambda item: -item[1])
    top = sorted(kernels.items(), key=lambda item: -item[1])[:num_top]
    for name, milliseconds in (*by_time, *top):
        rows.append(
            {
                "what": name[:70],
                "ms": milliseconds,
                "share": milliseconds / step,
            }
        )
    return rows


def find_kind(name: str) -> str:
    """Returns what a kernel is for, as far as its name tells."""
    for kind, marks in KINDS.items():
        if any(mark in name for mark in marks):
            return kind
    return "other"


if __name__ == "__main__":
    main()
