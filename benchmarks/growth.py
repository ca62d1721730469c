"""How time and memory grow: batch, length, depth, width, processes.

    python benchmarks/growth.py --data DATA [--preset base] [--device auto]
        [--axes batch,length,depth,width,processes] [--values 64,128]
        [--steps 10] [--batch-tokens N] [--out build/growth.json]
        [--plots FOLDER]
    python benchmarks/growth.py --merge build/growth-*.json --plots FOLDER

DATA holds token shards (`bert prepare`). From the shape of the preset, one
thing at a time is varied, and each shape is trained for some steps in a fresh
process. Memory that runs out ends an axis, not the run. With `--values`, only
these of the axes: a point a run, they can take turns (`turns.py`). The columns:

    tokens/s, ms/step  real tokens, by the clock on the wall; medians
    busy µs            a token: on a CPU the processor's time of one process,
                       which other programs do not lengthen; on a GPU the wall's
    MFLOP              a token and process, by the formula of `bert pretrain`
    peak GB            a process: allocated on a GPU; on a CPU its own resident
                       memory at the peak, less what it had before the model
    fixed GB           16 bytes a weight: itself, its gradient, two averages
    wall, busy, FLOP × time and work a token, over the first point of the axis
"""

import argparse
import os
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

import report
from bert_from_scratch import BertConfig, atomic
from bert_from_scratch.data.shards import TokenShards
from bert_from_scratch.errors import BertError
from bert_from_scratch.model.device import choose_device
from bert_from_scratch.train.defaults import (
    CPU_BATCH_TOKENS,
    GPU_BATCH_TOKENS,
    MAX_LENGTH,
)
from growth_pictures import draw_growth
from growth_point import SEED, Point, run_point

LENGTHS = (64, 128, 256, 384, 512)
BYTES_A_WEIGHT = 16
# 不加限制时只用空闲内存的八成：这台机器上还有别的工作
FREE_SHARE = 0.8


@dataclass(frozen=True)
class Axis:
    """One thing that is varied.

    Attributes:
        field: Its name in `Point`.
        label: What it is called in pictures.
        theory: Exponents that time a token should have.
    """

    field: str
    label: str
    theory: str


AXES = {
    "batch": Axis(
        "batch_tokens", "tokens a step", "0; above it, costs of a whole step"
    ),
    "length": Axis(
        "max_length", "longest sequence", "attention alone 1, the rest 0"
    ),
    "depth": Axis("num_hidden_layers", "layers", "blocks 1, the MLM head 0"),
    "width": Axis(
        "hidden_size",
        "hidden size",
        "products of the blocks 2, attention and vocabulary 1",
    ),
    "processes": Axis("num_processes", "processes", "-1: nothing is lost"),
}
COLUMNS = {"axis", "value", "tokens/s", "busy µs", "MFLOP", "peak GB"}


def main() -> None:
    """Measures all axes, or takes earlier results; writes and draws them."""
    arguments = parse_arguments()
    try:
        atomic.check_file(arguments.out)
        run = report.describe_run(SEED)
        if arguments.merge:
            files = [report.read(path, COLUMNS) for path in arguments.merge]
            rows = compare([row for file in files for row in file["rows"]])
            run["merged"] = [file["run"] for file in files]
        else:
            rows = measure_axes(arguments, run)
        if not rows:
            raise BertError("No point could be measured.")
        names = {row["axis"]: None for row in rows}
        run["growth"] = [fit_axis(name, rows) for name in names]
        report.write(arguments.out, run, rows)
        for fit in run["growth"]:
            print_line(fit)
        if arguments.plots is not None:
            labels = {name: axis.label for name, axis in AXES.items()}
            draw_growth(rows, labels, arguments.plots)
    except BertError as error:
        hint = f"\nhint: {error.hint}" if error.hint else ""
        print(f"error: {error.message}{hint}", file=sys.stderr)
        sys.exit(2)


def parse_arguments() -> argparse.Namespace:
    """Reads the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    add = parser.add_argument
    add("--data", type=Path, help="token shards of bert prepare")
    add("--preset", default="base", help="shape to start from")
    add("--batch-tokens", type=int, help="a step at the start")
    add("--max-batch-tokens", type=int, help="end of the axis batch")
    add("--axes", default=",".join(AXES), help="some of them, by commas")
    add("--values", help="of the axes, by commas; default: all")
    add("--steps", type=int, default=10, help="timed for every point")
    add("--device", default="auto")
    add("--threads", type=int, help="a process, on a CPU; default 1")
    add(
        "--memory-gb",
        type=float,
        help="that a GPU or a CPU's processes may take",
    )
    add("--out", type=Path, default=Path("build/growth.json"))
    add("--plots", type=Path, help="folder for a picture of every axis")
    add("--merge", type=Path, nargs="+", default=[], help="earlier results")
    arguments = parser.parse_args()
    if (arguments.data is None) == (not arguments.merge):
        parser.error("give either --data or --merge")
    names = arguments.axes.split(",")
    unknown = set(names) - set(AXES)
    if unknown:
        parser.error(f"unknown axes: {', '.join(unknown)}")
    if len(set(names)) < len(names):
        parser.error("an axis is named twice")
    values = arguments.values.split(",") if arguments.values else []
    if not all(value.isdecimal() and int(value) for value in values):
        parser.error("--values must be numbers over 0, by commas")
    if arguments.steps < 1:
        parser.error("--steps must be at least 1")
    return arguments


def measure_axes(
    arguments: argparse.Namespace, run: dict[str, Any]
) -> list[dict[str, Any]]:
    """Measures every axis; notes in `run` what was left out."""
    start = choose_start(arguments)
    notes: list[str] = []
    run["left out"] = notes
    rows: list[dict[str, Any]] = []
    for name in arguments.axes.split(","):
        where = "is left out"
        try:
            for value in values_of(name, start, arguments):
                where = f"ends at {value:,}"
                change: dict[str, Any] = {AXES[name].field: value}
                point = replace(start, **change)
                row = describe(name, point, run_point(point))
                rows = compare([*rows, row])
                print_line(row)
                # 每点一存：中途被停下，测到的也能并进别的结果
                report.save(arguments.out, run, rows)
        except BertError as error:
            # 放不下或做不了：这一轴到此为止，别的轴照常
            notes.append(f"{name} {where}: {error}")
            print(notes[-1], file=sys.stderr)
    return rows


def choose_start(arguments: argparse.Namespace) -> Point:
    """Returns the shape that all axes go through."""
    TokenShards.open(arguments.data)
    config = BertConfig.preset(arguments.preset)
    device = choose_device(arguments.device)
    if device.type not in ("cpu", "cuda"):
        raise BertError(
            f"Memory cannot be measured on {device.type}.",
            hint="use --device cpu",
        )
    is_gpu = device.type == "cuda"
    threads, memory_gb = arguments.threads, arguments.memory_gb
    if is_gpu and threads is not None:
        print("warning: --threads has no effect on a GPU", file=sys.stderr)
    if not is_gpu and memory_gb is None:
        memory_gb = FREE_SHARE * free_gigabytes()
    return Point(
        data=str(arguments.data),
        batch_tokens=arguments.batch_tokens
        or (GPU_BATCH_TOKENS if is_gpu else CPU_BATCH_TOKENS),
        max_length=MAX_LENGTH,
        num_hidden_layers=config.num_hidden_layers,
        hidden_size=config.hidden_size,
        num_processes=1,
        device=device.type,
        # 各点线程数相同才可比；进程一轴上，一个进程一个核
        num_threads=None if is_gpu else threads or 1,
        memory_gb=memory_gb,
        num_steps=arguments.steps,
    )


def free_gigabytes() -> float:
    """Returns the memory of the machine that nobody uses."""
    num_bytes = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return num_bytes / 1e9


def values_of(
    name: str, start: Point, arguments: argparse.Namespace
) -> Iterator[int]:
    """Yields the values of an axis, from small to large."""
    if arguments.values:
        yield from map(int, arguments.values.split(","))
    elif name == "batch":
        largest = arguments.max_batch_tokens or 16 * start.batch_tokens
        yield from doubling(start.batch_tokens // 4, largest)
    elif name == "length":
        yield from LENGTHS
    elif name == "depth":
        depth = start.num_hidden_layers
        yield from doubling(max(depth // 4, 1), 2 * depth)
    elif name == "width":
        half = start.hidden_size // 2
        yield from (half, 2 * half, 3 * half, 4 * half)
    else:
        yield from doubling(1, count_places(choose_device(start.device)))


def doubling(first: int, last: int) -> Iterator[int]:
    """Yields a number, twice it, and so on, up to the last."""
    while first <= last:
        yield first
        first *= 2


def count_places(device: torch.device) -> int:
    """Returns how many processes have a core or a GPU to themselves."""
    if device.type == "cuda":
        count = torch.cuda.device_count()
    else:
        count = len(os.sched_getaffinity(0))
    if count == 1:
        raise BertError(f"there is one {device.type} here, no more to share")
    return count


def describe(
    name: str, point: Point, measured: dict[str, Any]
) -> dict[str, Any]:
    """Makes a row of a point."""
    return {
        "axis": name,
        "value": getattr(point, AXES[name].field),
        "tokens/s": measured["tokens_per_second"],
        "ms/step": 1000 * measured["step_seconds"],
        "busy µs": 1e6 * measured["busy_seconds_per_token"],
        "MFU": "-" if measured["mfu"] is None else measured["mfu"],
        "MFLOP": measured["flops_per_token"] / point.num_processes / 1e6,
        "peak GB": measured["peak_bytes"] / 1e9,
        "fixed GB": BYTES_A_WEIGHT * measured["num_parameters"] / 1e9,
        "point": asdict(point) | {"device": measured["device"]},
    }


def compare(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Adds to each row what it is beside the first of its axis, by value."""
    rows.sort(key=lambda row: (list(AXES).index(row["axis"]), row["value"]))
    firsts: dict[str, dict[str, Any]] = {}
    for row in rows:
        first = firsts.setdefault(row["axis"], row)
        row["wall ×"] = first["tokens/s"] / row["tokens/s"]
        row["busy ×"] = row["busy µs"] / first["busy µs"]
        row["FLOP ×"] = row["MFLOP"] / first["MFLOP"]
    return rows


def print_line(row: dict[str, Any]) -> None:
    """Prints a row at once, in case the run is cut off."""
    shown = (
        f"{name} {value:.4g}" if isinstance(value, float) else f"{name} {value}"
        for name, value in row.items()
        if name != "point"
    )
    print("; ".join(shown), flush=True)


def fit_axis(name: str, rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Fits exponents to what was measured on an axis, and to the formula."""
    rows = [row for row in rows if row["axis"] == name]
    values = [row["value"] for row in rows]
    times = [row["busy ×"] for row in rows]
    work = [row["FLOP ×"] for row in rows]
    fit = {
        "axis": name,
        "exponent of time a token": exponent(values, times),
        "of the formula": exponent(values, work),
        "theory": AXES[name].theory,
    }
    if name == "length":
        fit["attention equals the rest at"] = crossing(values, times)
        fit["by the formula"] = crossing(values, work)
    if name == "batch":
        # 每步的固定开销（优化器等）摊到每个词元上，与批次大小成反比
        shares = [1 / value for value in values]
        found = crossing(shares, times)
        fit["half is the step's own at"] = None if found is None else 1 / found
    return fit


def exponent(values: list[float], costs: list[float]) -> float | None:
    """Returns b of cost = a * value ** b; None: fewer than two points."""
    if len(values) < 2:
        return None
    return float(np.polyfit(np.log(values), np.log(costs), 1)[0])


def crossing(values: list[float], costs: list[float]) -> float | None:
    """Returns where b * value reaches a, for cost = a + b * value.

    None where there is no such place: too few points, or no growth.
    """
    if len(values) < 2:
        return None
    slope, fixed = np.polyfit(values, costs, 1)
    return float(fixed / slope) if slope > 0 and fixed > 0 else None


if __name__ == "__main__":
    report.run(main)
