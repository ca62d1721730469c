"""LayerNorm that keeps to the precision of what it is given."""

import torch
from torch import Tensor, nn

from bert_from_scratch import kernels

if kernels.EXIST:
    from bert_from_scratch.kernels.add_norm import add_norm


class LayerNorm(nn.LayerNorm):
    """Normalises in float32, and returns the type that came in."""

    def forward(self, x: Tensor) -> Tensor:
        """Maps float [..., H] to the same shape and type."""
        # autocast 会把结果留在 float32，下一个残差也跟着变宽：内存流量翻倍
        return super().forward(x).to(x.dtype)

    def of_sum(self, x: Tensor, change: Tensor) -> Tensor:
        """Computes LayerNorm(x + change), on a GPU in one pass if it can.

        Args:
            x: Float [..., H].
            change: What is added to it, of the same shape and type.

        Returns:
            The same shape and type. What only predicts rounds the sum
            nowhere, and calls no hooks of this module.
        """
        # 内核没有反向；编译时 PyTorch 自己会把两步合成一步
        is_plain = torch.compiler.is_compiling() or torch.is_grad_enabled()
        if is_plain or not kernels.usable(x):
            return self(x + change)
        return add_norm(x, change, self.weight, self.bias, self.eps)
