"""Attention within packed sequences, kernel by kernel, on one GPU.

    python benchmarks/attention_kernels.py --data DATA [--lengths 128,512]
        [--heads 12] [--tokens 131072] [--shapes FILE.json] [--out FILE.json]

The lengths of the sequences are those of real sentence pairs. Each of our
three kernels is timed by itself with its own tile shape, and with those of
FILE, which names lists of shapes by kernel:

    {"FORWARD": [{"ROWS": 64, "COLUMNS": 128, "num_warps": 4, "num_stages": 2}]}

so a shape for another GPU is found in a minute. Every shape must give the
numbers of the first. The peer is PyTorch's kernel for sequences of any length
(`varlen_attn`), forwards and back.
"""

import argparse
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn.attention.varlen import varlen_attn

import report
from bert_from_scratch.data.steps import Position
from bert_from_scratch.kernels import attention
from bert_from_scratch.kernels.products import time_on_gpu
from pretrain_throughput import SEED, build

WIDTH = 64
# 哪组分块归哪个内核
KERNELS = {
    "FORWARD": "forward",
    "QUERIES": "backward_queries",
    "KEYS": "backward_keys",
}
# 半精度的结果，换一种分块只差舍入
TOLERANCE = 1e-2
REPEATS, WARM_UPS = 20, 3


def main() -> None:
    """Times every kernel at every length and writes one table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--lengths", default="128,512")
    parser.add_argument("--heads", type=int, default=12)
    parser.add_argument("--tokens", type=int, default=131072)
    parser.add_argument("--shapes", type=Path, help="more tile shapes to try")
    parser.add_argument(
        "--out", type=Path, default=Path("build/attention_kernels.json")
    )
    arguments = parser.parse_args()
    if not torch.cuda.is_available():
        sys.exit("error: the kernels are timed on a GPU, and here is none")
    extra = json.loads(arguments.shapes.read_text()) if arguments.shapes else {}
    rows: list[dict[str, Any]] = []
    for length in map(int, arguments.lengths.split(",")):
        starts = real_starts(arguments.data, length, arguments.tokens)
        for row in measure(starts, length, arguments.heads, extra):
            rows.append({"length": length, **row})
            print(rows[-1], flush=True)
        report.write(arguments.out, report.describe_run(SEED), rows)


def real_starts(data_dir: Path, length: int, num_tokens: int) -> Tensor:
    """Returns where the pairs of one real batch start, int32 [B + 1]."""
    assembly = build(
        data_dir, "tiny", length, batch_tokens=num_tokens, device="cuda"
    )
    data = assembly.data.data[0]
    step = next(data.steps(Position(cursor=data.num_steps(0) // 2)))
    starts = step.micro_batches[0].cu_seqlens
    assert starts is not None
    return starts.to("cuda")


def measure(
    starts: Tensor, length: int, num_heads: int, extra: dict[str, Any]
) -> Iterator[dict[str, Any]]:
    """Yields a row for every kernel and shape, and for the peer."""
    torch.manual_seed(SEED)
    num_tokens = int(starts[-1])
    shape = (num_tokens, 3, num_heads, WIDTH)
    qkv = torch.randn(shape, device=starts.device, dtype=torch.bfloat16)
    grad = torch.randn_like(qkv[:, 0])
    expected = run_both(qkv, grad, starts, length)
    yield from measure_peer(qkv, grad, starts, length)
    for kernel in KERNELS:
        own = dict(getattr(attention, kernel))
        for one in (own, *extra.get(kernel, ())):
            setattr(attention, kernel, one)
            found = measure_shape(kernel, qkv, grad, starts, length, expected)
            yield make_row(kernel, shape=one, **found)
        setattr(attention, kernel, own)


def run_both(
    qkv: Tensor, grad: Tensor, starts: Tensor, length: int
) -> tuple[Tensor, Tensor]:
    """Returns what our kernels give, forwards and back."""
    leaf = qkv.detach().requires_grad_()
    mixed = attention.attend(leaf, qkv.new_zeros(1), starts, length)
    (found,) = torch.autograd.grad(mixed, leaf, grad)
    return mixed.detach(), found


def measure_shape(
    kernel: str,
    qkv: Tensor,
    grad: Tensor,
    starts: Tensor,
    length: int,
    expected: tuple[Tensor, Tensor],
) -> dict[str, Any]:
    """Times one kernel in the shape that is set, if it can be built."""
    try:
        found = run_both(qkv, grad, starts, length)
    except Exception as error:
        # 寄存器或共享内存不够的形状，记下来，接着试别的
        return {"error": f"{type(error).__name__}: {error}"[:120]}
    distance = max(
        float((x.float() - y.float()).norm() / y.float().norm())
        for x, y in zip(found, expected, strict=True)
    )
    milliseconds = time_kernel(
        lambda: run_both(qkv, grad, starts, length), KERNELS[kernel]
    )
    return {"milliseconds": milliseconds, "distance": distance}


def time_kernel(run: Callable[[], object], name: str, repeats: int = 20) -> Any:
    """Returns the median time of a kernel by its name, in milliseconds."""
    activities = [torch.profiler.ProfilerActivity.CUDA]
    with torch.profiler.profile(activities=activities) as found:
        for _ in range(repeats):
            run()
        torch.cuda.synchronize()
    times = sorted(
        event.device_time_total / 1000
        for event in found.events()
        if event.name == name
    )
    return times[len(times) // 2] if times else None


def measure_peer(
    qkv: Tensor, grad: Tensor, starts: Tensor, length: int
) -> Iterator[dict[str, Any]]:
    """Yields PyTorch's kernel, forwards and back, beside all of ours."""
    leaf = qkv.detach().requires_grad_()

    def peer() -> None:
        q, k, v = leaf.unbind(1)
        mixed = varlen_attn(q, k, v, starts, starts, length, length)
        assert isinstance(mixed, Tensor)
        torch.autograd.grad(mixed, leaf, grad)

    ours = time_on_gpu(
        lambda: run_both(qkv, grad, starts, length), REPEATS, WARM_UPS
    )
    theirs = time_on_gpu(peer, REPEATS, WARM_UPS)
    yield make_row("all of ours", ours, ratio=1.0)
    yield make_row("varlen_attn", theirs, ratio=theirs / ours)


def make_row(
    what: str,
    milliseconds: float | None = None,
    *,
    ratio: float | None = None,
    shape: dict[str, int] | None = None,
    distance: float | None = None,
    error: str = "",
) -> dict[str, Any]:
    """Makes one row of the table."""
    return {
        "what": what,
        "ms": milliseconds,
        "over ours": ratio,
        "right": None if distance is None else distance < TOLERANCE,
        "shape or error": error or json.dumps(shape) if shape else error,
    }


if __name__ == "__main__":
    report.run(main)
