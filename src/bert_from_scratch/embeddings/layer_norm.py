"""LayerNorm that keeps to the precision of what it is given."""

from torch import Tensor, nn


class LayerNorm(nn.LayerNorm):
    """Normalises in float32, and returns the type that came in."""

    def forward(self, x: Tensor) -> Tensor:
        """Maps float [..., H] to the same shape and type."""
        # autocast 会把结果留在 float32，下一个残差也跟着变宽：内存流量翻倍
        return super().forward(x).to(x.dtype)
