"""Dense layers by oneDNN against PyTorch's own in float64."""

from itertools import product
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from bert_from_scratch.embeddings.linear import Linear
from bert_from_scratch.kernels import dense as room
from bert_from_scratch.kernels.dense import (
    dense,
    multiply_columns,
    onednn_is_faster,
)

from .test_attention import distance

SHAPES = [
    ((70,), 96, 200),  # 结果更宽：转置着算
    ((9,), 96, 200),
    ((70,), 200, 96),
    ((3, 5), 33, 17),
    ((1,), 8, 300),
]


@pytest.fixture(autouse=True)
def always_by_onednn(monkeypatch: pytest.MonkeyPatch) -> None:
    if not hasattr(torch.ops.mkldnn, "_linear_pointwise"):
        pytest.skip("this PyTorch has no oneDNN")
    monkeypatch.setattr(room, "MIN_SIZE", 0)
    monkeypatch.setattr(room, "onednn_is_faster", lambda: True)


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[torch.Size]:
    """Notes every product by oneDNN."""
    found: list[torch.Size] = []
    multiply = room.multiply

    def note(*parts: Tensor) -> Tensor:
        found.append(parts[0].shape)
        return multiply(*parts)

    monkeypatch.setattr(room, "multiply", note)
    return found


@pytest.mark.parametrize(
    ("shape", "has_bias"), list(product(SHAPES, [True, False]))
)
def test_numbers_and_gradients_are_those_of_a_linear_layer(
    shape: tuple[tuple[int, ...], int, int],
    has_bias: bool,
    calls: list[torch.Size],
) -> None:
    rows, width_in, width_out = shape
    torch.manual_seed(0)
    inputs = [
        torch.randn(*rows, width_in, requires_grad=True),
        torch.randn(width_out, width_in, requires_grad=True),
        *([torch.randn(width_out, requires_grad=True)] if has_bias else []),
    ]
    grad = torch.randn(*rows, width_out)
    exact = [x.detach().double().requires_grad_() for x in inputs]
    expected = F.linear(*exact)
    found = dense(*inputs)
    assert found.shape == expected.shape
    assert distance(found, expected) < 1e-6
    for mine, other in zip(
        torch.autograd.grad(found, inputs, grad),
        torch.autograd.grad(expected, exact, grad.double()),
        strict=True,
    ):
        assert mine.shape == other.shape
        assert distance(mine, other) < 1e-6
    assert len(calls) == 3


def test_it_takes_what_is_not_contiguous() -> None:
    torch.manual_seed(0)
    x, weight = torch.randn(96, 70).t(), torch.randn(96, 40).t()
    found = dense(x, weight)
    assert distance(found, x.double() @ weight.double().t()) < 1e-6


def test_a_frozen_weight_gets_no_gradient_and_costs_no_product(
    calls: list[torch.Size],
) -> None:
    x = torch.randn(5, 6, requires_grad=True)
    weight = torch.randn(7, 6)
    dense(x, weight).sum().backward()
    assert weight.grad is None
    assert len(calls) == 2


def test_gradients_come_out_in_the_layout_of_their_weights() -> None:
    # 转置着算出的梯度若原样留下，优化器每一步都会变慢
    weight = torch.randn(200, 96, requires_grad=True)
    dense(torch.randn(70, 96), weight).sum().backward()
    assert weight.grad is not None
    assert weight.grad.is_contiguous()


def test_both_ways_to_multiply_columns_agree(calls: list[torch.Size]) -> None:
    torch.manual_seed(0)
    left, right = torch.randn(300, 64), torch.randn(300, 16)
    wide, narrow = multiply_columns(left, right), multiply_columns(right, left)
    # 两次站在左边的都是窄的那个
    assert calls == [(16, 300), (16, 300)]
    assert distance(wide, left.double().t() @ right.double()) < 1e-6
    assert torch.equal(wide, narrow.t())


def test_the_same_product_twice_is_the_same_bit_for_bit() -> None:
    torch.manual_seed(0)
    x, weight = torch.randn(333, 128), torch.randn(512, 128)
    assert torch.equal(dense(x, weight), dense(x, weight))


@pytest.mark.parametrize("why", ["float64", "small", "autocast", "MKL"])
def test_it_leaves_to_pytorch_what_is_not_its_own(
    why: str, calls: list[torch.Size], monkeypatch: pytest.MonkeyPatch
) -> None:
    dtype = torch.float64 if why == "float64" else torch.float32
    x, weight = torch.randn(8, 16, dtype=dtype), torch.randn(4, 16, dtype=dtype)
    if why == "small":
        monkeypatch.setattr(room, "MIN_SIZE", 8 * 16 * 4 + 1)
    if why == "MKL":
        monkeypatch.setattr(room, "onednn_is_faster", lambda: False)
    with torch.autocast("cpu", torch.bfloat16, enabled=why == "autocast"):
        found = dense(x, weight)
        assert torch.equal(found, F.linear(x, weight))
    assert found.dtype == (torch.bfloat16 if why == "autocast" else dtype)
    assert not calls


@pytest.mark.parametrize(
    ("capability", "info", "expected"),
    [
        ("AVX512", "processor\t: 0\nvendor_id\t: AuthenticAMD\n", True),
        ("AVX512", "processor\t: 0\nvendor_id\t: GenuineIntel\n", False),
        ("AVX2", "processor\t: 0\nvendor_id\t: AuthenticAMD\n", False),
        ("AVX512", "processor\t: 0\n", False),
    ],
    ids=["AMD", "Intel", "AMD without AVX-512", "unknown"],
)
def test_onednn_is_faster_where_mkl_does_not_use_the_processor(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capability: str,
    info: str,
    expected: bool,
) -> None:
    path = tmp_path / "cpuinfo"
    path.write_text(info)
    monkeypatch.setattr(room, "CPU_INFO_PATH", path)
    monkeypatch.setattr(torch.backends.mkl, "is_available", lambda: True)
    monkeypatch.setattr(
        torch.backends.cpu, "get_cpu_capability", lambda: capability
    )
    assert onednn_is_faster.__wrapped__() == expected
    monkeypatch.setattr(torch.backends.mkl, "is_available", lambda: False)
    assert not onednn_is_faster.__wrapped__()


def test_an_empty_product_is_empty() -> None:
    nothing = torch.zeros(0, 6, requires_grad=True)
    weight = torch.randn(7, 6, requires_grad=True)
    found = dense(nothing, weight)
    assert found.shape == (0, 7)
    found.sum().backward()
    assert weight.grad is not None
    assert not weight.grad.any()


def test_gradients_of_gradients_are_those_of_a_linear_layer() -> None:
    torch.manual_seed(0)
    inputs = [torch.randn(5, 6, requires_grad=True) for _ in range(2)]
    results = []
    for function in (dense, F.linear):
        total = function(*inputs).square().sum()
        first = torch.autograd.grad(total, inputs, create_graph=True)
        squares = torch.stack([g.square().sum() for g in first]).sum()
        results.append(torch.autograd.grad(squares, inputs))
    for mine, other in zip(*results, strict=True):
        assert distance(mine, other) < 1e-6


def test_it_can_be_exported_and_transformed() -> None:
    layer = Linear(6, 7)
    x = torch.randn(5, 6)
    program = torch.export.export(layer, (x,))
    assert "mkldnn" not in str(program.graph)
    torch.testing.assert_close(program.module()(x), layer(x))
    rows = torch.func.vmap(layer)(x[:, None])[:, 0]
    torch.testing.assert_close(rows, layer(x))
