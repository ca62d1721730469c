"""Dropout that does not wait for its random numbers on a CPU."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

LEVELS = 1 << 16


class Dropout(nn.Module):
    """Sets values to 0 with probability p and scales up the rest.

    On a CPU, PyTorch draws one number after the other for every value. Here
    one draw of 64 bits decides for four values, to 1/65,536 of probability.
    """

    def __init__(self, p: float) -> None:
        super().__init__()
        self.p = p

    def forward(self, x: Tensor) -> Tensor:
        """Maps float [...] to the same shape."""
        if not self.training or self.p == 0 or x.device.type != "cpu":
            return F.dropout(x, self.p, self.training)
        num_draws = -(-x.numel() // 4)
        draws = torch.empty(num_draws, dtype=torch.int64)
        # 取满 64 位，再拆成四个 16 位：抽签次数是原来的四分之一
        bits = draws.random_(-(2**63), None).view(torch.int16)
        threshold = round(self.p * LEVELS) - LEVELS // 2
        is_kept = (bits[: x.numel()] >= threshold).view(x.shape)
        return x * is_kept.to(x.dtype).mul_(1 / (1 - self.p))
