"""Attention within packed sequences as one operator, dropout included.

Letters: B sequences, P queries, T tokens, N heads, D width of a head.
"""

from typing import Any

import torch
from torch import Tensor

from bert_from_scratch.kernels import attention_tiles as tiles

# 到这个长度为止，一条序列不过两到四块，分段不划算
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
    seed = draw_seed(cu_seqlens, dropout)
    # 梯度按连续存放来写，输入也要连续；本来就是的话什么也不做
    qkv = qkv.contiguous()
    mixed, _ = attend_forward(
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
    seed = draw_seed(cu_seqlens, dropout)
    queries, kv = queries.contiguous(), kv.contiguous()
    mixed, _ = attend_forward(
        queries, kv, bias, query_starts, cu_seqlens, seed, max_seqlen, dropout
    )
    return mixed


def draw_seed(beside: Tensor, dropout: float) -> Tensor:
    """Draws what decides a dropout, long [1] on the device of `beside`.

    Without dropout it is some number that nobody will look at.
    """
    if dropout:
        return torch.randint(2**31, (1,), device=beside.device)
    # 不可拿 beside 自己占位：激活两次进同一个算子，PyTorch 2.11 在 GPU 上
    # 编译十二层就没个完
    return torch.empty(1, dtype=torch.long, device=beside.device)


def _divide(queries: Tensor | None, joined: Tensor) -> tuple[Tensor, ...]:
    """Returns views of queries, keys and values, each [..., N, D].

    Args:
        queries: Queries by themselves, or None.
        joined: Keys and values side by side, or queries, keys and values.
    """
    if queries is None:
        return joined.unbind(1)
    return queries, *joined.unbind(1)


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
def attend_forward(
    queries: Tensor | None,
    joined: Tensor,
    bias: Tensor,
    query_starts: Tensor,
    cu_seqlens: Tensor,
    seed: Tensor,
    max_seqlen: int,
    dropout: float,
) -> tuple[Tensor, Tensor]:
    """Returns mixed values, [P, N, D], and each query's sum, in logarithms.

    Args:
        queries: Half precision [P, N, D], or None: they are in `joined`.
        joined: Keys and values, [T, 2, N, D], or queries, keys and values.
        bias: Not looked at; it gets its gradient.
        query_starts: As in `attend_from`.
        cu_seqlens: As in `attend_from`.
        seed: Decides the dropout, see `draw_seed`.
        max_seqlen: As in `attend_from`.
        dropout: As in `attend_from`.
    """
    del bias
    q, k, v = _divide(queries, joined)
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


@attend_forward.register_fake
def _(
    queries: Tensor | None,
    joined: Tensor,
    bias: Tensor,
    query_starts: Tensor,
    cu_seqlens: Tensor,
    seed: Tensor,
    max_seqlen: int,
    dropout: float,
) -> tuple[Tensor, Tensor]:
    return _allocate(_divide(queries, joined)[0])


@torch.library.custom_op("bert::attend_backward", mutates_args=())
def attend_backward(
    grad: Tensor,
    queries: Tensor | None,
    joined: Tensor,
    mixed: Tensor,
    logsums: Tensor,
    query_starts: Tensor,
    cu_seqlens: Tensor,
    seed: Tensor,
    max_seqlen: int,
    dropout: float,
) -> tuple[Tensor, Tensor]:
    """Returns the gradients of `queries` and `joined`.

    Args:
        grad: Of the mixed values, [P, N, D], contiguous.
        queries: As in `attend_forward`, like all that is not named here.
        joined: As there.
        mixed: What was found there.
        logsums: The same.
        query_starts: As there.
        cu_seqlens: As there.
        seed: As there.
        max_seqlen: As there.
        dropout: As there.

    Returns:
        The first is empty where `queries` is None.
    """
    q, k, v = _divide(queries, joined)
    # 没有单独的查询时，它的梯度就在 of_joined 里，另一个是空的
    of_queries, of_joined = _allocate_gradients(queries, joined)
    dq, dk, dv = _divide(None if queries is None else of_queries, of_joined)
    # 每个查询的两个 float32，拼成一个数
    pairs = torch.empty_like(logsums, dtype=torch.int64)
    common = (
        *(query_starts, cu_seqlens, seed),
        *(q.shape[-1] ** -0.5, dropout, len(q)),
    )
    shape = _describe(q, k, max_seqlen, dropout)
    tiles.backward_queries[_grid(q, cu_seqlens, max_seqlen, QUERIES["ROWS"])](
        *(q, k, v, mixed, grad, dq, pairs, logsums, *common),
        **shape,
        LOOPS=queries is not None,
        **QUERIES,
    )
    tiles.backward_keys[_grid(q, cu_seqlens, max_seqlen, KEYS["COLUMNS"])](
        q, k, v, grad, dk, dv, pairs, *common, **shape, **KEYS
    )
    return of_queries, of_joined


def _allocate_gradients(
    queries: Tensor | None, joined: Tensor
) -> tuple[Tensor, Tensor]:
    of_queries = joined.new_empty(0 if queries is None else queries.shape)
    return of_queries, torch.empty_like(joined)


@attend_backward.register_fake
def _(
    grad: Tensor,
    queries: Tensor | None,
    joined: Tensor,
    mixed: Tensor,
    logsums: Tensor,
    query_starts: Tensor,
    cu_seqlens: Tensor,
    seed: Tensor,
    max_seqlen: int,
    dropout: float,
) -> tuple[Tensor, Tensor]:
    return _allocate_gradients(queries, joined)


def _grid(
    q: Tensor, cu_seqlens: Tensor, max_seqlen: int, size: int
) -> tuple[int, int, int]:
    """Returns one program for every block of every head and sequence."""
    return -(-max_seqlen // size), q.shape[1], len(cu_seqlens) - 1


def _save(
    ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]
) -> None:
    queries, joined, bias, query_starts, cu_seqlens, seed, *settings = inputs
    ctx.save_for_backward(
        queries, joined, *output, query_starts, cu_seqlens, seed
    )
    ctx.settings = settings
    ctx.bias_dtype = bias.dtype


def _differentiate(ctx: Any, grad: Tensor, _: Tensor) -> tuple[Any, ...]:
    queries, *saved = ctx.saved_tensors
    of_queries, of_joined = attend_backward(
        grad.contiguous(), queries, *saved, *ctx.settings
    )
    separate = None if queries is None else of_queries
    dq, _, dv = _divide(separate, of_joined)
    query, value = (x.flatten(1).sum(0, dtype=torch.float32) for x in (dq, dv))
    # 键的偏置没有梯度：所有打分一起加减，softmax 看不见
    dbias = torch.cat((query, torch.zeros_like(query), value))
    return separate, of_joined, dbias.to(ctx.bias_dtype), *[None] * 5


attend_forward.register_autograd(_differentiate, setup_context=_save)
