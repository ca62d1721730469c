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
def _read(first, rows, is_real, STRIDE: tl.constexpr, D: tl.constexpr):
    """Reads vectors of some rows, [rows, D]; zeros where there are none."""
    places = _places(rows, STRIDE, D)
    return tl.load(first + places, mask=is_real[:, None], other=0.0)


@triton.jit
def _write(
    first, rows, is_real, vectors, STRIDE: tl.constexpr, D: tl.constexpr
):
    """Writes vectors of some rows, [rows, D]."""
    places = _places(rows, STRIDE, D)
    vectors = vectors.to(first.dtype.element_ty)
    tl.store(first + places, vectors, mask=is_real[:, None])


@triton.jit
def forward(
    qkv, out, logsums, starts, seed, scale, dropout, num_tokens,
    N: tl.constexpr, D: tl.constexpr, ROWS: tl.constexpr,
    COLUMNS: tl.constexpr, DROPS: tl.constexpr,
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
        q = _read(qkv, rows, is_real, 3 * N * D, D)
        top = tl.full((ROWS,), float("-inf"), tl.float32)
        total = tl.zeros((ROWS,), tl.float32)
        mixed = tl.zeros((ROWS, D), tl.float32)
        for first in range(0, length, COLUMNS):
            columns = first + tl.arange(0, COLUMNS)
            is_key = columns < length
            k = _read(qkv + N * D, columns, is_key, 3 * N * D, D)
            v = _read(qkv + 2 * N * D, columns, is_key, 3 * N * D, D)
            scores = tl.dot(q, tl.trans(k)) * (scale * LOG2_E)
            scores = tl.where(is_key[None, :], scores, float("-inf"))
            new_top = tl.maximum(top, tl.max(scores, 1))
            p = tl.exp2(scores - new_top[:, None])
            shrink = tl.exp2(top - new_top)
            total = total * shrink + tl.sum(p, 1)
            if DROPS:
                program = sequence * N + head
                p *= _kept_share(tl.load(seed), program, rows, columns, dropout)
            mixed = mixed * shrink[:, None]
            mixed = tl.dot(p.to(v.dtype), v, mixed)
            top = new_top
        _write(out, rows, is_real, mixed * (1 / total)[:, None], N * D, D)
        place = logsums + head * num_tokens + start
        tl.store(place + rows, top + tl.log2(total), mask=is_real)


@triton.jit
def backward_queries(
    qkv, out, grad, dqkv, deltas, logsums, starts, seed, scale, dropout,
    num_tokens,
    N: tl.constexpr, D: tl.constexpr, ROWS: tl.constexpr,
    COLUMNS: tl.constexpr, DROPS: tl.constexpr,
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
        q = _read(qkv, rows, is_real, 3 * N * D, D)
        g = _read(grad, rows, is_real, N * D, D)
        o = _read(out, rows, is_real, N * D, D)
        delta = tl.sum(g.to(tl.float32) * o.to(tl.float32), 1)
        offset = head * num_tokens + start
        tl.store(deltas + offset + rows, delta, mask=is_real)
        logsum = tl.load(logsums + offset + rows, mask=is_real, other=0.0)
        dq = tl.zeros((ROWS, D), tl.float32)
        for first in range(0, length, COLUMNS):
            columns = first + tl.arange(0, COLUMNS)
            is_key = columns < length
            k = _read(qkv + N * D, columns, is_key, 3 * N * D, D)
            v = _read(qkv + 2 * N * D, columns, is_key, 3 * N * D, D)
            scores = tl.dot(q, tl.trans(k))
            p = tl.exp2(scores * (scale * LOG2_E) - logsum[:, None])
            dp = tl.dot(g, tl.trans(v))
            if DROPS:
                program = sequence * N + head
                dp *= _kept_share(
                    tl.load(seed), program, rows, columns, dropout
                )
            ds = p * (dp - delta[:, None])
            # 越界的键的权重可能溢出：换成零，无穷大乘零就不会变成 NaN
            ds = tl.where(is_key[None, :], ds, 0.0)
            dq = tl.dot(ds.to(k.dtype), k, dq)
        _write(dqkv, rows, is_real, dq * scale, 3 * N * D, D)


@triton.jit
def backward_keys(
    qkv, grad, dqkv, deltas, logsums, starts, seed, scale, dropout,
    num_tokens,
    N: tl.constexpr, D: tl.constexpr, ROWS: tl.constexpr,
    COLUMNS: tl.constexpr, DROPS: tl.constexpr,
):  # fmt: skip
    """Gradients of COLUMNS keys and values, ROWS queries at a time."""
    block, head = tl.program_id(0), tl.program_id(1)
    sequence = tl.program_id(2)
    start = tl.load(starts + sequence)
    length = tl.load(starts + sequence + 1) - start
    qkv = _first(qkv, start, head, 3 * N * D, D)
    dqkv = _first(dqkv, start, head, 3 * N * D, D)
    grad = _first(grad, start, head, N * D, D)
    columns = block * COLUMNS + tl.arange(0, COLUMNS)
    is_key = columns < length
    if block * COLUMNS < length:
        k = _read(qkv + N * D, columns, is_key, 3 * N * D, D)
        v = _read(qkv + 2 * N * D, columns, is_key, 3 * N * D, D)
        dk = tl.zeros((COLUMNS, D), tl.float32)
        dv = tl.zeros((COLUMNS, D), tl.float32)
        offset = head * num_tokens + start
        for first in range(0, length, ROWS):
            rows = first + tl.arange(0, ROWS)
            is_real = rows < length
            q = _read(qkv, rows, is_real, 3 * N * D, D)
            g = _read(grad, rows, is_real, N * D, D)
            logsum = tl.load(logsums + offset + rows, mask=is_real, other=0.0)
            delta = tl.load(deltas + offset + rows, mask=is_real, other=0.0)
            # 越界的查询与梯度都是零，不改变任何和；转置着算：键为行，累加
            # dk、dv 时不必再转
            scores = tl.dot(k, tl.trans(q))
            p = tl.exp2(scores * (scale * LOG2_E) - logsum[None, :])
            dp = tl.dot(v, tl.trans(g))
            shown = p
            if DROPS:
                program = sequence * N + head
                share = tl.trans(
                    _kept_share(tl.load(seed), program, rows, columns, dropout)
                )
                shown = p * share
                dp *= share
            dv = tl.dot(shown.to(g.dtype), g, dv)
            ds = p * (dp - delta[None, :])
            dk = tl.dot(ds.to(q.dtype), q, dk)
        _write(dqkv + N * D, columns, is_key, dk * scale, 3 * N * D, D)
        _write(dqkv + 2 * N * D, columns, is_key, dv, 3 * N * D, D)
