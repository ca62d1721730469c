"""What PyTorch has no single fast kernel for.

`attention`, `activation`, `add_norm`, `cross_entropy` and `fp8_rows` are Triton
kernels for a GPU, imported where `EXIST`, and used where `usable`. Of the first
three, `attention_sublayer` and `feed_forward_sublayer` make halves of a block;
`fp8` multiplies what the last of them makes; `products` chooses how a GPU
multiplies in half precision, by way of `cublaslt`. `dense` and `word_loss` are
for a CPU. Each does what plain functions do, in less time or memory; tests hold
them against those.
"""

from importlib.util import find_spec

import torch
from torch import Tensor

HALF_TYPES = (torch.bfloat16, torch.float16)
FP8_TYPE = torch.float8_e4m3fn
FP8_LARGEST = torch.finfo(FP8_TYPE).max
# 全零的行也要有比例：零除以它仍是零
FP8_SMALLEST_SCALE = 1e-12
MIN_CAPABILITY = (8, 0)

# Triton 随 PyTorch 的 GPU 版本一起安装；没有 GPU 时不导入，命令启动更快
EXIST = torch.cuda.is_available() and find_spec("triton") is not None


def usable(x: Tensor) -> bool:
    """Returns whether the Triton kernels can work on this tensor."""
    return EXIST and x.dtype in HALF_TYPES and is_new_enough(x)


def is_new_enough(x: Tensor) -> bool:
    """Returns whether `x` is on a GPU that has the instructions for them."""
    if not x.is_cuda:
        return False
    return torch.cuda.get_device_capability() >= MIN_CAPABILITY
