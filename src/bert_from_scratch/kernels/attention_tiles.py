"""Attention within packed sequences: the kernels, one tile of scores each.

Queries, keys and values are read where a product left them, side by side, and
their gradients are written in the same way: nothing is ever rearranged.

Letters: B sequences, P queries, T keys, N heads, D width of a head; Q_STRIDE
and K_STRIDE numbers from one query or key to the next.
"""

import triton
import triton.language as tl

from bert_from_scratch.kernels.dropout import kept_share, read_key

LOG2_E = tl.constexpr(1.4426950408889634)
# 乘积最窄的宽度
NARROW = tl.constexpr(8)
# 解释器不懂汇编
IS_INTERPRETED = tl.constexpr(triton.knobs.runtime.interpret)


@triton.jit
def _sequence():
    """Returns which sequence this program works on."""
    # 一批里的序列由短到长：长的先开工，收尾时就不必等最长的那几块
    return tl.num_programs(2) - 1 - tl.program_id(2)


@triton.jit
def _span(starts, sequence):
    """Returns where a sequence begins, and its length."""
    start = tl.load(starts + sequence)
    return start, tl.load(starts + sequence + 1) - start


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
    first, rows, count, STRIDE: tl.constexpr, D: tl.constexpr,
    IS_WHOLE: tl.constexpr,
):  # fmt: skip
    """Reads vectors of some rows, [rows, D]; zeros from `count` on."""
    places = _places(rows, STRIDE, D)
    if IS_WHOLE:
        return tl.load(first + places)
    return tl.load(first + places, mask=(rows < count)[:, None], other=0.0)


@triton.jit
def _write(first, rows, count, vectors, STRIDE: tl.constexpr, D: tl.constexpr):
    """Writes vectors of some rows, [rows, D], up to `count`."""
    places = _places(rows, STRIDE, D)
    vectors = vectors.to(first.dtype.element_ty)
    tl.store(first + places, vectors, mask=(rows < count)[:, None])


@triton.jit
def _join(logsum, delta):
    """Returns two float32 as one 64-bit number."""
    # 循环里每个数都是一次四字节的拷贝，线程束还要各算地址：两个并一个，
    # 拷贝与读取都少一半
    low = logsum.to(tl.uint32, bitcast=True).to(tl.int64)
    return (delta.to(tl.uint32, bitcast=True).to(tl.int64) << 32) | low


@triton.jit
def _part(pair):
    """Returns the two float32 that `_join` made one of."""
    low = (pair & 0xFFFFFFFF).to(tl.uint32)
    high = ((pair >> 32) & 0xFFFFFFFF).to(tl.uint32)
    return low.to(tl.float32, bitcast=True), high.to(tl.float32, bitcast=True)


@triton.jit
def _settle(sums):
    """Returns the sums, once the product that makes them is done."""
    # 乘积若跨过循环末尾还在算，ptxas 就让整个内核的乘积逐条等待（C7515）；
    # 一条什么也不做的汇编让编译器先等它算完
    if IS_INTERPRETED:
        return sums
    return tl.inline_asm_elementwise(
        "mov.b32 $0, $1;", "=r,r", [sums], tl.float32, is_pure=True, pack=1
    )


# 长序列的循环分两段：整块不必遮挡，省下三成指令；最后一块可能不满。短的不分：
# 分开就要多等一次内存


@triton.jit
def forward(
    q, k, v, out, logsums, q_starts, k_starts, seed, scale, dropout,
    num_queries,
    N: tl.constexpr, D: tl.constexpr, Q_STRIDE: tl.constexpr,
    K_STRIDE: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
    IS_LONG: tl.constexpr, DROPS: tl.constexpr, LOOPS: tl.constexpr,
):  # fmt: skip
    """Attends from ROWS queries of a sequence, COLUMNS keys at a time."""
    first = tl.program_id(0)
    count = _span(q_starts, _sequence())[1]
    if LOOPS:
        # 一条序列被问的次数可以多于它的词数：没用上的槽位都指向同一处
        for block in range(first, tl.cdiv(count, ROWS), tl.num_programs(0)):
            _attend_block(
                block, q, k, v, out, logsums, q_starts,
                k_starts, seed, scale, dropout, num_queries, N,
                D, Q_STRIDE, K_STRIDE, ROWS, COLUMNS, IS_LONG,
                DROPS,
            )  # fmt: skip
    elif first * ROWS < count:
        _attend_block(
            first, q, k, v, out, logsums, q_starts, k_starts, seed,
            scale, dropout, num_queries, N, D, Q_STRIDE, K_STRIDE,
            ROWS, COLUMNS, IS_LONG, DROPS,
        )  # fmt: skip


@triton.jit
def _attend_block(
    block,
    q, k, v, out, logsums, q_starts, k_starts, seed, scale, dropout,
    num_queries,
    N: tl.constexpr, D: tl.constexpr, Q_STRIDE: tl.constexpr,
    K_STRIDE: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
    IS_LONG: tl.constexpr, DROPS: tl.constexpr,
):  # fmt: skip
    head, sequence = tl.program_id(1), _sequence()
    start, count = _span(q_starts, sequence)
    k_start, length = _span(k_starts, sequence)
    q = _first(q, start, head, Q_STRIDE, D)
    k = _first(k, k_start, head, K_STRIDE, D)
    v = _first(v, k_start, head, K_STRIDE, D)
    out = _first(out, start, head, N * D, D)
    rows = block * ROWS + tl.arange(0, ROWS)
    asked = _read(q, rows, count, Q_STRIDE, D, False)
    top = tl.full((ROWS,), float("-inf"), tl.float32)
    if DROPS:
        total = tl.zeros((ROWS,), tl.float32)
    else:
        # 每一列都是同一个和
        total = tl.zeros((ROWS, NARROW), tl.float32)
    mixed = tl.zeros((ROWS, D), tl.float32)
    whole = length // COLUMNS * COLUMNS if IS_LONG else 0
    program, key = sequence * N + head, read_key(seed, DROPS)
    for first in range(0, whole, COLUMNS):
        columns = first + tl.arange(0, COLUMNS)
        top, total, mixed = _mix(
            asked, k, v, top, total, mixed, rows, columns, length, scale,
            key, program, dropout, K_STRIDE, D, COLUMNS, True, DROPS,
        )  # fmt: skip
    for first in range(whole, length, COLUMNS):
        columns = first + tl.arange(0, COLUMNS)
        top, total, mixed = _mix(
            asked, k, v, top, total, mixed, rows, columns, length, scale,
            key, program, dropout, K_STRIDE, D, COLUMNS, False, DROPS,
        )  # fmt: skip
    if not DROPS:
        total = tl.max(total, 1)
    _write(out, rows, count, mixed * (1 / total)[:, None], N * D, D)
    place = logsums + head * num_queries + start
    tl.store(place + rows, top + tl.log2(total), mask=rows < count)


@triton.jit
def _mix(
    q, k, v, top, total, mixed, rows, columns, length, scale, key, program,
    dropout,
    K_STRIDE: tl.constexpr, D: tl.constexpr, COLUMNS: tl.constexpr,
    IS_WHOLE: tl.constexpr, DROPS: tl.constexpr,
):  # fmt: skip
    """Adds the values of some keys; returns highest score, sum and mixture."""
    keys = _read(k, columns, length, K_STRIDE, D, IS_WHOLE)
    values = _read(v, columns, length, K_STRIDE, D, IS_WHOLE)
    scores = tl.dot(q, tl.trans(keys))
    if not IS_WHOLE:
        scores = tl.where((columns < length)[None, :], scores, float("-inf"))
    # 先取最大值再乘比例：乘与减并成一条指令
    new_top = tl.maximum(top, tl.max(scores, 1) * (scale * LOG2_E))
    p = tl.exp2(scores * (scale * LOG2_E) - new_top[:, None])
    shrink = tl.exp2(top - new_top)
    if DROPS:
        # 丢弃前后两份半精度的权重占寄存器，少放一块：逐个相加
        total = total * shrink + tl.sum(p, 1)
        p *= kept_share(key, program, rows, columns, dropout)
    else:
        # 每行的和由乘积来加：与一列列的一相乘，四条指令顶四十条加法与
        # 交换；加的正是与值相乘的那些舍入过的权重
        ones = tl.full((COLUMNS, NARROW), 1.0, values.dtype)
        total = tl.dot(p.to(values.dtype), ones, total * shrink[:, None])
    mixed = mixed * shrink[:, None]
    return new_top, total, tl.dot(p.to(values.dtype), values, mixed)


@triton.jit
def backward_queries(
    q, k, v, out, grad, dq, pairs, logsums, q_starts, k_starts, seed, scale,
    dropout, num_queries,
    N: tl.constexpr, D: tl.constexpr, Q_STRIDE: tl.constexpr,
    K_STRIDE: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
    IS_LONG: tl.constexpr, DROPS: tl.constexpr, LOOPS: tl.constexpr,
):  # fmt: skip
    """Gradients of ROWS queries, and the sums the other kernel needs."""
    first = tl.program_id(0)
    count = _span(q_starts, _sequence())[1]
    if LOOPS:
        # 一条序列被问的次数可以多于它的词数：没用上的槽位都指向同一处
        for block in range(first, tl.cdiv(count, ROWS), tl.num_programs(0)):
            _differentiate_block(
                block, q, k, v, out, grad, dq, pairs, logsums,
                q_starts, k_starts, seed, scale, dropout,
                num_queries, N, D, Q_STRIDE, K_STRIDE, ROWS,
                COLUMNS, IS_LONG, DROPS,
            )  # fmt: skip
    elif first * ROWS < count:
        _differentiate_block(
            first, q, k, v, out, grad, dq, pairs, logsums,
            q_starts, k_starts, seed, scale, dropout, num_queries,
            N, D, Q_STRIDE, K_STRIDE, ROWS, COLUMNS, IS_LONG,
            DROPS,
        )  # fmt: skip


@triton.jit
def _differentiate_block(
    block,
    q, k, v, out, grad, dq, pairs, logsums, q_starts, k_starts, seed, scale,
    dropout, num_queries,
    N: tl.constexpr, D: tl.constexpr, Q_STRIDE: tl.constexpr,
    K_STRIDE: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
    IS_LONG: tl.constexpr, DROPS: tl.constexpr,
):  # fmt: skip
    head, sequence = tl.program_id(1), _sequence()
    start, count = _span(q_starts, sequence)
    k_start, length = _span(k_starts, sequence)
    q = _first(q, start, head, Q_STRIDE, D)
    dq = _first(dq, start, head, Q_STRIDE, D)
    k = _first(k, k_start, head, K_STRIDE, D)
    v = _first(v, k_start, head, K_STRIDE, D)
    grad = _first(grad, start, head, N * D, D)
    out = _first(out, start, head, N * D, D)
    rows = block * ROWS + tl.arange(0, ROWS)
    asked = _read(q, rows, count, Q_STRIDE, D, False)
    g = _read(grad, rows, count, N * D, D, False)
    mixed = _read(out, rows, count, N * D, D, False)
    delta = tl.sum(g.to(tl.float32) * mixed.to(tl.float32), 1)
    place = head * num_queries + start + rows
    logsum = tl.load(logsums + place, mask=rows < count, other=0.0)
    tl.store(pairs + place, _join(logsum, delta), mask=rows < count)
    total = tl.zeros((ROWS, D), tl.float32)
    whole = length // COLUMNS * COLUMNS if IS_LONG else 0
    program, key = sequence * N + head, read_key(seed, DROPS)
    for first in range(0, whole, COLUMNS):
        columns = first + tl.arange(0, COLUMNS)
        total = _add_to_queries(
            asked, k, v, g, logsum, delta, total, rows, columns, length,
            scale, key, program, dropout, K_STRIDE, D, True, DROPS,
        )  # fmt: skip
    for first in range(whole, length, COLUMNS):
        columns = first + tl.arange(0, COLUMNS)
        total = _add_to_queries(
            asked, k, v, g, logsum, delta, total, rows, columns, length,
            scale, key, program, dropout, K_STRIDE, D, False, DROPS,
        )  # fmt: skip
    _write(dq, rows, count, total * scale, Q_STRIDE, D)


@triton.jit
def _add_to_queries(
    q, k, v, g, logsum, delta, total, rows, columns, length, scale, key,
    program, dropout,
    K_STRIDE: tl.constexpr, D: tl.constexpr, IS_WHOLE: tl.constexpr,
    DROPS: tl.constexpr,
):  # fmt: skip
    """Returns the gradient of queries with the part of some keys added."""
    keys = _read(k, columns, length, K_STRIDE, D, IS_WHOLE)
    values = _read(v, columns, length, K_STRIDE, D, IS_WHOLE)
    scores = tl.dot(q, tl.trans(keys))
    p = tl.exp2(scores * (scale * LOG2_E) - logsum[:, None])
    if not IS_WHOLE:
        # 越界的键的权重可能溢出：换成零，无穷大乘零就不会变成 NaN
        p = tl.where((columns < length)[None, :], p, 0.0)
    dp = tl.dot(g, tl.trans(values))
    if DROPS:
        dp *= kept_share(key, program, rows, columns, dropout)
    ds = p * (dp - delta[:, None])
    return tl.dot(ds.to(keys.dtype), keys, total)


@triton.jit
def backward_keys(
    q, k, v, grad, dk, dv, pairs, q_starts, k_starts, seed, scale,
    dropout, num_queries,
    N: tl.constexpr, D: tl.constexpr, Q_STRIDE: tl.constexpr,
    K_STRIDE: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
    IS_LONG: tl.constexpr, DROPS: tl.constexpr,
):  # fmt: skip
    """Gradients of COLUMNS keys and values, ROWS queries at a time."""
    block, head = tl.program_id(0), tl.program_id(1)
    sequence = _sequence()
    k_start, length = _span(k_starts, sequence)
    if block * COLUMNS < length:
        start, count = _span(q_starts, sequence)
        q = _first(q, start, head, Q_STRIDE, D)
        grad = _first(grad, start, head, N * D, D)
        k = _first(k, k_start, head, K_STRIDE, D)
        v = _first(v, k_start, head, K_STRIDE, D)
        dk = _first(dk, k_start, head, K_STRIDE, D)
        dv = _first(dv, k_start, head, K_STRIDE, D)
        pairs += head * num_queries + start
        columns = block * COLUMNS + tl.arange(0, COLUMNS)
        keys = _read(k, columns, length, K_STRIDE, D, False)
        values = _read(v, columns, length, K_STRIDE, D, False)
        of_keys = tl.zeros((COLUMNS, D), tl.float32)
        of_values = tl.zeros((COLUMNS, D), tl.float32)
        whole = count // ROWS * ROWS if IS_LONG else 0
        program, key = sequence * N + head, read_key(seed, DROPS)
        for first in range(0, whole, ROWS):
            rows = first + tl.arange(0, ROWS)
            of_keys, of_values = _add_to_keys(
                q, grad, pairs, keys, values, of_keys, of_values,
                rows, columns, count, scale, key, program, dropout,
                Q_STRIDE, N, D, True, DROPS,
            )  # fmt: skip
        for first in range(whole, count, ROWS):
            rows = first + tl.arange(0, ROWS)
            of_keys, of_values = _add_to_keys(
                q, grad, pairs, keys, values, of_keys, of_values,
                rows, columns, count, scale, key, program, dropout,
                Q_STRIDE, N, D, False, DROPS,
            )  # fmt: skip
        _write(dk, columns, length, of_keys * scale, K_STRIDE, D)
        _write(dv, columns, length, of_values, K_STRIDE, D)


@triton.jit
def _add_to_keys(
    q, grad, pairs, keys, values, of_keys, of_values, rows, columns,
    count, scale, key, program, dropout,
    Q_STRIDE: tl.constexpr, N: tl.constexpr, D: tl.constexpr,
    IS_WHOLE: tl.constexpr, DROPS: tl.constexpr,
):  # fmt: skip
    """Returns the gradients of keys and values with some queries' added."""
    asked = _read(q, rows, count, Q_STRIDE, D, IS_WHOLE)
    g = _read(grad, rows, count, N * D, D, IS_WHOLE)
    # 越界的查询与梯度都是零，不改变任何和
    if IS_WHOLE:
        pair = tl.load(pairs + rows)
    else:
        pair = tl.load(pairs + rows, mask=rows < count, other=0)
    logsum, delta = _part(pair)
    # 转置着算：键为行，累加 dk、dv 时不必再转
    scores = tl.dot(keys, tl.trans(asked))
    p = tl.exp2(scores * (scale * LOG2_E) - logsum[None, :])
    dp = tl.dot(values, tl.trans(g))
    shown = p
    if DROPS:
        share = kept_share(key, program, rows, columns, dropout)
        share = tl.trans(share)
        shown = p * share
        dp *= share
    ds = p * (dp - delta[None, :])
    of_values = tl.dot(shown.to(g.dtype), g, of_values)
    of_keys = tl.dot(ds.to(asked.dtype), asked, of_keys)
    # 等后一个，前一个也就算完了；各等各的，两个乘积就排不到一起
    return _settle(of_keys), of_values
