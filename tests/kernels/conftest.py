"""Where the kernels are tried: a GPU, or else Triton's interpreter on a CPU."""

import os

import pytest
import torch

HAS_GPU = torch.cuda.is_available()
DEVICE = "cuda" if HAS_GPU else "cpu"
DTYPE = torch.bfloat16 if HAS_GPU else torch.float32
TOLERANCE = 6e-3 if HAS_GPU else 1e-5

if not HAS_GPU:
    # 必须早于第一次导入 triton
    os.environ["TRITON_INTERPRET"] = "1"


@pytest.fixture(autouse=True)
def skip_without_triton() -> None:
    pytest.importorskip("triton", reason="Triton is not installed")
