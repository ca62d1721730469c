"""Where the time of a pre-training step goes, kernel by kernel, on one GPU.

    python benchmarks/step_profile.py --data DATA
        [--cases base:128,base:512,large:512] [--batch-tokens 65536]
        [--dropout 0] [--precision fp8] [--top 12] [--out FILE.json]

Takes some steps of `bert pretrain` as it is, and sums the time of every kernel
that PyTorch's profiler saw. Masks are drawn on a stream of their own, so that
kernels overlap: what the sum has too much is named. What is left of a step is
time in which the GPU had nothing to do. "(launches)" is how long Python needs
to hand a step to the GPU: what it does meanwhile, unless that takes longer.
"""

import argparse
import importlib
import pkgutil
import sys
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile

import report
import turns
from bert_from_scratch import kernels as bert_kernels
from bert_from_scratch.train.step_result import StepResult
from bert_from_scratch.train.trainer import BertTrainer
from pretrain_throughput import (
    SEED,
    build,
    clean,
    read_case,
    start_in_the_middle,
)

WARM_STEPS = 10
STEPS = 20
# torch.compile 给自己的内核都加这个前缀，后面列出它并了哪些运算
COMPILED = "triton_"
# 按名字归类；次序要紧，先中者得：注意力的内核名里常带着 cutlass
KINDS = {
    "attention": ("flash", "fmha", "sdpa"),
    "products": ("gemm", "cutlass", "nvjet", "xmma", "splitK", "ampere"),
    "optimiser": ("multi_tensor", "FusedAdam", "lpnorm", "foreach"),
    "sorts and running sums (masks)": ("Sort", "sort", "Scan", "scan"),
    "copies": ("Memcpy", "Memset"),
}


def main() -> None:
    """Profiles every case and writes one table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--cases", default="base:128,base:512,large:512")
    parser.add_argument("--batch-tokens", type=int, default=65536)
    parser.add_argument("--dropout", type=float, default=0.0)
    parser.add_argument("--precision", default="auto")
    parser.add_argument("--top", type=int, default=12)
    parser.add_argument(
        "--out", type=Path, default=Path("build/step_profile.json")
    )
    arguments = parser.parse_args()
    if not torch.cuda.is_available():
        sys.exit("error: kernels can be seen on an NVIDIA GPU alone")
    run = report.describe_run(SEED)
    rows: list[dict[str, Any]] = []
    for case in arguments.cases.split(","):
        found = profile_steps(arguments, *read_case(case))
        rows += [{"case": case, **row} for row in found]
        report.write(arguments.out, run, rows)


def profile_steps(
    arguments: argparse.Namespace, preset: str, length: int
) -> list[dict[str, Any]]:
    """Returns a row for every kind of kernel, and for the longest ones."""
    assembly = build(
        arguments.data,
        preset,
        length,
        batch_tokens=arguments.batch_tokens,
        dropout=arguments.dropout,
        precision=arguments.precision,
        device="cuda",
    )
    start_in_the_middle(assembly)
    trainer = assembly.trainer
    turns.take(partial(trainer.fit, Stopwatch(WARM_STEPS).note))
    # 先不带测量器走几步：它自己也要时间
    plain = Stopwatch(STEPS)
    trainer.fit(plain.note)
    # 停下时还有一步的梯度在算：等它算完，免得记到下面的账上
    torch.cuda.synchronize()
    launching = time_launches(trainer)
    activities = [ProfilerActivity.CUDA]
    with profile(activities=activities, acc_events=True) as found:
        trainer.fit(Stopwatch(STEPS).note)
    kernels = [
        Kernel(event.name, event.time_range.start, event.time_range.end)
        for event in found.events() or ()
        if event.device_type.name == "CUDA"
    ]
    if not kernels:
        sys.exit("error: PyTorch's profiler saw no kernel (is CUPTI there?)")
    del trainer, assembly
    clean(torch.device("cuda"))
    rows = describe(kernels, plain.milliseconds, arguments.top)
    share = launching / plain.milliseconds
    rows.insert(1, {"what": "(launches)", "ms": launching, "share": share})
    return rows


def time_launches(trainer: BertTrainer, num_steps: int = 3) -> float:
    """Returns how long Python needs for a step, in milliseconds.

    Near the time of a step, it is Python that the GPU waits for.
    """
    seconds = []
    steps = trainer.source.steps(trainer.state.position)
    for data in islice(steps, num_steps):
        # 队列空着时开始，发完就停表：GPU 这时还在算
        torch.cuda.synchronize()
        begin = time.perf_counter()
        taken = trainer._apply(trainer._compute(data.pin_memory()))
        seconds.append(time.perf_counter() - begin)
        taken.read()
    return 1000 * min(seconds)


@dataclass(frozen=True)
class Kernel:
    """One run of one kernel.

    Attributes:
        name: As the profiler has it.
        start: In microseconds.
        end: In microseconds.
    """

    name: str
    start: float
    end: float


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
    kernels: Sequence[Kernel], step: float, num_top: int
) -> list[dict[str, Any]]:
    """Sums kernels by kind; names the longest ones one by one."""
    own = find_own_kernels()
    # 码表走 STEPS + 1 步才停，而循环总比读数早一步，又多算了一步的梯度
    scale = 1 / 1000 / (STEPS + 2)
    kinds: dict[str, float] = defaultdict(float)
    names: dict[str, float] = defaultdict(float)
    for kernel in kernels:
        milliseconds = (kernel.end - kernel.start) * scale
        kinds[find_kind(kernel.name, own)] += milliseconds
        names[kernel.name] += milliseconds
    busy = busy_time(kernels) * scale
    kinds["(two at once)"] = busy - sum(kinds.values())
    kinds["(no kernel)"] = step - busy
    by_time = sorted(kinds.items(), key=lambda item: -item[1])
    top = sorted(names.items(), key=lambda item: -item[1])[:num_top]
    return [
        {"what": name[:70], "ms": time, "share": time / step}
        for name, time in (("a step", step), *by_time, *top)
    ]


def busy_time(kernels: Sequence[Kernel]) -> float:
    """Returns how long at least one kernel ran, in microseconds."""
    busy, end = 0.0, float("-inf")
    for kernel in sorted(kernels, key=lambda kernel: kernel.start):
        busy += max(kernel.end - max(kernel.start, end), 0.0)
        end = max(end, kernel.end)
    return busy


def find_own_kernels() -> dict[str, str]:
    """Returns the file of each of our own kernels, by the kernel's name."""
    if not bert_kernels.EXIST:
        return {}
    from triton.runtime.jit import JITFunction

    folder = bert_kernels.__name__
    found = {}
    for file in pkgutil.iter_modules(bert_kernels.__path__):
        module = importlib.import_module(f"{folder}.{file.name}")
        for name, value in vars(module).items():
            if isinstance(value, JITFunction):
                found[name] = f"kernels/{file.name}.py"
    return found


def find_kind(name: str, own: Mapping[str, str]) -> str:
    """Returns what a kernel is for, as far as its name tells."""
    if name in own:
        return own[name]
    if name.startswith(COMPILED):
        return "compiled by PyTorch"
    for kind, marks in KINDS.items():
        if any(mark in name for mark in marks):
            return kind
    return "other"


if __name__ == "__main__":
    report.run(main)
