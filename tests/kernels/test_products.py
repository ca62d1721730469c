"""Products by the fastest algorithm: the same bits as PyTorch's."""

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor

from .conftest import DEVICE, DTYPE, HAS_GPU

NEEDS_GPU = pytest.mark.skipif(not HAS_GPU, reason="there is no GPU")
# 够大，才会去挑算法
NUM_TOKENS, WIDTH_IN, WIDTH_OUT = 65536, 1024, 512


@pytest.fixture
def room() -> Iterator[Any]:
    """The room, with nothing chosen yet; what others chose is kept."""
    from bert_from_scratch.kernels import products

    kept = dict(products._shapes)
    products._shapes.clear()
    yield products
    products._shapes.clear()
    products._shapes.update(kept)


def draw(*shape: int) -> Tensor:
    return torch.randn(shape, device=DEVICE).to(DTYPE)


@pytest.mark.parametrize("has_bias", [False, True])
def test_small_products_are_pytorchs(room: Any, has_bias: bool) -> None:
    a, b = draw(9, 5), draw(5, 7)
    bias = draw(7) if has_bias else None
    expected = a @ b if bias is None else torch.addmm(bias, a, b)
    assert torch.equal(room.multiply(a, b, bias), expected)
    target = draw(9, 7)
    expected = target.addmm(a, b)
    room.add_product(target, a, b)
    assert torch.equal(target, expected)
    assert not room._shapes


def make_factors(kind: str) -> tuple[Tensor, Tensor]:
    """The three ways in which factors lie in memory."""
    x, weight = draw(NUM_TOKENS, WIDTH_IN), draw(WIDTH_OUT, WIDTH_IN)
    if kind == "forward":
        return x, weight.t()
    grad = draw(NUM_TOKENS, WIDTH_OUT)
    return (grad, weight) if kind == "to the input" else (grad.t(), x)


@NEEDS_GPU
@pytest.mark.parametrize("way", ["alone", "with a bias", "added"])
@pytest.mark.parametrize("kind", ["forward", "to the input", "to the weight"])
def test_what_is_chosen_has_the_bits_of_pytorchs(
    kind: str, way: str, room: Any
) -> None:
    for seed in range(2):
        torch.manual_seed(seed)
        a, b = make_factors(kind)
        target = draw(len(a), b.shape[1])
        bias = draw(b.shape[1]) if way == "with a bias" else None
        ways = list(
            room.find_equals(a, b, bias, target if way == "added" else None)
        )
        plain, *others = ways
        assert plain[0] is None
        assert others or kind == "to the weight"
        for choice, _ in others:
            # 换一批数再比：挑的时候比过的那一批不算
            a, b = make_factors(kind)
            out = draw(len(a), b.shape[1])
            expected = out.addmm(a, b)
            if way != "added":
                expected = room._multiply(a, b, bias)
            product, algorithm = choice
            product.run(algorithm, a, b, bias, out)
            assert torch.equal(out, expected)


def prefer_the_last(ways: list[Any]) -> list[float]:
    """Times by which the library's last algorithm wins, not PyTorch's."""
    return [float(number) for number in range(len(ways), 0, -1)]


@NEEDS_GPU
def test_a_product_is_added_by_what_was_chosen(
    room: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(room, "SIGHTINGS", 1)
    monkeypatch.setattr(room, "measure", prefer_the_last)
    a, b = make_factors("to the input")
    for _ in range(3):
        target = draw(NUM_TOKENS, WIDTH_IN)
        expected = target.addmm(a, b)
        room.add_product(target, a, b)
        assert torch.equal(target, expected)
    (shape,) = room._shapes.values()
    assert shape.choice is not None


@NEEDS_GPU
def test_it_is_chosen_once_a_shape_has_come_often_enough(
    room: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried = []
    try_each = room._try_each

    def note(*parts: Any) -> Any:
        tried.append(parts)
        return try_each(*parts)

    monkeypatch.setattr(room, "_try_each", note)
    a, b = make_factors("forward")
    expected = a @ b
    for sighting in range(1, room.SIGHTINGS + 5):
        assert torch.equal(room.multiply(a, b), expected)
        assert len(tried) == (sighting >= room.SIGHTINGS)
    # 别的形状另算
    room.multiply(a, b.repeat(1, 2))
    assert len(room._shapes) == 2


@NEEDS_GPU
def test_nothing_is_timed_while_a_graph_is_recorded(
    room: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(room, "SIGHTINGS", 2)
    monkeypatch.setattr(room, "measure", prefer_the_last)
    a, b = make_factors("forward")
    expected = room.multiply(a, b)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        recorded = room.multiply(a, b)
    graph.replay()
    assert torch.equal(recorded, expected)
    (shape,) = room._shapes.values()
    assert not shape.is_tried
    room.multiply(a, b)
    assert shape.choice is not None
    # 挑好的算法也录得进去
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        recorded = room.multiply(a, b)
    graph.replay()
    assert torch.equal(recorded, expected)


@NEEDS_GPU
def test_without_the_library_products_are_pytorchs(
    room: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from bert_from_scratch.kernels import cublaslt

    def load() -> None:
        raise RuntimeError("no such library")

    monkeypatch.setattr(room, "SIGHTINGS", 1)
    monkeypatch.setattr(cublaslt, "_load", load)
    a, b = make_factors("forward")
    assert torch.equal(room.multiply(a, b), a @ b)
    (shape,) = room._shapes.values()
    assert shape.is_tried
    assert shape.choice is None


@NEEDS_GPU
def test_memory_that_runs_out_while_timing_is_no_error(
    room: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def measure(_: Any) -> None:
        raise torch.OutOfMemoryError

    monkeypatch.setattr(room, "SIGHTINGS", 1)
    monkeypatch.setattr(room, "measure", measure)
    a, b = make_factors("forward")
    assert torch.equal(room.multiply(a, b), a @ b)


@NEEDS_GPU
def test_a_result_of_zeros_proves_nothing(
    room: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(room, "SIGHTINGS", 1)
    a, b = make_factors("forward")
    room.multiply(torch.zeros_like(a), b)
    (shape,) = room._shapes.values()
    assert shape.choice is None


@NEEDS_GPU
def test_what_is_not_aligned_is_left_to_pytorch(room: Any) -> None:
    numbers = draw(NUM_TOKENS * WIDTH_IN + 8)
    a, b = numbers[8:].view(NUM_TOKENS, WIDTH_IN), draw(WIDTH_IN, WIDTH_OUT)
    assert torch.equal(room.multiply(a, b), a @ b)
    assert not room._shapes
