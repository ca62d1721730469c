"""Rows in fp8, each with a scale of its own; GELU that makes such rows.

Letters: T tokens, K width of a row, F width inside the feed-forward layers.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from bert_from_scratch import kernels
from bert_from_scratch.kernels import FP8_TYPE
from bert_from_scratch.kernels.activation import _bell_and_cdf, _slope

LARGEST = tl.constexpr(kernels.FP8_LARGEST)
SMALLEST_SCALE = tl.constexpr(kernels.FP8_SMALLEST_SCALE)
# 一个程序一次看这么多数；窄的行几行一起
NUMBERS_A_PROGRAM = 4096
LONGEST_PART = 1024
NUMBERS_A_WARP = 256
ROWS_A_PROGRAM = 64


@triton.jit
def _quantise_kernel(
    x, out, scales, num_rows, width,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    columns = tl.arange(0, COLUMNS)
    is_row = rows < num_rows
    mask = is_row[:, None] & (columns < width)[None, :]
    places = rows.to(tl.int64)[:, None] * width + columns[None, :]
    values = tl.load(x + places, mask=mask, other=0.0).to(tl.float32)
    scale = tl.max(tl.abs(values), 1) / LARGEST
    scale = tl.maximum(scale, SMALLEST_SCALE)
    tl.store(scales + rows, scale, mask=is_row)
    values = (values * (1 / scale)[:, None]).to(tl.float8e4nv)
    tl.store(out + places, values, mask=mask)


# 一行分成几段，各段都留在寄存器里，直到整行的最大值知道为止。每个线程八个数：
# 半精度与 fp8 的读写就用同一种分布，编译器不必算两遍


@triton.jit
def _gelu_kernel(
    x, out, rows8, scales, width,
    COLUMNS: tl.constexpr, PARTS: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0)
    columns = tl.arange(0, COLUMNS)
    start = row.to(tl.int64) * width
    x, out, rows8 = x + start, out + start, rows8 + start
    highest, values = tl.zeros((COLUMNS,), tl.float32), ()
    for part in tl.static_range(PARTS):
        places = part * COLUMNS + columns
        mask = places < width
        value = tl.load(x + places, mask=mask, other=0.0).to(tl.float32)
        _, cdf = _bell_and_cdf(value)
        # fp8 由舍入过的半精度而来：前向与权重的梯度看到的是同一个数
        value = (value * cdf).to(out.dtype.element_ty)
        tl.store(out + places, value, mask=mask)
        value = value.to(tl.float32)
        highest = tl.maximum(highest, tl.abs(value))
        values = values + (value,)
    _write_row(values, highest, rows8, scales + row, width, COLUMNS, PARTS)


@triton.jit
def _write_row(
    values, highest, rows8, scale_place, width,
    COLUMNS: tl.constexpr, PARTS: tl.constexpr,
):  # fmt: skip
    """Writes a row in fp8, and what to multiply it by."""
    scale = tl.maximum(tl.max(highest, 0) / LARGEST, SMALLEST_SCALE)
    tl.store(scale_place, scale)
    factor = 1 / scale
    for part in tl.static_range(PARTS):
        places = part * COLUMNS + tl.arange(0, COLUMNS)
        value = (values[part] * factor).to(tl.float8e4nv)
        tl.store(rows8 + places, value, mask=places < width)


@triton.jit
def _gelu_backward_kernel(
    x, grad, dx, rows8, scales, sums, num_rows, width,
    COLUMNS: tl.constexpr, PARTS: tl.constexpr, NUM_ROWS: tl.constexpr,
):  # fmt: skip
    columns = tl.arange(0, COLUMNS)
    first = tl.program_id(0) * NUM_ROWS
    start = first.to(tl.int64) * width
    x, grad, dx = x + start, grad + start, dx + start
    rows8, scales = rows8 + start, scales + first
    totals = ()
    for _ in tl.static_range(PARTS):
        totals = totals + (tl.zeros((COLUMNS,), tl.float32),)
    # 流水三级：算这一行时，后两行已经在路上
    for row in tl.range(tl.minimum(NUM_ROWS, num_rows - first), num_stages=3):
        highest = tl.zeros((COLUMNS,), tl.float32)
        values, new_totals = (), ()
        for part in tl.static_range(PARTS):
            places = row * width + part * COLUMNS + columns
            mask = part * COLUMNS + columns < width
            value = tl.load(x + places, mask=mask, other=0.0).to(tl.float32)
            g = tl.load(grad + places, mask=mask, other=0.0).to(tl.float32)
            g *= _slope(value)
            new_totals = new_totals + (totals[part] + g,)
            g = g.to(dx.dtype.element_ty)
            tl.store(dx + places, g, mask=mask)
            g = g.to(tl.float32)
            highest = tl.maximum(highest, tl.abs(g))
            values = values + (g,)
        totals = new_totals
        place = rows8 + row * width
        _write_row(values, highest, place, scales + row, width, COLUMNS, PARTS)
    # 先各自求和写出，再由一次小的求和收尾：结果与次序无关，不用原子加法
    sums += tl.program_id(0) * width
    for part in tl.static_range(PARTS):
        places = part * COLUMNS + columns
        tl.store(sums + places, totals[part], mask=places < width)


def _lay_out(width: int) -> dict[str, int]:
    """Returns how a row is divided among parts and threads."""
    columns = min(triton.next_power_of_2(width), LONGEST_PART)
    return {
        "COLUMNS": columns,
        "PARTS": triton.cdiv(width, columns),
        "num_warps": max(columns // NUMBERS_A_WARP, 1),
    }


def _make_room(x: Tensor) -> tuple[Tensor, Tensor]:
    """Returns room for rows in fp8, and for their scales."""
    scales = x.new_empty((x.shape[0], 1), dtype=torch.float32)
    return torch.empty_like(x, dtype=FP8_TYPE), scales


@torch.library.custom_op("bert::quantise", mutates_args=())
def quantise(x: Tensor) -> tuple[Tensor, Tensor]:
    """Returns rows in fp8, [T, K], and what to multiply each by, [T, 1].

    Args:
        x: Half precision [T, K], contiguous.
    """
    out, scales = _make_room(x)
    num_rows, width = x.shape
    columns = triton.next_power_of_2(width)
    rows = max(NUMBERS_A_PROGRAM // columns, 1)
    if num_rows:
        _quantise_kernel[(triton.cdiv(num_rows, rows),)](
            *(x, out, scales, num_rows, width),
            ROWS=rows,
            COLUMNS=columns,
            num_warps=4 if columns < NUMBERS_A_PROGRAM else 8,
        )
    return out, scales


@quantise.register_fake
def _(x: Tensor) -> tuple[Tensor, Tensor]:
    return _make_room(x)


@torch.library.custom_op("bert::gelu_fp8", mutates_args=())
def gelu(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Applies GELU (the erf form); returns it as it is and as fp8 rows.

    Args:
        x: Half precision [T, F], contiguous.
    """
    out = torch.empty_like(x)
    rows8, scales = _make_room(x)
    num_rows, width = x.shape
    if num_rows:
        _gelu_kernel[(num_rows,)](
            *(x, out, rows8, scales, width), **_lay_out(width)
        )
    return out, rows8, scales


@gelu.register_fake
def _(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    return torch.empty_like(x), *_make_room(x)


@torch.library.custom_op("bert::gelu_fp8_backward", mutates_args=())
def gelu_backward(
    grad: Tensor, x: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Returns the gradient of `x`, also as fp8 rows, and sums of its rows.

    Args:
        grad: Of GELU's result, half precision [T, F], contiguous.
        x: What GELU was applied to, the same.

    Returns:
        The gradient, its rows in fp8, their scales, and sums of some rows
        each, float32; all of them together sum up to the bias's gradient.
    """
    dx = torch.empty_like(x)
    rows8, scales = _make_room(x)
    num_rows, width = x.shape
    num_programs = triton.cdiv(num_rows, ROWS_A_PROGRAM)
    sums = x.new_empty((num_programs, width), dtype=torch.float32)
    if num_rows:
        _gelu_backward_kernel[(num_programs,)](
            *(x, grad, dx, rows8, scales, sums, num_rows, width),
            NUM_ROWS=ROWS_A_PROGRAM,
            **_lay_out(width),
        )
    return dx, rows8, scales, sums


@gelu_backward.register_fake
def _(grad: Tensor, x: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    size = (triton.cdiv(x.shape[0], ROWS_A_PROGRAM), x.shape[1])
    sums = x.new_empty(size, dtype=torch.float32)
    return torch.empty_like(x), *_make_room(x), sums
