"""The kernels that make fp8 rows, against plain functions."""

from functools import partial
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from bert_from_scratch.kernels import (
    FP8_LARGEST,
    FP8_SMALLEST_SCALE,
    FP8_TYPE,
    fp8,
)

from .conftest import DEVICE, DTYPE, TOLERANCE
from .test_attention import distance

# 窄的行几行一个程序，宽的一行一个；都有凑不满的
SHAPES = [(7, 48), (130, 16), (3, 2304), (2, 3072), (1, 5000)]


@pytest.fixture
def room(monkeypatch: pytest.MonkeyPatch) -> Any:
    if DEVICE == "cpu":
        from triton.runtime import interpreter

        # 解释器把 127.9 舍入成 64：进位没有进到指数里；换成 PyTorch 的舍入
        others = interpreter._convert_float
        monkeypatch.setattr(
            interpreter, "_convert_float", partial(round_to_fp8, others)
        )
    elif not fp8.exists(torch.device(DEVICE)):
        pytest.skip("this GPU has no fp8")
    from bert_from_scratch.kernels import fp8_rows

    return fp8_rows


def round_to_fp8(
    others: Any, values: Any, source: Any, target: Any, mode: Any
) -> Any:
    if str(target) != "fp8e4nv":
        return others(values, source, target, mode)
    numbers = torch.from_numpy(values).float()
    return numbers.to(FP8_TYPE).view(torch.uint8).numpy()


def make(shape: tuple[int, ...]) -> Tensor:
    torch.manual_seed(0)
    x = torch.randn(shape) * torch.logspace(-3, 3, shape[0])[:, None]
    if shape[0] > 1:
        x[1] = 0
    return x.to(DEVICE, DTYPE)


def plainly(x: Tensor) -> fp8.Rows:
    """Does what `fp8.quantise` does without a kernel."""
    scale = x.abs().amax(1, keepdim=True).float() / FP8_LARGEST
    scale = scale.clamp(min=FP8_SMALLEST_SCALE)
    return (x.float() * (1 / scale)).to(FP8_TYPE), scale


def check_rows(found: Any, x: Tensor) -> None:
    """Rows are those of x; next to a tie, rounding may go either way."""
    (rows, scales), (expected, expected_scales) = found, plainly(x)
    assert rows.shape == x.shape
    assert rows.dtype == FP8_TYPE
    torch.testing.assert_close(scales, expected_scales, rtol=1e-6, atol=0)
    steps = rows.view(torch.uint8).int() - expected.view(torch.uint8).int()
    assert steps.abs().max() <= 1
    assert (steps != 0).float().mean() < 0.01


@pytest.mark.parametrize("shape", SHAPES)
def test_rows_in_fp8_are_those_of_pytorch(
    room: Any, shape: tuple[int, ...]
) -> None:
    x = make(shape)
    check_rows(room.quantise(x), x)


@pytest.mark.parametrize("shape", SHAPES)
def test_gelu_and_its_rows_are_those_of_pytorch(
    room: Any, shape: tuple[int, ...]
) -> None:
    x = make(shape)
    out, *rows = room.gelu(x)
    assert out.dtype == DTYPE
    assert distance(out, F.gelu(x.double())) < TOLERANCE
    check_rows(rows, out)


@pytest.mark.parametrize("shape", SHAPES)
def test_gradients_before_gelu_are_those_of_pytorch(
    room: Any, shape: tuple[int, ...]
) -> None:
    x = make(shape)
    grad = torch.randn(shape).to(DEVICE, DTYPE)
    exact = x.double().requires_grad_()
    (expected,) = torch.autograd.grad(F.gelu(exact), exact, grad.double())
    dx, *rows, sums = room.gelu_backward(grad, x)
    assert distance(dx, expected) < TOLERANCE
    check_rows(rows, dx)
    assert distance(sums.sum(0), expected.sum(0)) < TOLERANCE


def test_no_rows_at_all_are_no_trouble(room: Any) -> None:
    x = torch.empty(0, 32, device=DEVICE, dtype=DTYPE)
    found = [*room.quantise(x), *room.gelu(x), *room.gelu_backward(x, x)]
    rows, scales, half = (0, 32), (0, 1), (0, 32)
    assert [tuple(part.shape) for part in found] == [
        *(rows, scales),
        *(half, rows, scales),
        *(half, rows, scales, (0, 32)),
    ]


def test_a_layer_is_the_same_with_the_kernels_and_without(
    room: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch.manual_seed(0)
    shapes = (24, 32), (64, 32), (64,), (32, 64), (32,)
    leaves = [torch.randn(s).to(DEVICE, torch.bfloat16) for s in shapes]
    leaves = [leaf.requires_grad_() for leaf in leaves]
    grad = torch.randn(24, 32).to(DEVICE, torch.bfloat16)
    results = []
    for has_kernels in (False, True):
        monkeypatch.setattr(fp8, "fp8_rows", room, raising=False)
        monkeypatch.setattr(fp8, "usable", lambda _, yes=has_kernels: yes)
        out = fp8.feed_forward(*leaves)
        results.append([out, *torch.autograd.grad(out, leaves, grad)])
    for plain, found in zip(*results, strict=True):
        assert distance(found, plain) < 0.03
    # 里面那层的偏置：两边都是把同样的数加起来
    assert distance(results[1][3], results[0][3]) < 0.01
