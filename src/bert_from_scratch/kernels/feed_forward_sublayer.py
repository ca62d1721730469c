"""The feed-forward half of a block, while it learns, as one operator.

y = LayerNorm(x + dropout(W' GELU(W x + b) + b')); its way back is written by
hand for the reasons given in `attention_sublayer`.

Letters: T tokens, H width, F width inside the feed-forward layers.
"""

from typing import Any

import torch
from torch import Tensor

from bert_from_scratch.kernels import fp8
from bert_from_scratch.kernels.activation import gelu_backward, gelu_forward
from bert_from_scratch.kernels.add_norm import add_norm
from bert_from_scratch.kernels.add_norm_backward import add_norm_backward
from bert_from_scratch.kernels.attention import draw_seed
from bert_from_scratch.kernels.attention_sublayer import Affine
from bert_from_scratch.kernels.products import add_product, multiply


def feed_forward_sublayer(
    x: Tensor,
    expand: Affine,
    contract: Affine,
    norm: Affine,
    eps: float,
    dropout: float = 0.0,
    in_fp8: bool = False,
) -> Tensor:
    """Computes LayerNorm(x + dropout(W' GELU(W x + b) + b')).

    Args:
        x: Half precision [T, H].
        expand: Weight and bias of the first layer, [F, H] and [F].
        contract: The same of the second, [H, F] and [H].
        norm: The same of the LayerNorm, [H] each.
        eps: Of the LayerNorm.
        dropout: Probability that a number of the result is left out.
        in_fp8: Whether products are, but for the weights' gradients.

    Returns:
        [T, H], like `x`.
    """
    y, *_ = _feed_forward(
        x.contiguous(),
        expand[0].to(x.dtype),
        expand[1],
        contract[0].to(x.dtype),
        contract[1],
        *norm,
        draw_seed(x, dropout),
        eps,
        dropout,
        in_fp8,
    )
    return y


@torch.library.custom_op("bert::feed_forward_sublayer", mutates_args=())
def _feed_forward(
    x: Tensor,
    expand_weight: Tensor,
    expand_bias: Tensor,
    contract_weight: Tensor,
    contract_bias: Tensor,
    norm_weight: Tensor,
    norm_bias: Tensor,
    seed: Tensor,
    eps: float,
    dropout: float,
    in_fp8: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    if in_fp8:
        inner = fp8.product(x, expand_weight, expand_bias.to(x.dtype))
        active, rows = fp8.gelu(inner)
        change = fp8.multiply(rows, fp8.quantise(contract_weight), x.dtype)
    else:
        inner = multiply(x, expand_weight.t())
        active = gelu_forward(inner, expand_bias)
        change = multiply(active, contract_weight.t())
    y = add_norm(
        *(x, change, norm_weight, norm_bias, eps),
        change_bias=contract_bias,
        dropout=dropout,
        seed=seed,
    )
    return y, inner, active, change


@_feed_forward.register_fake
def _(
    x: Tensor, expand_weight: Tensor, *_: Any
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    size = (x.shape[0], expand_weight.shape[0])
    inner, active = x.new_empty(size), x.new_empty(size)
    return torch.empty_like(x), inner, active, torch.empty_like(x)


@torch.library.custom_op(
    "bert::feed_forward_sublayer_backward", mutates_args=()
)
def _feed_forward_backward(
    grad: Tensor,
    x: Tensor,
    expand_weight: Tensor,
    expand_bias: Tensor,
    contract_weight: Tensor,
    contract_bias: Tensor,
    norm_weight: Tensor,
    seed: Tensor,
    inner: Tensor,
    active: Tensor,
    change: Tensor,
    eps: float,
    dropout: float,
    in_fp8: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    dx, of_change, sums = add_norm_backward(
        grad, x, change, contract_bias, norm_weight, eps, dropout, seed
    )
    of_contract = multiply(of_change.t(), active)
    if in_fp8:
        of_active = fp8.product_back(of_change, contract_weight)
        of_inner, rows, of_bias = fp8.gelu_backward(of_active, inner)
        dx += fp8.multiply(rows, fp8.quantise(expand_weight.t()), x.dtype)
    else:
        of_active = multiply(of_change, contract_weight)
        of_inner, some = gelu_backward(of_active, inner, expand_bias)
        of_bias = some.sum(0)
        # 绕过前馈层的那份梯度已在 dx 里：乘积直接加上去
        add_product(dx, of_inner, expand_weight)
    return dx, multiply(of_inner.t(), x), of_bias.float(), of_contract, sums


@_feed_forward_backward.register_fake
def _(
    grad: Tensor,
    x: Tensor,
    expand_weight: Tensor,
    expand_bias: Tensor,
    contract_weight: Tensor,
    *_: Any,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    inner_width, width = expand_weight.shape
    return (
        torch.empty_like(x),
        expand_weight.new_empty(expand_weight.shape),
        x.new_empty(inner_width, dtype=torch.float32),
        contract_weight.new_empty(contract_weight.shape),
        x.new_empty((3, width), dtype=torch.float32),
    )


def _save_feed_forward(
    ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]
) -> None:
    *tensors, norm_bias, seed, eps, dropout, in_fp8 = inputs
    _, *kept = output
    ctx.save_for_backward(*tensors, seed, *kept)
    ctx.settings = eps, dropout, in_fp8
    ctx.norm_bias_dtype = norm_bias.dtype
    ctx.set_materialize_grads(False)


def _differentiate_feed_forward(
    ctx: Any, grad: Tensor, *_: None
) -> tuple[Tensor | None, ...]:
    saved = ctx.saved_tensors
    dx, of_expand, of_expand_bias, of_contract, sums = _feed_forward_backward(
        grad.contiguous(), *saved, *ctx.settings
    )
    _, _, expand_bias, _, contract_bias, norm_weight, *_ = saved
    of_norm, of_norm_bias, of_contract_bias = sums.unbind(0)
    return (
        dx,
        of_expand,
        of_expand_bias.to(expand_bias.dtype),
        of_contract,
        of_contract_bias.to(contract_bias.dtype),
        of_norm.to(norm_weight.dtype),
        of_norm_bias.to(ctx.norm_bias_dtype),
        *[None] * 4,
    )


_feed_forward.register_autograd(
    _differentiate_feed_forward, setup_context=_save_feed_forward
)
