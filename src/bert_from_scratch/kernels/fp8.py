"""Dense layers whose products are in fp8, forwards and back to their input.

Every row of an operand is divided by what makes its largest number the largest
that fp8 has, and multiplied back in the result: nothing has to be remembered
from one step to the next. The gradient of a weight stays in half precision:
there tokens are summed over, and each would need a scale of its own.

Letters: T tokens, K width that comes in, N width that goes out, F width inside
the feed-forward layers.
"""

from collections.abc import Callable
from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor

from bert_from_scratch.errors import BertError
from bert_from_scratch.kernels import (
    EXIST,
    FP8_LARGEST,
    FP8_SMALLEST_SCALE,
    FP8_TYPE,
    usable,
)

if EXIST:
    from bert_from_scratch.kernels import fp8_rows

# 矩阵单元要求两边的宽度都对齐到这个数
ALIGNMENT = 16
MIN_CAPABILITY = (8, 9)

# 一行一个比例的 fp8：数 [T, K]，与各行要乘的比例 [T, 1]
Rows = tuple[Tensor, Tensor]


def exists(device: torch.device) -> bool:
    """Returns whether a device multiplies in fp8 by itself."""
    return (
        device.type == "cuda"
        and torch.version.cuda is not None
        and torch.cuda.get_device_capability(device) >= MIN_CAPABILITY
    )


def require(device: torch.device) -> None:
    """Refuses a device that does not multiply in fp8 by itself."""
    if not exists(device):
        least = ".".join(map(str, MIN_CAPABILITY))
        raise BertError(
            f"There is no fp8 on {device.type} here: it takes an NVIDIA GPU of "
            f"compute capability {least} or newer.",
            hint="use --precision bf16, or auto",
        )


def suits(weight: Tensor) -> bool:
    """Returns whether a weight, [N, K], has a shape that can be multiplied."""
    return not any(size % ALIGNMENT for size in weight.shape)


def dense(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Computes x W' + b, in fp8 unless gradients are switched off.

    Args:
        x: Float [..., K].
        weight: Float [N, K].
        bias: Float [N], or None.

    Returns:
        [..., N]; under autocast in its type, else in that of `x`.
    """
    if not torch.is_grad_enabled():
        # 评估用的是将来别人要用的那个模型，不带训练时的舍入
        return F.linear(x, weight, bias)
    rows, *parts = _as_half(x, weight, bias)
    return _dense(rows, *parts).view(*x.shape[:-1], len(weight))


def feed_forward(
    x: Tensor,
    expand: Tensor,
    expand_bias: Tensor,
    contract: Tensor,
    contract_bias: Tensor,
) -> Tensor:
    """Computes GELU(x W' + b) V' + c, in fp8, for training.

    Args:
        x: Float [..., K].
        expand: W, float [F, K].
        expand_bias: b, float [F].
        contract: V, float [K, F].
        contract_bias: c, float [K].

    Returns:
        [..., K]; under autocast in its type, else in that of `x`.
    """
    parts = _as_half(x, expand, expand_bias, contract, contract_bias)
    return _feed_forward(*parts).view(x.shape)


def _as_half(x: Tensor, *weights: Tensor | None) -> list[Any]:
    """Returns rows and weights in the type to compute in."""
    dtype = x.dtype
    if torch.is_autocast_enabled(x.device.type):
        dtype = torch.get_autocast_dtype(x.device.type)
    rows = x.to(dtype).reshape(-1, x.shape[-1])
    return [rows, *(w if w is None else w.to(dtype) for w in weights)]


def quantise(x: Tensor) -> Rows:
    """Returns rows in fp8."""
    # 乘法要求按行存放；梯度与转置来的时候未必是
    x = x.contiguous()
    if usable(x):
        return fp8_rows.quantise(x)
    scale = x.abs().amax(1, keepdim=True).float() / FP8_LARGEST
    scale = scale.clamp(min=FP8_SMALLEST_SCALE)
    return (x.float() * (1 / scale)).to(FP8_TYPE), scale


def multiply(
    left: Rows, right: Rows, dtype: torch.dtype, bias: Tensor | None = None
) -> Tensor:
    """Multiplies rows by rows: [T, K] and [N, K] to [T, N]."""
    (a, a_scale), (b, b_scale) = left, right
    return torch._scaled_mm(
        a,
        b.t(),
        scale_a=a_scale,
        scale_b=b_scale.t(),
        bias=bias,
        out_dtype=dtype,
        use_fast_accum=True,
    )


def product(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Computes x W' + b of half precision [T, K], [N, K] and [N]."""
    return multiply(quantise(x), quantise(weight), x.dtype, bias)


def product_back(grad: Tensor, weight: Tensor) -> Tensor:
    """Computes the gradient of x, [T, K], from that of x W', [T, N]."""
    return multiply(quantise(grad), quantise(weight.t()), grad.dtype)


class _Dense(torch.autograd.Function):
    """Two products in fp8, and the weight's gradient in half precision."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None
    ) -> Tensor:
        """Returns half precision [T, N]."""
        ctx.save_for_backward(x, weight)
        return product(x, weight, bias)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        """Returns the gradients of all three."""
        (grad,) = grads
        x, weight = ctx.saved_tensors
        wants_x, wants_weight, wants_bias = ctx.needs_input_grad
        return (
            product_back(grad, weight) if wants_x else None,
            grad.t() @ x if wants_weight else None,
            grad.sum(0) if wants_bias else None,
        )


class _FeedForward(torch.autograd.Function):
    """Both layers and GELU between, whose result is made in fp8 at once."""

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        expand: Tensor,
        expand_bias: Tensor,
        contract: Tensor,
        contract_bias: Tensor,
    ) -> Tensor:
        """Returns half precision [T, K]."""
        inner = product(x, expand, expand_bias)
        out, rows = gelu(inner)
        ctx.save_for_backward(x, expand, contract, inner, out)
        return multiply(rows, quantise(contract), x.dtype, contract_bias)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, ...]:
        """Returns the gradients of all five."""
        (grad,) = grads
        x, expand, contract, inner, out = ctx.saved_tensors
        of_out = product_back(grad, contract)
        of_inner, rows, of_bias = gelu_backward(of_out, inner)
        dx = multiply(rows, quantise(expand.t()), x.dtype)
        return dx, of_inner.t() @ x, of_bias, grad.t() @ out, grad.sum(0)


def gelu(inner: Tensor) -> tuple[Tensor, Rows]:
    """Returns GELU, and its rows in fp8."""
    if usable(inner):
        out, *rows = fp8_rows.gelu(inner)
        return out, cast("Rows", tuple(rows))
    out = F.gelu(inner)
    return out, quantise(out)


def gelu_backward(grad: Tensor, inner: Tensor) -> tuple[Tensor, Rows, Tensor]:
    """Returns the gradient before GELU, its rows in fp8, and their sum."""
    if usable(inner):
        dx, *rows, sums = fp8_rows.gelu_backward(grad, inner)
        return dx, cast("Rows", tuple(rows)), sums.sum(0).to(inner.dtype)
    dx = torch.ops.aten.gelu_backward(grad, inner)
    return dx, quantise(dx), dx.sum(0)


_dense = cast("Callable[..., Tensor]", _Dense.apply)
_feed_forward = cast("Callable[..., Tensor]", _FeedForward.apply)
