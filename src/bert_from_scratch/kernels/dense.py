"""Dense layers on a CPU, by oneDNN where PyTorch's own choice is slow.

PyTorch multiplies float32 matrices by Intel's MKL, which on the processors of
others leaves AVX-512 unused. oneDNN, which PyTorch brings along too, does not.

Letters: T tokens, K width that comes in, N width that goes out.
"""

import platform
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor

# 更小的乘法，多出来的调用比省下的还贵
MIN_SIZE = 1 << 22
CPU_INFO_PATH = Path("/proc/cpuinfo")


def dense(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Computes x W' + b, as `torch.nn.functional.linear` does.

    Args:
        x: Float [..., K].
        weight: Float [N, K].
        bias: Float [N], or None.

    Returns:
        Float [..., N].
    """
    if not _suits(x, weight):
        return F.linear(x, weight, bias)
    rows = x.reshape(-1, x.shape[-1])
    if torch.is_grad_enabled():
        product = _dense(rows, weight, bias)
    else:
        product = multiply(rows, weight, bias)
    return product.view(*x.shape[:-1], len(weight))


def _suits(x: Tensor, weight: Tensor) -> bool:
    return (
        x.device.type == "cpu"
        and x.dtype == weight.dtype == torch.float32
        and x.numel() * len(weight) >= MIN_SIZE
        and not torch.is_autocast_enabled("cpu")
        and not _is_transformed()
        and onednn_is_faster()
    )


def _is_transformed() -> bool:
    """Returns whether PyTorch looks for a graph here, not for numbers."""
    return (
        torch.compiler.is_compiling()
        or torch._C._is_tracing()
        or torch._C._are_functorch_transforms_active()
    )


@cache
def onednn_is_faster() -> bool:
    """Returns whether MKL would leave half of this processor idle."""
    return (
        torch.backends.mkl.is_available()
        and torch.backends.mkldnn.is_available()
        and hasattr(torch.ops.mkldnn, "_linear_pointwise")
        and torch.backends.cpu.get_cpu_capability() == "AVX512"
        # 由处理器决定，不靠计时：同一台机器每次的舍入都相同，才能逐位恢复
        and not _is_intel()
    )


def _is_intel() -> bool:
    try:
        lines = CPU_INFO_PATH.read_text().splitlines()
    except OSError:
        return "Intel" in platform.processor()
    # 没有写明厂商的，一概不动
    vendors = (line for line in lines if line.startswith("vendor_id"))
    return "Intel" in next(vendors, "Intel")


def multiply(left: Tensor, right: Tensor, bias: Tensor | None = None) -> Tensor:
    """Multiplies rows by rows: float32 [T, K] and [N, K] to [T, N]."""
    # oneDNN 不收空的乘法，也没有导数的导数
    is_plain = not left.numel() or torch.is_grad_enabled()
    if is_plain or not onednn_is_faster():
        return F.linear(left, right, bias)
    return torch.ops.mkldnn._linear_pointwise(left, right, bias, "none", [], "")


def multiply_columns(left: Tensor, right: Tensor) -> Tensor:
    """Multiplies columns by columns: float32 [T, N] and [T, K] to [N, K]."""
    num_tokens, width_out = left.shape
    width_in = right.shape[1]
    # 左边的矩阵要先转置着抄一遍：让窄的站在左边；但那样结果也要转置一遍
    if num_tokens * (width_out - width_in) > width_out * width_in:
        return multiply(right.t(), left.t()).t()
    return multiply(left.t(), right.t())


class _Dense(torch.autograd.Function):
    """x W' + b and its gradients: three products."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None
    ) -> Tensor:
        """Returns float [T, N]."""
        ctx.save_for_backward(x, weight)
        return multiply(x, weight, bias)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        """Returns the gradients of all three."""
        (grad,) = grads
        x, weight = ctx.saved_tensors
        wants_x, wants_weight, wants_bias = ctx.needs_input_grad
        return (
            multiply(grad, weight.t()) if wants_x else None,
            multiply_columns(grad, x) if wants_weight else None,
            grad.sum(0) if wants_bias else None,
        )


_dense = cast("Callable[..., Tensor]", _Dense.apply)
