"""Attention within packed sequences as one operator, dropout included.

Letters: B sequences, T tokens, N heads, D width of a head.
"""

from typing import Any

import torch
from torch import Tensor

from bert_from_scratch.kernels import attention_tiles as tiles

# 每个分块的行数、列数、线程束与流水级数，由 H200 上的测量选定
FORWARD = {"ROWS": 64, "COLUMNS": 64, "num_warps": 4, "num_stages": 3}
QUERIES = {"ROWS": 64, "COLUMNS": 64, "num_warps": 4, "num_stages": 3}
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
    if dropout:
        seed = torch.randint(2**31, (1,), device=qkv.device)
    else:
        seed = cu_seqlens
    mixed, _ = _attend(qkv, bias, cu_seqlens, seed, max_seqlen, dropout)
    return mixed


@torch.library.custom_op("bert::attend", mutates_args=())
def _attend(
    qkv: Tensor,
    bias: Tensor,
    cu_seqlens: Tensor,
    seed: Tensor,
    max_seqlen: int,
    dropout: float,
) -> tuple[Tensor, Tensor]:
    del bias
    num_tokens, _, num_heads, width = qkv.shape
    mixed = qkv.new_empty((num_tokens, num_heads, width))
    logsums = qkv.new_empty((num_heads, num_tokens), dtype=torch.float32)
    tiles.forward[_grid(qkv, cu_seqlens, max_seqlen, FORWARD["ROWS"])](
        qkv,
        mixed,
        logsums,
        cu_seqlens,
        seed,
        width**-0.5,
        dropout,
        num_tokens,
        N=num_heads,
        D=width,
        DROPS=dropout > 0,
        **FORWARD,
    )
    return mixed, logsums


@_attend.register_fake
def _(
    qkv: Tensor,
    bias: Tensor,
    cu_seqlens: Tensor,
    seed: Tensor,
    max_seqlen: int,
    dropout: float,
) -> tuple[Tensor, Tensor]:
    num_tokens, _, num_heads, width = qkv.shape
    mixed = qkv.new_empty((num_tokens, num_heads, width))
    logsums = qkv.new_empty((num_heads, num_tokens), dtype=torch.float32)
    return mixed, logsums


@torch.library.custom_op("bert::attend_backward", mutates_args=())
def _attend_backward(
    grad: Tensor,
    qkv: Tensor,
    mixed: Tensor,
    logsums: Tensor,
    cu_seqlens: Tensor,
    seed: Tensor,
    max_seqlen: int,
    dropout: float,
) -> Tensor:
    num_tokens, _, num_heads, width = qkv.shape
    dqkv = torch.empty_like(qkv)
    common = (logsums, cu_seqlens, seed, width**-0.5, dropout, num_tokens)
    shape = {"N": num_heads, "D": width, "DROPS": dropout > 0}
    deltas = torch.empty_like(logsums)
    tiles.backward_queries[_grid(qkv, cu_seqlens, max_seqlen, QUERIES["ROWS"])](
        qkv, mixed, grad, dqkv, deltas, *common, **shape, **QUERIES
    )
    tiles.backward_keys[_grid(qkv, cu_seqlens, max_seqlen, KEYS["COLUMNS"])](
        qkv, grad, dqkv, deltas, *common, **shape, **KEYS
    )
    return dqkv


@_attend_backward.register_fake
def _(
    grad: Tensor,
    qkv: Tensor,
    mixed: Tensor,
    logsums: Tensor,
    cu_seqlens: Tensor,
    seed: Tensor,
    max_seqlen: int,
    dropout: float,
) -> Tensor:
    return torch.empty_like(qkv)


def _grid(
    qkv: Tensor, cu_seqlens: Tensor, max_seqlen: int, size: int
) -> tuple[int, int, int]:
    """Returns one program for every block of every head and sequence."""
    return -(-max_seqlen // size), qkv.shape[2], len(cu_seqlens) - 1


def _save(
    ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]
) -> None:
    qkv, bias, cu_seqlens, seed, max_seqlen, dropout = inputs
    ctx.save_for_backward(qkv, *output, cu_seqlens, seed)
    ctx.rest = max_seqlen, dropout
    ctx.bias_dtype = bias.dtype


def _differentiate(ctx: Any, grad: Tensor, _: Tensor) -> tuple[Any, ...]:
    dqkv = _attend_backward(grad.contiguous(), *ctx.saved_tensors, *ctx.rest)
    # 键的偏置没有梯度：所有打分一起加减，softmax 看不见
    query, value = (
        dqkv[:, part].flatten(1).sum(0, dtype=torch.float32) for part in (0, 2)
    )
    dbias = torch.cat((query, torch.zeros_like(query), value))
    return dqkv, dbias.to(ctx.bias_dtype), None, None, None, None


_attend.register_autograd(_differentiate, setup_context=_save)
