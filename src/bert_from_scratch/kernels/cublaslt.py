"""Products of matrices by cuBLASLt, algorithm by algorithm.

PyTorch brings this library along. Its functions are called as they are in C,
by `ctypes`. A `Product` is for one thread at a time.

Letters: M rows and N columns of the result, K what is summed over.
"""

import ctypes
import os
from functools import cache
from typing import Any

import torch
from torch import Tensor

# 数值照 cublasLt.h
COMPUTE_32F = 68
TYPES = {torch.float32: 0, torch.float16: 2, torch.bfloat16: 14}
TRANSPOSE = 1
DESC_TRANSPOSE_A, DESC_TRANSPOSE_B = 3, 4
DESC_EPILOGUE, DESC_BIAS_POINTER, DESC_BIAS_TYPE = 7, 8, 26
PREFERENCE_WORKSPACE = 1
WITH_BIAS = 4
WORKSPACE_BYTES = 32 << 20
ALGORITHM_WORDS = 8
# 找算法时，库以为每个矩阵都从这么多字节的倍数开始
ALIGNMENT = 256

Algorithm = Any


class _Heuristic(ctypes.Structure):
    """cublasLtMatmulHeuristicResult_t."""

    _fields_ = (
        ("algorithm", ctypes.c_uint64 * ALGORITHM_WORDS),
        ("workspace", ctypes.c_size_t),
        ("state", ctypes.c_int),
        ("waves", ctypes.c_float),
        ("reserved", ctypes.c_int * 4),
    )


@cache
def _load() -> ctypes.CDLL:
    """Returns the library that PyTorch has loaded."""
    version = (torch.version.cuda or "none").split(".")[0]
    # 只认已经载入的那一个：系统里别的版本，不认得 PyTorch 的句柄
    mode = os.RTLD_NOW | getattr(os, "RTLD_NOLOAD", 0)
    try:
        return ctypes.CDLL(f"libcublasLt.so.{version}", mode)
    except OSError as error:
        raise RuntimeError("PyTorch has loaded no cuBLASLt") from error


def _call(name: str, *arguments: Any) -> None:
    status = getattr(_load(), name)(*arguments)
    if status:
        raise RuntimeError(f"{name} failed with status {status}")


def _handle() -> ctypes.c_void_p:
    """Returns PyTorch's own handle: cuBLAS's is one of cuBLASLt's, too."""
    return ctypes.c_void_p(torch.cuda.current_blas_handle())


class Product:
    """A shape of products, described to the library.

    out = a @ b, out = a @ b + bias, or out += a @ b.
    """

    def __init__(
        self, a: Tensor, b: Tensor, bias: Tensor | None, adds: bool
    ) -> None:
        """Describes a product.

        Args:
            a: [M, K], either dimension contiguous, as in all to come.
            b: [K, N], the same.
            bias: [N]; None: none is added.
            adds: Whether what is in `out` is added to.
        """
        self._adds = adds
        self._description = ctypes.c_void_p()
        _call(
            "cublasLtMatmulDescCreate",
            *(ctypes.byref(self._description), COMPUTE_32F),
            TYPES[torch.float32],
        )
        # cuBLAS 按列存放：行存放的 out 在它眼里是转置，于是两个因子对调
        second = self._describe(b, DESC_TRANSPOSE_A)
        first = self._describe(a, DESC_TRANSPOSE_B)
        num_rows, num_columns = len(a), b.shape[1]
        result = _layout(a.dtype, num_columns, num_rows, num_columns)
        self._layouts = (second, first, result)
        if bias is not None:
            self._set(DESC_EPILOGUE, ctypes.c_int32(WITH_BIAS))
            self._set(DESC_BIAS_TYPE, ctypes.c_int32(TYPES[bias.dtype]))

    def _describe(self, matrix: Tensor, transpose: int) -> ctypes.c_void_p:
        """Describes a factor; says whether the library has to transpose it."""
        num_rows, num_columns = matrix.shape
        if matrix.stride(1) == 1:
            leading = matrix.stride(0)
            return _layout(matrix.dtype, num_columns, num_rows, leading)
        self._set(transpose, ctypes.c_int32(TRANSPOSE))
        return _layout(matrix.dtype, num_rows, num_columns, matrix.stride(1))

    def _set(self, attribute: int, value: Any) -> None:
        _call(
            "cublasLtMatmulDescSetAttribute",
            *(self._description, attribute, ctypes.byref(value)),
            ctypes.c_size_t(ctypes.sizeof(value)),
        )

    def find_algorithms(self, most: int) -> list[Algorithm]:
        """Returns what the library offers, the best by its own guess first."""
        preference = ctypes.c_void_p()
        _call("cublasLtMatmulPreferenceCreate", ctypes.byref(preference))
        size = ctypes.c_size_t(WORKSPACE_BYTES)
        _call(
            "cublasLtMatmulPreferenceSetAttribute",
            *(preference, PREFERENCE_WORKSPACE, ctypes.byref(size)),
            ctypes.c_size_t(ctypes.sizeof(size)),
        )
        found, count = (_Heuristic * most)(), ctypes.c_int()
        try:
            _call(
                "cublasLtMatmulAlgoGetHeuristic",
                *(_handle(), self._description),
                *(*self._layouts, self._layouts[2]),
                *(preference, most, found, ctypes.byref(count)),
            )
        finally:
            _call("cublasLtMatmulPreferenceDestroy", preference)
        offers = found[: count.value]
        return [offer.algorithm for offer in offers if offer.state == 0]

    def run(
        self,
        algorithm: Algorithm,
        a: Tensor,
        b: Tensor,
        bias: Tensor | None,
        out: Tensor,
    ) -> None:
        """Hands a product of this shape to the GPU.

        Args:
            algorithm: One of `find_algorithms`.
            a: [M, K].
            b: [K, N].
            bias: [N], if this shape has one.
            out: [M, N], contiguous.
        """
        if bias is not None:
            self._set(DESC_BIAS_POINTER, _pointer(bias))
        one, beta = ctypes.c_float(1.0), ctypes.c_float(float(self._adds))
        second, first, result = self._layouts
        # 每次现要一块工作区：分配器认得流，几条流同时用也不会撞上
        workspace = a.new_empty(WORKSPACE_BYTES, dtype=torch.uint8)
        _call(
            "cublasLtMatmul",
            *(_handle(), self._description, ctypes.byref(one)),
            *(_pointer(b), second, _pointer(a), first),
            *(ctypes.byref(beta), _pointer(out), result, _pointer(out), result),
            *(algorithm, _pointer(workspace)),
            ctypes.c_size_t(WORKSPACE_BYTES),
            ctypes.c_void_p(torch.cuda.current_stream().cuda_stream),
        )


def _pointer(tensor: Tensor) -> ctypes.c_void_p:
    return ctypes.c_void_p(tensor.data_ptr())


def _layout(
    dtype: torch.dtype, num_rows: int, num_columns: int, leading: int
) -> ctypes.c_void_p:
    layout = ctypes.c_void_p()
    _call(
        "cublasLtMatrixLayoutCreate",
        *(ctypes.byref(layout), TYPES[dtype]),
        *(ctypes.c_uint64(num_rows), ctypes.c_uint64(num_columns)),
        ctypes.c_int64(leading),
    )
    return layout
