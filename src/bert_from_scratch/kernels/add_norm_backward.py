"""The way back of a sum and its LayerNorm, all gradients in one pass.

It reads what came in once more instead of keeping anything else, and sums up
the gradients of three vectors while it has the rows at hand.

Letters: T tokens, H width of a hidden state.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from bert_from_scratch.kernels.dropout import kept_share, read_key

# 768 分三段、1024 分两段，正好分完；一个线程束一次看 256 个数
MOST_PARTS = 3
NUMBERS_A_WARP = 256
MOST_WARPS = 32
NUM_STAGES = 4
# 程序少一些，各自累加的行就多一些，要写出的部分和也少；又要够把处理器占满
MOST_PROGRAMS = 1024
LEAST_ROWS = 16
NUM_SUMS = 3


@triton.jit
def _read(
    first, places, column, WIDTH: tl.constexpr, part: tl.constexpr,
    COLUMNS: tl.constexpr,
):  # fmt: skip
    """Reads a part of a row, float32; zeros beyond the width."""
    if (part + 1) * COLUMNS <= WIDTH:
        return tl.load(first + places).to(tl.float32)
    mask = column < WIDTH
    return tl.load(first + places, mask=mask, other=0.0).to(tl.float32)


@triton.jit
def _read_vectors(vector, columns, WIDTH: tl.constexpr, PARTS: tl.constexpr):
    """Reads a vector in parts, float32."""
    parts = ()
    for part in tl.static_range(PARTS):
        column = part * columns.shape[0] + columns
        read = tl.load(vector + column, mask=column < WIDTH, other=0.0)
        parts = parts + (read.to(tl.float32),)
    return parts


@triton.jit
def _write_sums(
    sums, totals, columns, WIDTH: tl.constexpr, PARTS: tl.constexpr
):
    """Writes three vectors of sums, each in parts."""
    for part in tl.static_range(PARTS):
        column = part * columns.shape[0] + columns
        for which in tl.static_range(3):
            place = sums + which * WIDTH + column
            tl.store(place, totals[3 * part + which], mask=column < WIDTH)


# 一行分成几段，各段都留在寄存器里：每个线程每段正好八个数，一次读写 16 字节；
# 宽度是编译时的常数，正好分完的段不必有掩码
@triton.jit(do_not_specialize=["num_rows", "num_rows_each"])
def _add_norm_backward_kernel(
    grad, x, change, change_bias, weight, of_sum, of_change, sums, seed,
    num_rows, num_rows_each, eps, dropout,
    WIDTH: tl.constexpr, COLUMNS: tl.constexpr, PARTS: tl.constexpr,
    DROPS: tl.constexpr, NUM_STAGES: tl.constexpr,
):  # fmt: skip
    columns = tl.arange(0, COLUMNS)
    first = tl.program_id(0) * num_rows_each
    start = first.to(tl.int64) * WIDTH
    grad, x, change = grad + start, x + start, change + start
    of_sum, of_change = of_sum + start, of_change + start
    # 循环里不变的都先读好：流水会把循环里的每次读都改成经共享内存的拷贝
    scales = _read_vectors(weight, columns, WIDTH, PARTS)
    shifts = _read_vectors(change_bias, columns, WIDTH, PARTS)
    totals = ()
    for _ in tl.static_range(3 * PARTS):
        totals = totals + (tl.zeros((COLUMNS,), tl.float32),)
    key = read_key(seed, DROPS)
    # 流水几级：算这一行时，后面的已经在路上
    num_here = tl.minimum(num_rows_each, num_rows - first)
    for row in tl.range(num_here, num_stages=NUM_STAGES):
        values, products, grads, shares = (), (), (), ()
        sum_value = tl.zeros((COLUMNS,), tl.float32)
        sum_product = tl.zeros((COLUMNS,), tl.float32)
        for part in tl.static_range(PARTS):
            column = part * COLUMNS + columns
            places = row * WIDTH + column
            value = _read(change, places, column, WIDTH, part, COLUMNS)
            value += shifts[part]
            if DROPS:
                line = first + row
                # 散列的位置只给行 16 位：行号拆成两半
                kept = kept_share(
                    key, line >> 16, (line & 65535)[None], column, dropout
                )
                kept = tl.reshape(kept, column.shape)
                value *= kept
                shares = shares + (kept,)
            value += _read(x, places, column, WIDTH, part, COLUMNS)
            g = _read(grad, places, column, WIDTH, part, COLUMNS)
            product = g * scales[part]
            sum_value += value
            sum_product += product
            values, grads = values + (value,), grads + (g,)
            products = products + (product,)
        mean = tl.sum(sum_value, 0) / WIDTH
        level = tl.sum(sum_product, 0) / WIDTH
        sum_value = tl.zeros((COLUMNS,), tl.float32)
        sum_product = tl.zeros((COLUMNS,), tl.float32)
        centred = ()
        for part in tl.static_range(PARTS):
            value = values[part] - mean
            if (part + 1) * COLUMNS > WIDTH:
                value = tl.where(part * COLUMNS + columns < WIDTH, value, 0.0)
            sum_value += value * value
            sum_product += products[part] * value
            centred = centred + (value,)
        inverse = tl.rsqrt(tl.sum(sum_value, 0) / WIDTH + eps)
        # 归一化抹去了均值与尺度：梯度里沿这两个方向的部分也要去掉
        level *= inverse
        along = tl.sum(sum_product, 0) / WIDTH * inverse * inverse
        new_totals = ()
        for part in tl.static_range(PARTS):
            column = part * COLUMNS + columns
            places, mask = row * WIDTH + column, column < WIDTH
            standard, g = centred[part] * inverse, grads[part]
            d = products[part] * inverse - level - standard * along
            tl.store(of_sum + places, d.to(of_sum.dtype.element_ty), mask=mask)
            if DROPS:
                d *= shares[part]
                kept = d.to(of_change.dtype.element_ty)
                tl.store(of_change + places, kept, mask=mask)
            # 宽度以外的列也算了，但从不写出
            new_totals = new_totals + (
                totals[3 * part] + g * standard,
                totals[3 * part + 1] + g,
                totals[3 * part + 2] + d,
            )
        totals = new_totals
    # 先各自求和写出，再由一次小的求和收尾：结果与次序无关，不用原子加法
    sums += tl.program_id(0) * (3 * WIDTH)
    _write_sums(sums, totals, columns, WIDTH, PARTS)


def add_norm_backward(
    grad: Tensor,
    x: Tensor,
    change: Tensor,
    change_bias: Tensor,
    weight: Tensor,
    eps: float,
    dropout: float = 0.0,
    seed: Tensor | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Computes the gradients of what `add_norm` was given.

    Args:
        grad: Of its result, half precision [T, H], contiguous.
        x: As there, [T, H], contiguous.
        change: As there, the same.
        change_bias: As there, [H].
        weight: As there, [H].
        eps: As there.
        dropout: As there.
        seed: As there.

    Returns:
        The gradient of `x`, [T, H]; that of `change`, [T, H], the same tensor
        where nothing was left out; those of weight, bias and `change_bias`,
        float32 [3, H].
    """
    of_sum = torch.empty_like(x)
    of_change = torch.empty_like(x) if dropout else of_sum
    num_rows, width = x.shape
    columns = triton.next_power_of_2(triton.cdiv(width, MOST_PARTS))
    columns = max(columns, NUMBERS_A_WARP)
    num_rows_each = max(triton.cdiv(num_rows, MOST_PROGRAMS), LEAST_ROWS)
    num_programs = triton.cdiv(num_rows, num_rows_each)
    sums = x.new_empty((num_programs, NUM_SUMS, width), dtype=torch.float32)
    _add_norm_backward_kernel[(num_programs,)](
        *(grad, x, change, change_bias, weight, of_sum, of_change, sums),
        *(x if seed is None else seed, num_rows, num_rows_each, eps, dropout),
        WIDTH=width,
        COLUMNS=columns,
        PARTS=triton.cdiv(width, columns),
        DROPS=dropout > 0,
        NUM_STAGES=NUM_STAGES,
        num_warps=min(columns // NUMBERS_A_WARP, MOST_WARPS),
    )
    return of_sum, of_change, sums.sum(0)
