"""A bias and GELU in one pass; the way back sums up the bias's gradient.

Letters: T tokens, F width inside the feed-forward layers.
"""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

# 分块由 H200 上的测量选定
FORWARD = {"ROWS": 16, "COLUMNS": 512, "num_warps": 8}
COLUMNS = 128
ROWS = 16
ROWS_A_PROGRAM = 128


def gelu(x: Tensor, bias: Tensor) -> Tensor:
    """Computes GELU(x + bias) (the erf form).

    Args:
        x: Half precision [..., F], contiguous.
        bias: [F]. Added here, it costs nothing: the product before is faster
            without, and its gradient is found on the way back.
    """
    return gelu_forward(x.flatten(0, -2), bias).view(x.shape)


@triton.jit
def _bell_and_cdf(x):
    """Returns exp(-x^2 / 2) and the normal distribution up to x."""
    # Abramowitz 与 Stegun 7.1.26：误差 1.5e-7，远小于半精度的舍入；
    # 指数部分恰好也是导数要用的，一次算出两样
    bell = tl.exp2(x * x * -0.7213475204444817)
    # 倒数平方根再平方：一条指令加一次乘法，比除法短
    root = tl.rsqrt(1 + 0.2316418882 * tl.abs(x))
    t = root * root
    tail = 1.061405429 * t - 1.453152027
    tail = tail * t + 1.421413741
    tail = tail * t - 0.284496736
    tail = (tail * t + 0.254829592) * t * bell * 0.5
    return bell, tl.where(x < 0, tail, 1 - tail)


@triton.jit
def _slope(x):
    """Returns the derivative of GELU."""
    bell, cdf = _bell_and_cdf(x)
    return cdf + x * bell * 0.3989422804014327


@triton.jit
def _gelu_kernel(
    x, bias, out, num_rows, width,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    columns = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    first = tl.program_id(1) * ROWS
    start = first.to(tl.int64) * width
    x, out = x + start, out + start
    rows = tl.arange(0, ROWS)
    places = rows[:, None] * width + columns[None, :]
    mask = (first + rows < num_rows)[:, None] & (columns < width)[None, :]
    shift = tl.load(bias + columns, mask=columns < width, other=0.0)
    value = tl.load(x + places, mask=mask, other=0.0).to(tl.float32)
    value += shift.to(tl.float32)[None, :]
    _, cdf = _bell_and_cdf(value)
    tl.store(out + places, (value * cdf).to(out.dtype.element_ty), mask=mask)


@triton.jit
def _gelu_backward_kernel(
    x, bias, grad, dx, sums, num_rows, width,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr, NUM_BLOCKS: tl.constexpr,
):  # fmt: skip
    columns = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    first = tl.program_id(1) * (ROWS * NUM_BLOCKS)
    start = first.to(tl.int64) * width
    x, grad, dx = x + start, grad + start, dx + start
    shift = tl.load(bias + columns, mask=columns < width, other=0.0)
    shift = shift.to(tl.float32)[None, :]
    total = tl.zeros((ROWS, COLUMNS), tl.float32)
    # 流水三级：算这一块时，后两块已经在路上
    for block in tl.range(NUM_BLOCKS, num_stages=3):
        rows = block * ROWS + tl.arange(0, ROWS)
        places = rows[:, None] * width + columns[None, :]
        mask = (first + rows < num_rows)[:, None] & (columns < width)[None, :]
        value = tl.load(x + places, mask=mask, other=0.0).to(tl.float32)
        g = tl.load(grad + places, mask=mask, other=0.0).to(tl.float32)
        g *= _slope(value + shift)
        tl.store(dx + places, g.to(dx.dtype.element_ty), mask=mask)
        total += g
    # 先各自求和写出，再由一次小的求和收尾：结果与次序无关，不用原子加法
    place = tl.program_id(1) * width + columns
    tl.store(sums + place, tl.sum(total, 0), mask=columns < width)


@torch.library.custom_op("bert::gelu", mutates_args=())
def gelu_forward(x: Tensor, bias: Tensor) -> Tensor:
    """Computes GELU(x + bias) of [T, F] and [F]."""
    num_rows, width = x.shape
    out = torch.empty_like(x)
    columns, rows = FORWARD["COLUMNS"], FORWARD["ROWS"]
    grid = (triton.cdiv(width, columns), triton.cdiv(num_rows, rows))
    _gelu_kernel[grid](x, bias, out, num_rows, width, **FORWARD)
    return out


@gelu_forward.register_fake
def _(x: Tensor, bias: Tensor) -> Tensor:
    return torch.empty_like(x)


@torch.library.custom_op("bert::gelu_backward", mutates_args=())
def gelu_backward(
    grad: Tensor, x: Tensor, bias: Tensor
) -> tuple[Tensor, Tensor]:
    """Returns the gradient of `x`, [T, F], and sums of some of its rows each.

    All of these sums together, float32 [programs, F], make the bias's gradient.
    """
    num_rows, width = x.shape
    dx = torch.empty_like(x)
    num_programs = triton.cdiv(num_rows, ROWS_A_PROGRAM)
    sums = x.new_empty((num_programs, width), dtype=torch.float32)
    _gelu_backward_kernel[(triton.cdiv(width, COLUMNS), num_programs)](
        x,
        bias,
        grad,
        dx,
        sums,
        num_rows,
        width,
        ROWS=ROWS,
        COLUMNS=COLUMNS,
        NUM_BLOCKS=ROWS_A_PROGRAM // ROWS,
        num_warps=4,
    )
    return dx, sums


@gelu_backward.register_fake
def _(grad: Tensor, x: Tensor, bias: Tensor) -> tuple[Tensor, Tensor]:
    # len() 会把符号尺寸定成一个数，长度一变就要重新编译；shape 不会
    size = (triton.cdiv(x.shape[0], ROWS_A_PROGRAM), x.shape[1])
    return torch.empty_like(x), x.new_empty(size, dtype=torch.float32)


def _save(ctx: Any, inputs: tuple[Tensor, Tensor], output: Tensor) -> None:
    ctx.save_for_backward(*inputs)


def _differentiate(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor]:
    x, bias = ctx.saved_tensors
    dx, sums = gelu_backward(grad.contiguous(), x, bias)
    return dx, sums.sum(0).to(bias.dtype)


gelu_forward.register_autograd(_differentiate, setup_context=_save)
