"""Attention within packed sequences: the kernels, one tile of scores each.

Queries, keys and values of a token lie side by side, [T, 3, N, D], as one
product makes them, and so do their gradients: nothing is ever rearranged.

Letters: B sequences, T tokens, N heads, D width of a head.
"""

import triton
import triton.language as tl

LOG2_E = tl.constexpr(1.4426950408889634)


@triton.jit
def _random_bits(seed, program, rows, columns):
    """Hashes a place in the scores to 32 random bits."""
    # 三次乘法的散列就够丢弃用；通用的随机数发生器比注意力本身还慢
    bits = (rows[:, None] * 65536 + columns[None, :]).to(tl.uint32)
    key = seed.to(tl.uint32) + program.to(tl.uint32) * 0x9E3779B9
    bits = (bits ^ key) * 0x7FEB352D
    bits = (bits ^ (bits >> 15)) * 0x846CA68B
    bits = (bits ^ (bits >> 16) ^ key) * 0x9E3779B1
    return bits ^ (bits >> 16)


@triton.jit
def _kept_share(seed, program, rows, columns, dropout):
    """Returns what weights are multiplied by: 0, or 1 / (1 - dropout)."""
    bits = _random_bits(seed, program, rows, columns)
    is_kept = (bits >> 8).to(tl.float32) >= dropout * 16777216.0
    return tl.where(is_kept, 1 / (1 - dropout), 0.0)


@triton.jit
def _first(pointer, start, head, STRIDE: tl.constexpr, D: tl.constexpr):
    """Returns where a head's vectors of a sequence begin."""
    return pointer + start.to(tl.int64) * STRIDE + head * D


@triton.jit
def _places(rows, STRIDE: tl.constexpr, D: tl.constexpr):
    # 起点是一个 64 位数，表内只用 32 位：省下的寄存器够多放一块
    return rows[:, None] * STRIDE + tl.arange(0, D)[None, :]


@triton.jit
def _read(
    first, rows, length, STRIDE: tl.constexpr, D: tl.constexpr,
    IS_WHOLE: tl.constexpr,
):  # fmt: skip
    """Reads vectors of some rows, [rows, D]; zeros where there are none."""
    places = first + _places(rows, STRIDE, D)
    if IS_WHOLE:
        return tl.load(places)
    return tl.load(places, mask=(rows < length)[:, None], other=0.0)


@triton.jit
def _write(
    first, rows, is_real, vectors, STRIDE: tl.constexpr, D: tl.constexpr
):
    """Writes vectors of some rows, [rows, D]."""
    places = _places(rows, STRIDE, D)
    vectors = vectors.to(first.dtype.element_ty)
    tl.store(first + places, vectors, mask=is_real[:, None])


# 长序列的循环分两段：整块不必遮挡，省下三成指令；最后一块可能不满。短的不分：
# 分开就要多等一次内存


@triton.jit
def forward(
    qkv, out, logsums, starts, seed, scale, dropout, num_tokens,
    N: tl.constexpr, D: tl.constexpr, ROWS: tl.constexpr,
    COLUMNS: tl.constexpr, IS_LONG: tl.constexpr, DROPS: tl.constexpr,
):  # fmt: skip
    """Attends from ROWS queries of a sequence, COLUMNS keys at a time."""
    block, head = tl.program_id(0), tl.program_id(1)
    sequence = tl.program_id(2)
    start = tl.load(starts + sequence)
    length = tl.load(starts + sequence + 1) - start
    qkv = _first(qkv, start, head, 3 * N * D, D)
    out = _first(out, start, head, N * D, D)
    rows = block * ROWS + tl.arange(0, ROWS)
    is_real = rows < length
    if block * ROWS < length:
        q = _read(qkv, rows, length, 3 * N * D, D, False)
        top = tl.full((ROWS,), float("-inf"), tl.float32)
        total = tl.zeros((ROWS,), tl.float32)
        mixed = tl.zeros((ROWS, D), tl.float32)
        whole = length // COLUMNS * COLUMNS if IS_LONG else 0
        program = sequence * N + head
        for first in range(0, whole, COLUMNS):
            columns = first + tl.arange(0, COLUMNS)
            top, total, mixed = _mix(
                qkv, q, top, total, mixed, rows, columns, length, scale,
                seed, program, dropout, N, D, True, DROPS,
            )  # fmt: skip
        for first in range(whole, length, COLUMNS):
            columns = first + tl.arange(0, COLUMNS)
            top, total, mixed = _mix(
                qkv, q, top, total, mixed, rows, columns, length, scale,
                seed, program, dropout, N, D, False, DROPS,
            )  # fmt: skip
        _write(out, rows, is_real, mixed * (1 / total)[:, None], N * D, D)
        place = logsums + head * num_tokens + start
        tl.store(place + rows, top + tl.log2(total), mask=is_real)


@triton.jit
def _mix(
    qkv, q, top, total, mixed, rows, columns, length, scale, seed, program,
    dropout,
    N: tl.constexpr, D: tl.constexpr, IS_WHOLE: tl.constexpr,
    DROPS: tl.constexpr,
):  # fmt: skip
    """Adds the values of some keys; returns highest score, sum and mixture."""
    k = _read(qkv + N * D, columns, length, 3 * N * D, D, IS_WHOLE)
    v = _read(qkv + 2 * N * D, columns, length, 3 * N * D, D, IS_WHOLE)
    scores = tl.dot(q, tl.trans(k))
    if not IS_WHOLE:
        scores = tl.where((columns < length)[None, :], scores, float("-inf"))
    # 先取最大值再乘比例：乘与减并成一条指令
    new_top = tl.maximum(top, tl.max(scores, 1) * (scale * LOG2_E))
    p = tl.exp2(scores * (scale * LOG2_E) - new_top[:, None])
    shrink = tl.exp2(top - new_top)
    total = total * shrink + tl.sum(p, 1)
    if DROPS:
        p *= _kept_share(tl.load(seed), program, rows, columns, dropout)
    mixed = mixed * shrink[:, None]
    return new_top, total, tl.dot(p.to(v.dtype), v, mixed)


@triton.jit
def backward_queries(
    qkv, out, grad, dqkv, deltas, logsums, starts, seed, scale, dropout,
    num_tokens,
    N: tl.constexpr, D: tl.constexpr, ROWS: tl.constexpr,
    COLUMNS: tl.constexpr, IS_LONG: tl.constexpr, DROPS: tl.constexpr,
):  # fmt: skip
    """Gradients of ROWS queries, and the sums the other kernel needs."""
    block, head = tl.program_id(0), tl.program_id(1)
    sequence = tl.program_id(2)
    start = tl.load(starts + sequence)
    length = tl.load(starts + sequence + 1) - start
    qkv = _first(qkv, start, head, 3 * N * D, D)
    dqkv = _first(dqkv, start, head, 3 * N * D, D)
    grad = _first(grad, start, head, N * D, D)
    out = _first(out, start, head, N * D, D)
    rows = block * ROWS + tl.arange(0, ROWS)
    is_real = rows < length
    if block * ROWS < length:
        q = _read(qkv, rows, length, 3 * N * D, D, False)
        g = _read(grad, rows, length, N * D, D, False)
        o = _read(out, rows, length, N * D, D, False)
        delta = tl.sum(g.to(tl.float32) * o.to(tl.float32), 1)
        offset = head * num_tokens + start
        tl.store(deltas + offset + rows, delta, mask=is_real)
        logsum = tl.load(logsums + offset + rows, mask=is_real, other=0.0)
        dq = tl.zeros((ROWS, D), tl.float32)
        whole = length // COLUMNS * COLUMNS if IS_LONG else 0
        program = sequence * N + head
        for first in range(0, whole, COLUMNS):
            columns = first + tl.arange(0, COLUMNS)
            dq = _add_to_queries(
                qkv, q, g, logsum, delta, dq, rows, columns, length, scale,
                seed, program, dropout, N, D, True, DROPS,
            )  # fmt: skip
        for first in range(whole, length, COLUMNS):
            columns = first + tl.arange(0, COLUMNS)
            dq = _add_to_queries(
                qkv, q, g, logsum, delta, dq, rows, columns, length, scale,
                seed, program, dropout, N, D, False, DROPS,
            )  # fmt: skip
        _write(dqkv, rows, is_real, dq * scale, 3 * N * D, D)


@triton.jit
def _add_to_queries(
    qkv, q, g, logsum, delta, dq, rows, columns, length, scale, seed, program,
    dropout,
    N: tl.constexpr, D: tl.constexpr, IS_WHOLE: tl.constexpr,
    DROPS: tl.constexpr,
):  # fmt: skip
    """Returns the gradient of queries with the part of some keys added."""
    k = _read(qkv + N * D, columns, length, 3 * N * D, D, IS_WHOLE)
    v = _read(qkv + 2 * N * D, columns, length, 3 * N * D, D, IS_WHOLE)
    scores = tl.dot(q, tl.trans(k))
    p = tl.exp2(scores * (scale * LOG2_E) - logsum[:, None])
    if not IS_WHOLE:
        # 越界的键的权重可能溢出：换成零，无穷大乘零就不会变成 NaN
        p = tl.where((columns < length)[None, :], p, 0.0)
    dp = tl.dot(g, tl.trans(v))
    if DROPS:
        dp *= _kept_share(tl.load(seed), program, rows, columns, dropout)
    ds = p * (dp - delta[:, None])
    return tl.dot(ds.to(k.dtype), k, dq)


@triton.jit
def backward_keys(
    qkv, grad, dqkv, deltas, logsums, starts, seed, scale, dropout,
    num_tokens,
    N: tl.constexpr, D: tl.constexpr, ROWS: tl.constexpr,
    COLUMNS: tl.constexpr, IS_LONG: tl.constexpr, DROPS: tl.constexpr,
):  # fmt: skip
    """Gradients of COLUMNS keys and values, ROWS queries at a time."""
    block, head = tl.program_id(0), tl.program_id(1)
    sequence = tl.program_id(2)
    start = tl.load(starts + sequence)
    length = tl.load(starts + sequence + 1) - start
    qkv = _first(qkv, start, head, 3 * N * D, D)
    dqkv = _first(dqkv, start, head, 3 * N * D, D)
    grad = _first(grad, start, head, N * D, D)
    logsums += head * num_tokens + start
    deltas += head * num_tokens + start
    columns = block * COLUMNS + tl.arange(0, COLUMNS)
    is_key = columns < length
    if block * COLUMNS < length:
        k = _read(qkv + N * D, columns, length, 3 * N * D, D, False)
        v = _read(qkv + 2 * N * D, columns, length, 3 * N * D, D, False)
        dk = tl.zeros((COLUMNS, D), tl.float32)
        dv = tl.zeros((COLUMNS, D), tl.float32)
        whole = length // ROWS * ROWS if IS_LONG else 0
        program = sequence * N + head
        for first in range(0, whole, ROWS):
            rows = first + tl.arange(0, ROWS)
            dk, dv = _add_to_keys(
                qkv, grad, logsums, deltas, k, v, dk, dv, rows, columns,
                length, scale, seed, program, dropout, N, D, True, DROPS,
            )  # fmt: skip
        for first in range(whole, length, ROWS):
            rows = first + tl.arange(0, ROWS)
            dk, dv = _add_to_keys(
                qkv, grad, logsums, deltas, k, v, dk, dv, rows, columns,
                length, scale, seed, program, dropout, N, D, False, DROPS,
            )  # fmt: skip
        _write(dqkv + N * D, columns, is_key, dk * scale, 3 * N * D, D)
        _write(dqkv + 2 * N * D, columns, is_key, dv, 3 * N * D, D)


@triton.jit
def _add_to_keys(
    qkv, grad, logsums, deltas, k, v, dk, dv, rows, columns, length, scale,
    seed, program, dropout,
    N: tl.constexpr, D: tl.constexpr, IS_WHOLE: tl.constexpr,
    DROPS: tl.constexpr,
):  # fmt: skip
    """Returns the gradients of keys and values with some queries' added."""
    q = _read(qkv, rows, length, 3 * N * D, D, IS_WHOLE)
    g = _read(grad, rows, length, N * D, D, IS_WHOLE)
    # 越界的查询与梯度都是零，不改变任何和
    if IS_WHOLE:
        logsum, delta = tl.load(logsums + rows), tl.load(deltas + rows)
    else:
        logsum = tl.load(logsums + rows, mask=rows < length, other=0.0)
        delta = tl.load(deltas + rows, mask=rows < length, other=0.0)
    # 转置着算：键为行，累加 dk、dv 时不必再转
    scores = tl.dot(k, tl.trans(q))
    p = tl.exp2(scores * (scale * LOG2_E) - logsum[None, :])
    dp = tl.dot(v, tl.trans(g))
    shown = p
    if DROPS:
        share = _kept_share(tl.load(seed), program, rows, columns, dropout)
        share = tl.trans(share)
        shown = p * share
        dp *= share
    dv = tl.dot(shown.to(g.dtype), g, dv)
    ds = p * (dp - delta[None, :])
    return tl.dot(ds.to(q.dtype), q, dk), dv
