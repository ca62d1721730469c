"""Code compiled for any length serves all lengths."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch._dynamo.testing import CompileCounterWithBackend

from .conftest import DEVICE, DTYPE

# 第一个长度编译成定长的，第二个编译成任意长的，之后不该再编译
MOST_COMPILATIONS = 2
LENGTHS = range(20, 60, 4)


def make_ops() -> dict[str, Callable[[Tensor], Any]]:
    from bert_from_scratch.kernels import fp8_rows
    from bert_from_scratch.kernels.activation import gelu
    from bert_from_scratch.kernels.attention import attend
    from bert_from_scratch.kernels.cross_entropy import cross_entropy

    bias = torch.zeros(48, device=DEVICE, dtype=DTYPE)
    starts = torch.tensor([0, 20], dtype=torch.int32, device=DEVICE)

    def attend_in_one(x: Tensor) -> Tensor:
        return attend(x.view(-1, 3, 1, 16), bias, starts, 64)

    def lose(x: Tensor) -> Tensor:
        labels = torch.zeros_like(x[:, 0], dtype=torch.long)
        return cross_entropy(x, labels, 48)[0]

    return {
        "attend": attend_in_one,
        "gelu": lambda x: gelu(x, bias),
        "cross_entropy": lose,
        "quantise": lambda x: fp8_rows.quantise(x)[1],
        "gelu_fp8": lambda x: fp8_rows.gelu(x)[0],
        "gelu_fp8_backward": lambda x: fp8_rows.gelu_backward(x, x)[0],
    }


@pytest.mark.parametrize(
    "name",
    [
        "attend",
        "gelu",
        "cross_entropy",
        "quantise",
        "gelu_fp8",
        "gelu_fp8_backward",
    ],
)
def test_another_length_is_not_compiled_anew(name: str) -> None:
    torch.compiler.reset()
    counter: Any = CompileCounterWithBackend("aot_eager")
    op = torch.compile(make_ops()[name], backend=counter, dynamic=True)
    for length in LENGTHS:
        x = torch.randn(length, 48).to(DEVICE, DTYPE)
        op(x)
    assert 1 <= counter.frame_count <= MOST_COMPILATIONS
