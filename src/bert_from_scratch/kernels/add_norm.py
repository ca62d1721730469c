"""A sum and its LayerNorm in one pass.

y = LayerNorm(x + dropout(change + bias)): the last line of both halves of a
block. `add_norm_backward` is the way back.

Letters: T tokens, H width of a hidden state.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from bert_from_scratch.kernels.dropout import kept_share, read_key

# 一个程序一次看这么多数；窄的行几行一起，宽的行多几个线程束
NUMBERS_A_PROGRAM = 2048
NUMBERS_A_WARP = 1024
MOST_WARPS = 32


# 行数每批不同，只用来比较：不为「16 的倍数」与「1」各编译一份
@triton.jit(do_not_specialize=["num_rows"])
def _add_norm_kernel(
    x, change, change_bias, weight, bias, out, seed, num_rows, width, eps,
    dropout,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr, HAS_BIAS: tl.constexpr,
    DROPS: tl.constexpr,
):  # fmt: skip
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    columns = tl.arange(0, COLUMNS)
    is_column = columns < width
    mask = (rows < num_rows)[:, None] & is_column[None, :]
    # 64 位的行首：词数乘宽度可以超过 2^31
    places = rows.to(tl.int64)[:, None] * width + columns[None, :]
    # 和留在寄存器里，一直是 float32：哪里都不先舍入成半精度
    total = tl.load(change + places, mask=mask, other=0.0).to(tl.float32)
    if HAS_BIAS:
        shift = tl.load(change_bias + columns, mask=is_column, other=0.0)
        total += shift.to(tl.float32)[None, :]
    if DROPS:
        # 散列的位置只给行 16 位：行号拆成两半
        page, line = (rows >> 16)[:, None], rows & 65535
        key = read_key(seed, DROPS)
        total *= kept_share(key, page, line, columns, dropout)
    total += tl.load(x + places, mask=mask, other=0.0).to(tl.float32)
    mean = tl.sum(total, 1) / width
    # 先减均值再平方：E[x^2] - E[x]^2 在均值大时会抵消掉有效数字
    total = tl.where(mask, total - mean[:, None], 0.0)
    variance = tl.sum(total * total, 1) / width
    total *= tl.rsqrt(variance + eps)[:, None]
    scale = tl.load(weight + columns, mask=is_column, other=0.0)
    shift = tl.load(bias + columns, mask=is_column, other=0.0)
    total = total * scale.to(tl.float32)[None, :]
    total += shift.to(tl.float32)[None, :]
    tl.store(out + places, total.to(out.dtype.element_ty), mask=mask)


def add_norm(
    x: Tensor,
    change: Tensor,
    weight: Tensor,
    bias: Tensor,
    eps: float,
    *,
    change_bias: Tensor | None = None,
    dropout: float = 0.0,
    seed: Tensor | None = None,
) -> Tensor:
    """Computes LayerNorm(x + dropout(change + its bias)); has no gradient.

    Args:
        x: Half precision [..., H].
        change: What is added to it, of the same shape and type.
        weight: Of the LayerNorm, [H], in any precision.
        bias: The same.
        eps: Added to the variance.
        change_bias: Added to `change`, [H]; None: nothing is.
        dropout: Probability that a number of `change` is left out.
        seed: Decides which, long [1]; None where nothing is.

    Returns:
        Shape and type of `x`.
    """
    # 内核按行读；平时已是连续的，这里什么也不做
    x, change = x.contiguous(), change.contiguous()
    out = torch.empty_like(x)
    width = x.shape[-1]
    num_rows = x.numel() // width
    columns = triton.next_power_of_2(width)
    rows = max(NUMBERS_A_PROGRAM // columns, 1)
    _add_norm_kernel[(triton.cdiv(num_rows, rows),)](
        *(x, change, bias if change_bias is None else change_bias),
        *(weight, bias, out, x if seed is None else seed),
        *(num_rows, width, eps, dropout),
        ROWS=rows,
        COLUMNS=columns,
        HAS_BIAS=change_bias is not None,
        DROPS=dropout > 0,
        num_warps=max(min(rows * columns // NUMBERS_A_WARP, MOST_WARPS), 1),
    )
    return out
