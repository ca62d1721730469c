"""Attention's half of a block, while it learns, as one operator.

y = LayerNorm(x + dropout(attention(x))). PyTorch differentiates step by step;
here the way back is written by hand, because who sees the whole half can leave
passes over memory out: the last product adds its result to the gradient that
went around attention, and biases are summed up by kernels that have the rows at
hand anyway. Nothing is left to compile, either.

Letters: T tokens, H width, N heads.
"""

from typing import Any

import torch
from torch import Tensor

from bert_from_scratch.kernels import fp8
from bert_from_scratch.kernels.add_norm import add_norm
from bert_from_scratch.kernels.add_norm_backward import add_norm_backward
from bert_from_scratch.kernels.attention import (
    attend_backward,
    attend_forward,
    draw_seed,
)
from bert_from_scratch.kernels.products import add_product, multiply

# 一层的权重与偏置
Affine = tuple[Tensor, Tensor]


def attention_sublayer(
    x: Tensor,
    qkv: Affine,
    output: Affine,
    norm: Affine,
    cu_seqlens: Tensor,
    max_seqlen: int,
    num_heads: int,
    eps: float,
    attention_dropout: float = 0.0,
    dropout: float = 0.0,
    in_fp8: bool = False,
) -> Tensor:
    """Computes LayerNorm(x + dropout(attention(x))).

    Args:
        x: Half precision [T, H].
        qkv: Weight and bias of the layer that makes queries, keys and values,
            [3H, H] and [3H].
        output: The same of the layer behind attention, [H, H] and [H].
        norm: The same of the LayerNorm, [H] each.
        cu_seqlens: Where each sequence starts, and the end, int32 [B + 1].
        max_seqlen: Upper bound on the lengths.
        num_heads: N.
        eps: Of the LayerNorm.
        attention_dropout: Probability that a weight of attention is left out.
        dropout: Probability that a number of attention's result is left out.
        in_fp8: Whether products are, but for the weights' gradients.

    Returns:
        [T, H], like `x`.
    """
    y, *_ = _attention(
        x.contiguous(),
        qkv[0].to(x.dtype),
        qkv[1],
        output[0].to(x.dtype),
        output[1],
        *norm,
        cu_seqlens,
        draw_seed(cu_seqlens, attention_dropout),
        draw_seed(x, dropout),
        max_seqlen,
        num_heads,
        eps,
        attention_dropout,
        dropout,
        in_fp8,
    )
    return y


@torch.library.custom_op("bert::attention_sublayer", mutates_args=())
def _attention(
    x: Tensor,
    qkv_weight: Tensor,
    qkv_bias: Tensor,
    output_weight: Tensor,
    output_bias: Tensor,
    norm_weight: Tensor,
    norm_bias: Tensor,
    cu_seqlens: Tensor,
    attention_seed: Tensor,
    seed: Tensor,
    max_seqlen: int,
    num_heads: int,
    eps: float,
    attention_dropout: float,
    dropout: float,
    in_fp8: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    product = fp8.product if in_fp8 else _linear
    qkv = product(x, qkv_weight, qkv_bias.to(x.dtype))
    mixed, logsums = attend_forward(
        None,
        qkv.unflatten(-1, (3, num_heads, -1)),
        qkv_bias,
        cu_seqlens,
        cu_seqlens,
        attention_seed,
        max_seqlen,
        attention_dropout,
    )
    mixed = mixed.flatten(-2)
    change = product(mixed, output_weight)
    y = add_norm(
        *(x, change, norm_weight, norm_bias, eps),
        change_bias=output_bias,
        dropout=dropout,
        seed=seed,
    )
    return y, qkv, mixed, logsums, change


def _linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    return multiply(x, weight.t(), bias)


@_attention.register_fake
def _(
    x: Tensor,
    qkv_weight: Tensor,
    qkv_bias: Tensor,
    output_weight: Tensor,
    output_bias: Tensor,
    norm_weight: Tensor,
    norm_bias: Tensor,
    cu_seqlens: Tensor,
    attention_seed: Tensor,
    seed: Tensor,
    max_seqlen: int,
    num_heads: int,
    eps: float,
    attention_dropout: float,
    dropout: float,
    in_fp8: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    num_tokens, width = x.shape
    qkv = x.new_empty((num_tokens, 3 * width))
    logsums = x.new_empty((num_heads, num_tokens), dtype=torch.float32)
    y, mixed, change = (torch.empty_like(x) for _ in range(3))
    return y, qkv, mixed, logsums, change


@torch.library.custom_op("bert::attention_sublayer_backward", mutates_args=())
def _attention_backward(
    grad: Tensor,
    x: Tensor,
    qkv_weight: Tensor,
    output_weight: Tensor,
    output_bias: Tensor,
    norm_weight: Tensor,
    cu_seqlens: Tensor,
    attention_seed: Tensor,
    seed: Tensor,
    qkv: Tensor,
    mixed: Tensor,
    logsums: Tensor,
    change: Tensor,
    max_seqlen: int,
    num_heads: int,
    eps: float,
    attention_dropout: float,
    dropout: float,
    in_fp8: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    dx, of_change, sums = add_norm_backward(
        grad, x, change, output_bias, norm_weight, eps, dropout, seed
    )
    product_back = fp8.product_back if in_fp8 else multiply
    of_mixed = product_back(of_change, output_weight)
    of_output = multiply(of_change.t(), mixed)
    heads = (num_heads, -1)
    _, of_qkv = attend_backward(
        of_mixed.unflatten(-1, heads),
        None,
        qkv.unflatten(-1, (3, *heads)),
        mixed.unflatten(-1, heads),
        logsums,
        cu_seqlens,
        cu_seqlens,
        attention_seed,
        max_seqlen,
        attention_dropout,
    )
    of_qkv = of_qkv.flatten(1)
    of_qkv_bias = _sum_of_qkv(of_qkv, sums[2], output_weight, attention_dropout)
    if in_fp8:
        dx += fp8.product_back(of_qkv, qkv_weight)
    else:
        # 绕过注意力的那份梯度已在 dx 里：乘积直接加上去，不另写一遍再加
        add_product(dx, of_qkv, qkv_weight)
    return dx, multiply(of_qkv.t(), x), of_qkv_bias, of_output, sums


def _sum_of_qkv(
    of_qkv: Tensor,
    of_output_bias: Tensor,
    output_weight: Tensor,
    attention_dropout: float,
) -> Tensor:
    """Returns the gradient of the bias of queries, keys and values."""
    query, _, value = of_qkv.chunk(3, -1)
    of_query = query.sum(0, dtype=torch.float32)
    # 键的偏置没有梯度：所有打分一起加减，softmax 看不见
    of_key = torch.zeros_like(of_query)
    if attention_dropout:
        of_value = value.sum(0, dtype=torch.float32)
    else:
        # 每行权重之和是 1：值的梯度之和，就是注意力结果的梯度之和，而后者由
        # 输出层的偏置即可算出，不必再读一遍
        of_value = (of_output_bias[:, None] * output_weight).sum(0)
    return torch.cat((of_query, of_key, of_value))


@_attention_backward.register_fake
def _(
    grad: Tensor,
    x: Tensor,
    qkv_weight: Tensor,
    output_weight: Tensor,
    *_: Any,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    width = x.shape[1]
    return (
        torch.empty_like(x),
        qkv_weight.new_empty(qkv_weight.shape),
        x.new_empty(3 * width, dtype=torch.float32),
        output_weight.new_empty(output_weight.shape),
        x.new_empty((3, width), dtype=torch.float32),
    )


def _save_attention(
    ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]
) -> None:
    x, qkv_weight, qkv_bias, output_weight, output_bias, *rest = inputs
    norm_weight, norm_bias, cu_seqlens, attention_seed, seed, *settings = rest
    _, *kept = output
    ctx.save_for_backward(
        *(x, qkv_weight, output_weight, output_bias, norm_weight),
        *(cu_seqlens, attention_seed, seed, *kept),
    )
    ctx.settings = settings
    ctx.dtypes = (qkv_bias.dtype, output_bias.dtype, norm_weight.dtype)
    ctx.norm_bias_dtype = norm_bias.dtype
    # 其余输出只留给反向用，没有人会给它们梯度
    ctx.set_materialize_grads(False)


def _differentiate_attention(
    ctx: Any, grad: Tensor, *_: None
) -> tuple[Tensor | None, ...]:
    dx, of_qkv, of_qkv_bias, of_output, sums = _attention_backward(
        grad.contiguous(), *ctx.saved_tensors, *ctx.settings
    )
    qkv_type, output_type, norm_type = ctx.dtypes
    of_norm, of_norm_bias, of_output_bias = sums.unbind(0)
    return (
        dx,
        of_qkv,
        of_qkv_bias.to(qkv_type),
        of_output,
        of_output_bias.to(output_type),
        of_norm.to(norm_type),
        of_norm_bias.to(ctx.norm_bias_dtype),
        *[None] * 9,
    )


_attention.register_autograd(
    _differentiate_attention, setup_context=_save_attention
)
