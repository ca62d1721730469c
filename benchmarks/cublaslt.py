"""Products of matrices by cuBLASLt, candidate by candidate.

PyTorch asks cuBLAS for a product and takes the first algorithm that it offers.
cuBLASLt, the library below, which PyTorch brings along, offers several, and
can do GELU or its gradient in the last lines of a product. Its functions are
called as they are in C, by `ctypes`.

Letters: M rows and N columns of the result, K what is summed over.
"""

import ctypes
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from bert_from_scratch.errors import BertError

# 名字与数值照 cublasLt.h
LIBRARIES = ("libcublasLt.so.13", "libcublasLt.so.12")
COMPUTE_32F = 68
TYPES = {torch.float32: 0, torch.float16: 2, torch.bfloat16: 14}
TRANSPOSE = 1
DESC_TRANSPOSE_A, DESC_TRANSPOSE_B = 3, 4
DESC_EPILOGUE, DESC_BIAS_POINTER = 7, 8
DESC_AUX_POINTER, DESC_AUX_LEADING = 11, 12
DESC_BIAS_TYPE = 26
PREFERENCE_WORKSPACE = 1
PLAIN, GELU_AUX_BIAS, DGELU_BGRAD = 1, 164, 208
WORKSPACE_BYTES = 32 << 20
ALGORITHM_WORDS = 8


class _Heuristic(ctypes.Structure):
    """cublasLtMatmulHeuristicResult_t."""

    _fields_ = (
        ("algorithm", ctypes.c_uint64 * ALGORITHM_WORDS),
        ("workspace", ctypes.c_size_t),
        ("state", ctypes.c_int),
        ("waves", ctypes.c_float),
        ("reserved", ctypes.c_int * 4),
    )


def load() -> ctypes.CDLL:
    """Returns the library that PyTorch has loaded."""
    for name in LIBRARIES:
        try:
            return ctypes.CDLL(name)
        except OSError:
            continue
    raise BertError("PyTorch has brought no cuBLASLt along.")


@dataclass
class Product:
    """out = a @ b, or out += a @ b, or with an epilogue.

    Attributes:
        a: [M, K], either dimension contiguous.
        b: [K, N], the same.
        out: [M, N], contiguous.
        adds: Whether what is in `out` is added to.
        epilogue: PLAIN; GELU_AUX_BIAS: out = GELU(aux), aux = a @ b + bias;
            DGELU_BGRAD: out = a @ b times GELU's slope at `aux`, and `bias`
            receives the sum of its rows.
        bias: [N].
        aux: [M, N], contiguous.
        algorithm: One of `candidates`.
    """

    a: Tensor
    b: Tensor
    out: Tensor
    adds: bool = False
    epilogue: int = PLAIN
    bias: Tensor | None = None
    aux: Tensor | None = None
    algorithm: Any = None
    library: ctypes.CDLL = field(default_factory=load)

    def __post_init__(self) -> None:
        """Describes the product to the library."""
        self._description = ctypes.c_void_p()
        self._call(
            "cublasLtMatmulDescCreate",
            *(ctypes.byref(self._description), COMPUTE_32F),
            TYPES[torch.float32],
        )
        # cuBLAS 按列存放：行存放的 out 在它眼里是转置，于是两个因子对调
        second = self._describe(self.b, DESC_TRANSPOSE_A)
        first = self._describe(self.a, DESC_TRANSPOSE_B)
        num_rows, num_columns = self.out.shape
        result = self._layout(self.out, num_columns, num_rows, num_columns)
        self._layouts = (second, first, result)
        self._describe_epilogue()

    def _describe_epilogue(self) -> None:
        self._set(DESC_EPILOGUE, ctypes.c_int32(self.epilogue))
        if self.bias is not None:
            kind = ctypes.c_int32(TYPES[self.bias.dtype])
            self._set(DESC_BIAS_TYPE, kind)
            pointer = ctypes.c_void_p(self.bias.data_ptr())
            self._set(DESC_BIAS_POINTER, pointer)
        if self.aux is not None:
            pointer = ctypes.c_void_p(self.aux.data_ptr())
            self._set(DESC_AUX_POINTER, pointer)
            leading = ctypes.c_int64(self.aux.shape[1])
            self._set(DESC_AUX_LEADING, leading)

    def _describe(self, matrix: Tensor, transpose: int) -> ctypes.c_void_p:
        """Describes a factor; says whether the library has to transpose it."""
        num_rows, num_columns = matrix.shape
        if matrix.stride(1) == 1:
            return self._layout(matrix, num_columns, num_rows, matrix.stride(0))
        self._set(transpose, ctypes.c_int32(TRANSPOSE))
        return self._layout(matrix, num_rows, num_columns, matrix.stride(1))

    def _layout(
        self, matrix: Tensor, num_rows: int, num_columns: int, leading: int
    ) -> ctypes.c_void_p:
        layout = ctypes.c_void_p()
        self._call(
            "cublasLtMatrixLayoutCreate",
            *(ctypes.byref(layout), TYPES[matrix.dtype]),
            *(ctypes.c_uint64(num_rows), ctypes.c_uint64(num_columns)),
            ctypes.c_int64(leading),
        )
        return layout

    def _set(self, attribute: int, value: Any) -> None:
        self._call(
            "cublasLtMatmulDescSetAttribute",
            *(self._description, attribute, ctypes.byref(value)),
            ctypes.c_size_t(ctypes.sizeof(value)),
        )

    def _call(self, name: str, *arguments: Any) -> None:
        status = getattr(self.library, name)(*arguments)
        if status:
            raise RuntimeError(f"{name} failed with status {status}")

    def candidates(self, number: int) -> Iterator["Product"]:
        """Yields the product by each algorithm, the library's best first."""
        preference = ctypes.c_void_p()
        self._call("cublasLtMatmulPreferenceCreate", ctypes.byref(preference))
        size = ctypes.c_size_t(WORKSPACE_BYTES)
        self._call(
            "cublasLtMatmulPreferenceSetAttribute",
            *(preference, PREFERENCE_WORKSPACE, ctypes.byref(size)),
            ctypes.c_size_t(ctypes.sizeof(size)),
        )
        found, count = (_Heuristic * number)(), ctypes.c_int()
        self._call(
            "cublasLtMatmulAlgoGetHeuristic",
            *(handle(), self._description, *self._layouts, self._layouts[2]),
            *(preference, number, found, ctypes.byref(count)),
        )
        self._call("cublasLtMatmulPreferenceDestroy", preference)
        for heuristic in found[: count.value]:
            if heuristic.state == 0:
                yield replace(self, algorithm=heuristic.algorithm)

    def run(self, workspace: Tensor) -> None:
        """Hands the product to the GPU.

        Args:
            workspace: WORKSPACE_BYTES on the device.
        """
        one, beta = ctypes.c_float(1.0), ctypes.c_float(float(self.adds))
        second, first, result = self._layouts
        out = ctypes.c_void_p(self.out.data_ptr())
        self._call(
            "cublasLtMatmul",
            *(handle(), self._description, ctypes.byref(one)),
            *(ctypes.c_void_p(self.b.data_ptr()), second),
            *(ctypes.c_void_p(self.a.data_ptr()), first),
            *(ctypes.byref(beta), out, result, out, result),
            *(self.algorithm, ctypes.c_void_p(workspace.data_ptr())),
            ctypes.c_size_t(WORKSPACE_BYTES),
            ctypes.c_void_p(torch.cuda.current_stream().cuda_stream),
        )


def handle() -> ctypes.c_void_p:
    """Returns PyTorch's own handle: cuBLAS's is one of cuBLASLt's, too."""
    return ctypes.c_void_p(torch.cuda.current_blas_handle())
