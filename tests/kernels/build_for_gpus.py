"""Compiles every Triton kernel for a GPU that is not there.

    python build_for_gpus.py CAPABILITY [fp8]

The interpreter, in which the kernels are tested, accepts programs that the
compiler does not. Here the functions that launch kernels are called with
tensors on a CPU; each launch ends when its code is assembled.
"""

import sys
from types import SimpleNamespace
from typing import Any

import torch
import triton
from torch import Tensor
from triton.backends.compiler import GPUTarget
from triton.runtime.driver import driver
from triton.runtime.jit import JITFunction

names: set[str] = set()


def pretend(capability: int) -> None:
    """Lets Triton compile for a GPU, and launch nothing."""
    target = GPUTarget("cuda", capability, 32)
    device: Any = SimpleNamespace(
        get_current_target=lambda: target,
        get_current_device=lambda: 0,
        get_current_stream=lambda _: 0,
    )
    driver.set_active(device)
    compile_only = JITFunction.run

    def run(self: Any, *args: Any, **options: Any) -> None:
        names.add(f"{self.__module__.rpartition('.')[2]}.{self.__name__}")
        compile_only(self, *args, **{**options, "warmup": True})

    JITFunction.run = run


def make(*shape: int, dtype: torch.dtype = torch.bfloat16) -> Tensor:
    return torch.zeros(shape, dtype=dtype)


def build_attention(width: int, length: int, dropout: float) -> None:
    from bert_from_scratch.kernels.attention import attend, attend_from

    qkv = make(40, 3, 2, width).requires_grad_()
    bias = make(6 * width, dtype=torch.float32)
    starts = torch.tensor([0, 40], dtype=torch.int32)
    attend(qkv, bias, starts, length, dropout).sum().backward()
    queries, kv = make(8, 2, width).requires_grad_(), make(40, 2, 2, width)
    parts = (starts, starts, length, dropout)
    attend_from(queries, kv, bias, *parts).sum().backward()


def build_halves(width: int, dropout: float) -> None:
    from bert_from_scratch.kernels.add_norm import add_norm
    from bert_from_scratch.kernels.attention_sublayer import attention_sublayer
    from bert_from_scratch.kernels.feed_forward_sublayer import (
        feed_forward_sublayer,
    )

    def affine(*shape: int) -> tuple[Tensor, Tensor]:
        weight = make(*shape, dtype=torch.float32).requires_grad_()
        return weight, make(shape[0], dtype=torch.float32)

    x = make(40, width).requires_grad_()
    starts = torch.tensor([0, 40], dtype=torch.int32)
    norm = affine(width)
    y = attention_sublayer(
        x,
        affine(3 * width, width),
        affine(width, width),
        norm,
        starts,
        128,
        width // 64,
        1e-12,
        dropout,
        dropout,
    )
    inner = 4 * width
    feed_forward_sublayer(
        *(y, affine(inner, width), affine(width, inner), norm, 1e-12, dropout)
    ).sum().backward()
    add_norm(x.detach(), x.detach(), *norm, 1e-12)


def build_loss() -> None:
    from bert_from_scratch.kernels.cross_entropy import cross_entropy

    logits = make(13, 30528).requires_grad_()
    labels = torch.zeros(13, dtype=torch.long)
    cross_entropy(logits, labels, 30522)[0].backward()


def build_fp8() -> None:
    from bert_from_scratch.kernels import fp8_rows

    for width in (768, 3072, 4096):
        fp8_rows.quantise(make(40, width))
        fp8_rows.gelu(make(40, width))
        fp8_rows.gelu_backward(make(40, width), make(40, width))


def main() -> None:
    pretend(int(sys.argv[1]))
    for dropout in (0.0, 0.1):
        for width, length in ((64, 512), (64, 128), (32, 128)):
            build_attention(width, length, dropout)
        for width in (768, 1024, 320):
            build_halves(width, dropout)
    build_loss()
    if "fp8" in sys.argv:
        build_fp8()
    print(triton.__version__, len(names), *sorted(names))


if __name__ == "__main__":
    main()
