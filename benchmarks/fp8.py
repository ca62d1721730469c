"""Products of the blocks in fp8: what they gain, and what the loss pays.

    python benchmarks/fp8.py --data DATA [--cases base:128,large:512]
        [--steps 200] [--batch-tokens 65536] [--device auto] [--out FILE.json]

The same steps of `bert pretrain` twice, from the same weights, without dropout:
as it is, and with the products of the blocks, forwards and back to their
inputs, in fp8 (`torch._scaled_mm`, one scale a row, found anew every time); so
are the two square layers of the heads. The gradients of weights stay in bf16:
their operands would have to be transposed first. It says something on a GPU
alone: on a CPU training is in float32, and large products stay as they are.
"""

import argparse
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor

import report
from bert_from_scratch import BertConfig
from bert_from_scratch.model.device import choose_device
from pretrain_throughput import SEED, build, clean, measure_ours

FP8 = torch.float8_e4m3fn
LARGEST = torch.finfo(FP8).max
SMALLEST_SCALE = 1e-12
LOSS = "loss, last tenth"
# 词表的乘法太宽，NSP 的太窄：都留着
MIN_WIDTH, MAX_WIDTH = 512, 8192


def main() -> None:
    """Measures every case both ways and writes one table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--cases", default="base:128,base:512,large:512")
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--batch-tokens", type=int, default=65536)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--min-width", type=int, default=MIN_WIDTH)
    parser.add_argument("--out", type=Path, default=Path("build/fp8.json"))
    arguments = parser.parse_args()
    if choose_device(arguments.device).type != "cuda":
        print("warning: on a CPU this says nothing of fp8", file=sys.stderr)
    run = report.describe_run(SEED)
    rows: list[dict[str, Any]] = []
    for case in arguments.cases.split(","):
        preset, length = case.split(":")
        for is_fp8 in (False, True):
            row = train(arguments, preset, int(length), is_fp8)
            plain = rows[-1] if is_fp8 else row
            row["speed / bf16"] = row["real tokens/s"] / plain["real tokens/s"]
            row["loss - bf16"] = row[LOSS] - plain[LOSS]
            print({k: v for k, v in row.items() if k != "curve"}, flush=True)
            rows.append(row)
        report.write(arguments.out, run, rows)


def train(
    arguments: argparse.Namespace, preset: str, length: int, is_fp8: bool
) -> dict[str, Any]:
    """Takes some steps one way."""
    assembly = build(arguments, preset, length, dropout=0.0)
    trainer = assembly.trainer
    config = trainer.model.config
    assert isinstance(config, BertConfig)
    curve: list[float] = []
    way = in_fp8(arguments.min_width) if is_fp8 else nullcontext()
    with way:
        found = measure_ours(
            assembly, arguments.steps, config, length, curve.append
        )
    device = trainer.device
    del assembly, trainer
    clean(device)
    last = curve[-max(len(curve) // 10, 1) :]
    return {
        "preset": preset,
        "length": length,
        "products": "fp8" if is_fp8 else "bf16",
        "real tokens/s": found["real tokens/s"],
        "peak GB": found["peak GB"],
        LOSS: sum(last) / len(last),
        "curve": curve,
    }


@contextmanager
def in_fp8(min_width: int) -> Iterator[None]:
    """Replaces the large products of PyTorch's linear layers."""
    plain: Callable[..., Tensor] = F.linear

    def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
        is_block = min_width <= min(weight.shape) <= max(weight.shape)
        if not is_block or max(weight.shape) > MAX_WIDTH or bias is None:
            return plain(x, weight, bias)
        return multiply_in_fp8(x, weight.to(x.dtype), bias)

    F.linear = linear  # type: ignore[assignment]
    try:
        yield
    finally:
        F.linear = plain


class Product(torch.autograd.Function):
    """x W' + b with operands in fp8, forwards and back to x."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        """Multiplies rows of x, float [T, K], by rows of W, float [N, K]."""
        ctx.save_for_backward(x, weight)
        return multiply(x, weight, bias.to(x.dtype))

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Returns the gradients of x in fp8, of the others as ever."""
        x, weight = ctx.saved_tensors
        (grad,) = grads
        dx = multiply(grad, weight.t().contiguous(), None)
        return dx, grad.t() @ x, grad.sum(0)


multiply_in_fp8 = cast("Callable[..., Tensor]", Product.apply)


def multiply(left: Tensor, right: Tensor, bias: Tensor | None) -> Tensor:
    """Multiplies rows by rows, float [T, K] and [N, K], through fp8."""
    (a, a_scale), (b, b_scale) = quantise(left), quantise(right)
    return torch._scaled_mm(
        a,
        b.t(),
        scale_a=a_scale,
        scale_b=b_scale.t(),
        bias=bias,
        out_dtype=left.dtype,
        use_fast_accum=True,
    )


def quantise(x: Tensor) -> tuple[Tensor, Tensor]:
    """Returns rows in fp8, [T, K], and what to multiply each by, [T, 1]."""
    # 每行一个比例：不必先看遍整个张量，一趟就能算完
    scale = x.abs().amax(1, keepdim=True).float() / LARGEST
    scale = scale.clamp(min=SMALLEST_SCALE)
    # 乘法要求按行存放；梯度来的时候未必是
    return (x.float() / scale).to(FP8).contiguous(), scale


if __name__ == "__main__":
    main()
