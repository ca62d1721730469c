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
    """Lets Triton's interpreter compute with bfloat16 as a GPU does.

    It keeps the bits as integers, multiplies those, and cuts float32 off
    where a GPU rounds.
    """
    if HAS_GPU:
        return
    interpreter = pytest.importorskip("triton.runtime.interpreter")
    from triton import language as tl

    builder = interpreter.InterpreterBuilder
    multiply, cast = builder.create_dot, builder.cast_impl

    def widen(x: Any) -> Any:
        if x.dtype.scalar != tl.bfloat16:
            return x
        numbers = (x.data.astype(np.uint32) << 16).view(np.float32)
        return interpreter.TensorHandle(numbers, tl.float32)

    def create_dot(self: Any, a: Any, b: Any, d: Any, *rest: Any) -> Any:
        return multiply(self, widen(a), widen(b), d, *rest)

    def cast_impl(self: Any, x: Any, kind: Any) -> Any:
        if (x.dtype.scalar, kind.scalar) != (tl.float32, tl.bfloat16):
            return cast(self, x, kind)
        numbers = torch.from_numpy(np.ascontiguousarray(x.data)).bfloat16()
        bits = numbers.view(torch.int16).numpy().view(np.uint16)
        return interpreter.TensorHandle(bits, kind.scalar)

    builder.create_dot, builder.cast_impl = create_dot, cast_impl


@pytest.fixture(autouse=True)
def skip_without_triton() -> None:
    pytest.importorskip("triton", reason="Triton is not installed")


def require_fp8() -> None:
    """Skips where rows cannot be multiplied in fp8."""
    from bert_from_scratch.kernels import fp8

    if HAS_GPU:
        if not fp8.exists(torch.device(DEVICE)):
            pytest.skip("this GPU has no fp8")
        return
    x = torch.zeros(16, 16, dtype=torch.bfloat16)
    try:
        fp8.dense(x, x)
    except RuntimeError:
        pytest.skip("this PyTorch multiplies no fp8 rows on a CPU")
