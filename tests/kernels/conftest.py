"""Where the kernels are tried: a GPU, or else Triton's interpreter on a CPU."""

import os
from typing import Any

import numpy as np
import pytest
import torch

HAS_GPU = torch.cuda.is_available()
DEVICE = "cuda" if HAS_GPU else "cpu"
DTYPE = torch.bfloat16 if HAS_GPU else torch.float32
HALF_TOLERANCE = 6e-3
TOLERANCE = HALF_TOLERANCE if HAS_GPU else 1e-5

if not HAS_GPU:
    # 必须早于第一次导入 triton
    os.environ["TRITON_INTERPRET"] = "1"


@pytest.fixture(scope="session", autouse=True)
def repair_interpreter() -> None:
    """Lets Triton's interpreter multiply bfloat16 numbers.

    It keeps their bits as integers, and multiplies those.
    """
    if HAS_GPU:
        return
    interpreter = pytest.importorskip("triton.runtime.interpreter")
    from triton import language

    builder = interpreter.InterpreterBuilder
    multiply = builder.create_dot

    def widen(x: Any) -> Any:
        if x.dtype.scalar != language.bfloat16:
            return x
        numbers = (x.data.astype(np.uint32) << 16).view(np.float32)
        return interpreter.TensorHandle(numbers, language.float32)

    def create_dot(self: Any, a: Any, b: Any, d: Any, *rest: Any) -> Any:
        return multiply(self, widen(a), widen(b), d, *rest)

    builder.create_dot = create_dot


@pytest.fixture(autouse=True)
def skip_without_triton() -> None:
    pytest.importorskip("triton", reason="Triton is not installed")
