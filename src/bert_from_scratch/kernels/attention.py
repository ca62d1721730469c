"""Attention within packed sequences as one operator, dropout included.

Letters: B sequences, P queries, T tokens, N heads, D width of a head.
"""

from typing import Any

import torch
from torch import Tensor

from bert_from_scratch.kernels import attention_tiles as tiles

# 到这个长度为止，一条序列只有两块，分段不划算
MAX_SHORT = 128
# 每个分块的行数、列数、线程束与流水级数，由 H200 上的测量选定
FORWARD = {"ROWS": 64, "COLUMNS": 64, "num_warps": 4, "num_stages": 3}
QUERIES = {"ROWS": 64, "COLUMNS": 32, "num_warps": 4, "num_stages": 3}
# 寄存器限到 128 个，一个处理器上就能同时算四块
KEYS = {
    "ROWS": 32,
    "COLUMNS": 64,
    "num_warps": 4,
    "num_stages": 3,
    "maxnreg": 128,
}


def attend(
    qkv: Tensor,
    bias: Tensor,
    cu_seqlens: Tensor,
    max_seqlen: int,
    dropout: float = 0.0,
) -> Tensor:
    """Mixes the values of each sequence.

    Args:
        qkv: Queries, keys and values, half precision [T, 3, N, D].
        bias: What was added to `qkv`, [3 * N * D]. It is not added again;
            it only gets its gradient here.
        cu_seqlens: Where each sequence starts, and the end, int32 [B + 1].
        max_seqlen: Upper bound on the lengths.
        dropout: Probability that a weight is left out.

    Returns:
        Mixed values, [T, N, D].
    """
    seed = _draw_seed(cu_seqlens, dropout)
    mixed, _ = _attend(
        None, qkv, bias, cu_seqlens, cu_seqlens, seed, max_seqlen, dropout
    )
    return mixed


def attend_from(
    queries: Tensor,
    kv: Tensor,
    bias: Tensor,
    query_starts: Tensor,
    cu_seqlens: Tensor,
    max_seqlen: int,
    dropout: float = 0.0,
) -> Tensor:
    """Mixes the values of each sequence, for some of its queries alone.

    Args:
        queries: Half precision [P, N, D], sequence after sequence.
        kv: Keys and values of all tokens, half precision [T, 2, N, D].
        bias: What was added to queries, keys and values, as in `attend`.
        query_starts: Where the queries of each sequence start, and the end,
            int32 [B + 1].
        cu_seqlens: The same of the tokens.
        max_seqlen: Upper bound on the lengths.
        dropout: Probability that a weight is left out.

    Returns:
        Mixed values, [P, N, D].
    """
    seed = _draw_seed(cu_seqlens, dropout)
    mixed, _ = _attend(
        queries, kv, bias, query_starts, cu_seqlens, seed, max_seqlen, dropout
    )
    return mixed


def _draw_seed(cu_seqlens: Tensor, dropout: float) -> Tensor:
    if dropout:
        return torch.randint(2**31, (1,), device=cu_seqlens.device)
    return cu_seqlens


def _divide(queries: Tensor | None, rest: Tensor) -> tuple[Tensor, ...]:
    """Returns views of queries, keys and values, each [..., N, D]."""
    if queries is None:
        return rest.unbind(1)
    return queries, *rest.unbind(1)


def _describe(q: Tensor, k: Tensor, max_seqlen: int, dropout: float) -> Any:
    """Returns what kernels are compiled for."""
    return {
        "N": q.shape[1],
        "D": q.shape[2],
        "Q_STRIDE": q.stride(0),
        "K_STRIDE": k.stride(0),
        "IS_LONG": max_seqlen > MAX_SHORT,
        "DROPS": dropout > 0,
    }


@torch.library.custom_op("bert::attend", mutates_args=())
def _attend(
    queries: Tensor | None,
    rest: Tensor,
    bias: Tensor,
    query_starts: Tensor,
    cu_seqlens: Tensor,
    seed: Tensor,
    max_seqlen: int,
    dropout: float,
) -> tuple[Tensor, Tensor]:
    del bias
    q, k, v = _divide(queries, rest)
    mixed, logsums = _allocate(q)
    tiles.forward[_grid(q, cu_seqlens, max_seqlen, FORWARD["ROWS"])](
        q,
        k,
        v,
        mixed,
        logsums,
        query_starts,
        cu_seqlens,
        seed,
        q.shape[-1] ** -0.5,
        dropout,
        len(q),
        **_describe(q, k, max_seqlen, dropout),
        LOOPS=queries is not None,
        **FORWARD,
    )
    return mixed, logsums


def _allocate(q: Tensor) -> tuple[Tensor, Tensor]:
    """Returns room for what queries find, and for their sums."""
    num_queries, num_heads, _ = q.shape
    mixed = q.new_empty(q.shape)
    return mixed, q.new_empty((num_heads, num_queries), dtype=torch.float32)


@_attend.register_fake
def _(
    queries: Tensor | None,
    rest: Tensor,
    bias: Tensor,
    query_starts: Tensor,
    cu_seqlens: Tensor,
    seed: Tensor,
    max_seqlen: int,
    dropout: float,
) -> tuple[Tensor, Tensor]:
    return _allocate(_divide(queries, rest)[0])


@torch.library.custom_op("bert::attend_backward", mutates_args=())
def _attend_backward(
    grad: Tensor,
    queries: Tensor | None,
    rest: Tensor,
    mixed: Tensor,
    logsums: Tensor,
    query_starts: Tensor,
    cu_seqlens: Tensor,
    seed: Tensor,
    max_seqlen: int,
    dropout: float,
) -> tuple[Tensor, Tensor]:
    q, k, v = _divide(queries, rest)
    # 没有单独的查询时，它的梯度就在 rest 的梯度里，另一个是空的
    alone, others = _allocate_gradients(queries, rest)
    dq, dk, dv = _divide(None if queries is None else alone, others)
    deltas = torch.empty_like(logsums)
    common = (
        *(logsums, query_starts, cu_seqlens, seed),
        *(q.shape[-1] ** -0.5, dropout, len(q)),
    )
    shape = _describe(q, k, max_seqlen, dropout)
    tiles.backward_queries[_grid(q, cu_seqlens, max_seqlen, QUERIES["ROWS"])](
        *(q, k, v, mixed, grad, dq, deltas, *common),
        **shape,
        LOOPS=queries is not None,
        **QUERIES,
    )
    tiles.backward_keys[_grid(q, cu_seqlens, max_seqlen, KEYS["COLUMNS"])](
        q, k, v, grad, dk, dv, deltas, *common, **shape, **KEYS
    )
    return alone, others


def _allocate_gradients(
    queries: Tensor | None, rest: Tensor
) -> tuple[Tensor, Tensor]:
    alone = rest.new_empty(0 if queries is None else queries.shape)
    return alone, torch.empty_like(rest)


@_attend_backward.register_fake
def _(
    grad: Tensor,
    queries: Tensor | None,
    rest: Tensor,
    mixed: Tensor,
    logsums: Tensor,
    query_starts: Tensor,
    cu_seqlens: Tensor,
    seed: Tensor,
    max_seqlen: int,
    dropout: float,
) -> tuple[Tensor, Tensor]:
    return _allocate_gradients(queries, rest)


def _grid(
    q: Tensor, cu_seqlens: Tensor, max_seqlen: int, size: int
) -> tuple[int, int, int]:
    """Returns one program for every block of every head and sequence."""
    return -(-max_seqlen // size), q.shape[1], len(cu_seqlens) - 1


def _save(
    ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]
) -> None:
    queries, rest, bias, query_starts, cu_seqlens, seed, *others = inputs
    ctx.save_for_backward(
        queries, rest, *output, query_starts, cu_seqlens, seed
    )
    ctx.rest = others
    ctx.bias_dtype = bias.dtype


def _differentiate(ctx: Any, grad: Tensor, _: Tensor) -> tuple[Any, ...]:
    queries, *others = ctx.saved_tensors
    alone, rest = _attend_backward(
        grad.contiguous(), queries, *others, *ctx.rest
    )
    dq, _, dv = _divide(None if queries is None else alone, rest)
    query, value = (x.flatten(1).sum(0, dtype=torch.float32) for x in (dq, dv))
    # 键的偏置没有梯度：所有打分一起加减，softmax 看不见
    dbias = torch.cat((query, torch.zeros_like(query), value))
    of_queries = None if queries is None else alone
    return of_queries, rest, dbias.to(ctx.bias_dtype), *[None] * 5


_attend.register_autograd(_differentiate, setup_context=_save)
