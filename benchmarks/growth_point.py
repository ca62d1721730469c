"""One point of `growth.py`: a shape, trained for some steps by itself.

Every point has a process of its own (several under `torchrun`), so that its
memory is its own: nothing that an earlier point left behind is counted. What
runs is what `bert pretrain` runs: real pairs, packed, through the real
pipeline and the real trainer.
"""

import json
import resource
import signal
import statistics
import subprocess
import sys
import time
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch

import turns
from bert_from_scratch.data.steps import Position
from bert_from_scratch.errors import BertError
from bert_from_scratch.model.device import choose_device
from bert_from_scratch.train.assemble import Assembly, assemble
from bert_from_scratch.train.defaults import make_plan
from bert_from_scratch.train.flops import flops_per_token, peak_flops
from bert_from_scratch.train.memory import is_out_of_memory
from bert_from_scratch.train.pretraining_plan import PretrainingPlan
from bert_from_scratch.train.processes import Processes, join_processes
from bert_from_scratch.train.step_result import StepResult

SEED = 0
EVER = 1_000_000
HEAD_SIZE = 64
# GPU 上最初几步含编译与预热；CPU 上两步足够
WARM_STEPS = {"cuda": 10, "cpu": 2}


@dataclass(frozen=True)
class Point:
    """A shape to train, and where.

    Attributes:
        data: Token shards.
        batch_tokens: Tokens a step, over all processes.
        max_length: Longest sequence.
        num_hidden_layers: Depth.
        hidden_size: Width; heads of 64, four times as wide inside.
        num_processes: How many share a step.
        device: "cpu" or "cuda".
        num_threads: Of each process on a CPU; None on a GPU.
        memory_gb: What a GPU, or all processes on a CPU together, may take;
            None: all there is.
        num_steps: How many are timed.
    """

    data: str
    batch_tokens: int
    max_length: int
    num_hidden_layers: int
    hidden_size: int
    num_processes: int
    device: str
    num_threads: int | None
    memory_gb: float | None
    num_steps: int


def run_point(point: Point) -> dict[str, Any]:
    """Measures a point in a fresh process, or in several.

    Raises:
        BertError: The point cannot be trained here: why, in words.
    """
    command = [sys.executable, __file__, json.dumps(asdict(point))]
    if point.num_processes > 1:
        count = f"--nproc-per-node={point.num_processes}"
        command[1:1] = ["-m", "torch.distributed.run", "--standalone", count]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode == -signal.SIGKILL:
        raise BertError("killed by the system, as it does without memory")
    answers = [x for x in done.stdout.split("\n") if x.startswith("{")]
    if not answers:
        raise BertError(f"{point} failed:\n{done.stderr[-4000:]}")
    measured: dict[str, Any] = json.loads(answers[-1])
    if "error" in measured:
        raise BertError(measured["error"])
    return measured


def main() -> None:
    """Measures the point of the command line; prints one JSON object."""
    point = Point(**json.loads(sys.argv[1]))
    try:
        measured = measure(point)
    except BertError as error:
        measured = {"error": str(error)}
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
        measured = {"error": "out of memory"}
    if measured is not None:
        print(json.dumps(measured), flush=True)
        # 一个进程失败，就让 torchrun 结束其余进程，免得它们空等
        sys.exit("error" in measured)


def measure(point: Point) -> dict[str, Any] | None:
    """Trains for some steps; returns None in all processes but the first."""
    device = choose_device(point.device)
    processes = join_processes(device)
    if point.memory_gb is not None:
        limit_memory(device, point.memory_gb, processes)
    plan = plan_point(point)
    # 第一个优化器会带进上千个模块：先装好，不算在模型头上
    torch.optim.AdamW([torch.zeros(1)])
    before = resident_bytes("RssAnon")
    assembly = assemble(plan, processes)
    steps = time_steps(assembly, point.num_steps)
    if not processes.is_first:
        return None
    if device.type == "cuda":
        peak = torch.cuda.max_memory_allocated()
    else:
        # 峰值减去文件页（库与数据）和建模型之前已有的：剩下权重、梯度、
        # 均值、激活值，也含分配器留着未还的
        peak = resident_bytes("VmHWM") - resident_bytes("RssFile") - before
    model = assembly.trainer.model
    speed = statistics.median(step.num_tokens / step.seconds for step in steps)
    return {
        "device": name_device(device),
        "tokens_per_second": speed,
        "step_seconds": statistics.median(step.seconds for step in steps),
        "busy_seconds_per_token": statistics.median(
            step.busy_seconds / step.num_tokens for step in steps
        ),
        "mfu": utilisation(plan, speed, device, processes),
        "peak_bytes": peak,
        "num_parameters": sum(p.numel() for p in model.parameters()),
        "flops_per_token": flops_per_token(plan.model, plan.max_length),
    }


def plan_point(point: Point) -> PretrainingPlan:
    """Plans what `bert pretrain` would run with a model of this shape."""
    plan = make_plan(
        Path(point.data),
        batch_tokens=point.batch_tokens,
        max_length=point.max_length,
        steps=EVER,
        device=point.device,
        num_threads=point.num_threads,
        held_out_share=0.0,
        seed=SEED,
    )
    model = replace(
        plan.model,
        num_hidden_layers=point.num_hidden_layers,
        hidden_size=point.hidden_size,
        num_attention_heads=point.hidden_size // HEAD_SIZE,
        intermediate_size=4 * point.hidden_size,
    )
    return replace(plan, model=model)


@dataclass(frozen=True)
class Step:
    """One step that was timed.

    Attributes:
        seconds: By the clock on the wall.
        busy_seconds: Of the processor, for this process; on a GPU, as above.
        num_tokens: Real ones, over all processes.
    """

    seconds: float
    busy_seconds: float
    num_tokens: int


def time_steps(assembly: Assembly, num_steps: int) -> list[Step]:
    """Trains; returns the steps after the first ones."""
    trainer = assembly.trainer
    is_gpu = trainer.device.type == "cuda"
    num_warm = WARM_STEPS[trainer.device.type]
    # 处理器时间不含被别的程序占去的时间：忙的机器上只有它可比
    busy_clock = time.perf_counter if is_gpu else time.process_time
    marks: list[Step] = []

    def note(result: StepResult) -> bool:
        marks.append(Step(time.perf_counter(), busy_clock(), result.num_tokens))
        if is_gpu and len(marks) == num_warm:
            torch.cuda.reset_peak_memory_stats()
        return len(marks) == num_warm + num_steps

    # 从一轮的中间开始：开头的几步装箱时偏爱短句对
    middle = assembly.data.data[0].num_steps(0) // 2
    trainer.state = replace(trainer.state, position=Position(cursor=middle))
    if is_gpu:
        turns.take(partial(trainer.fit, lambda _: True))
    trainer.fit(note)
    return [
        Step(
            after.seconds - before.seconds,
            after.busy_seconds - before.busy_seconds,
            after.num_tokens,
        )
        for before, after in pairwise(marks[num_warm - 1 :])
    ]


def utilisation(
    plan: PretrainingPlan,
    speed: float,
    device: torch.device,
    processes: Processes,
) -> float | None:
    """Returns the share of the devices' peak in use; None: peak unknown."""
    peak = peak_flops(device)
    if peak is None:
        return None
    cost = flops_per_token(plan.model, plan.max_length)
    return speed * cost / (peak * processes.count)


def limit_memory(
    device: torch.device, gigabytes: float, processes: Processes
) -> None:
    """Makes an allocation beyond the limit fail, as if that were all."""
    if device.type == "cuda":
        total = torch.cuda.get_device_properties(device).total_memory
        torch.cuda.set_per_process_memory_fraction(
            min(gigabytes * 1e9 / total, 1.0)
        )
        return
    # 不设限的话，系统会挑一个进程杀掉，未必是这一个
    most = int(gigabytes * 1e9 / processes.count)
    resource.setrlimit(resource.RLIMIT_DATA, (most, most))


def resident_bytes(name: str) -> int:
    """Returns a line of this process's status, in bytes; Linux has it.

    Args:
        name: "RssAnon" for its own memory, "RssFile" for pages of files,
            "VmHWM" for the most of both together.
    """
    lines = Path("/proc/self/status").read_text().split("\n")
    line = next(line for line in lines if line.startswith(name))
    return 1024 * int(line.split()[1])


def name_device(device: torch.device) -> str:
    """Returns the name of a GPU, or the kind of another device."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    return device.type


if __name__ == "__main__":
    main()
