"""Halves of a block as one operator: types, dropout, and compiled."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from bert_from_scratch.kernels import fp8

from .conftest import DEVICE, DTYPE, HAS_GPU, require_fp8
from .test_attention import distance

EPS = 1e-12
NUM_TOKENS, WIDTH, INNER, NUM_HEADS = 40, 32, 64, 2
STARTS = torch.tensor([0, 17, 17, 40], dtype=torch.int32, device=DEVICE)
SHAPES = {
    "qkv": ((3 * WIDTH, WIDTH), (3 * WIDTH,)),
    "output": ((WIDTH, WIDTH), (WIDTH,)),
    "expand": ((INNER, WIDTH), (INNER,)),
    "contract": ((WIDTH, INNER), (WIDTH,)),
    "norm": ((WIDTH,), (WIDTH,)),
}
HALVES = {
    "attention": ("qkv", "output", "norm"),
    "feed forward": ("expand", "contract", "norm"),
}
Half = Callable[..., Tensor]


@pytest.fixture(params=HALVES)
def half(request: pytest.FixtureRequest) -> tuple[Half, list[Tensor]]:
    """One half, and its weights in turn with its biases, float32."""
    from bert_from_scratch.kernels.attention_sublayer import attention_sublayer
    from bert_from_scratch.kernels.feed_forward_sublayer import (
        feed_forward_sublayer,
    )

    torch.manual_seed(0)
    parameters = [
        (0.3 * torch.randn(shape, device=DEVICE)).requires_grad_()
        for name in HALVES[request.param]
        for shape in SHAPES[name]
    ]

    def compute(
        x: Tensor,
        parameters: list[Tensor],
        dropout: float = 0.0,
        attention_dropout: float | None = None,
        in_fp8: bool = False,
    ) -> Tensor:
        first, second, norm = zip(
            parameters[::2], parameters[1::2], strict=True
        )
        if request.param == "attention":
            return attention_sublayer(
                *(x, first, second, norm, STARTS, 23, NUM_HEADS, EPS),
                dropout if attention_dropout is None else attention_dropout,
                dropout,
                in_fp8,
            )
        return feed_forward_sublayer(
            x, first, second, norm, EPS, dropout, in_fp8
        )

    return compute, parameters


def make_input() -> Tensor:
    torch.manual_seed(1)
    return torch.randn(NUM_TOKENS, WIDTH).to(DEVICE, DTYPE).requires_grad_()


class Watch(TorchDispatchMode):
    """Notes where the tensors lie that our operators are given."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.places: list[list[int]] = []

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        if func.namespace == "bert":
            tensors = (one for one in args if isinstance(one, Tensor))
            self.places.append([one.data_ptr() for one in tensors])
        return func(*args, **(kwargs or {}))


def test_no_half_is_given_a_tensor_twice(
    half: tuple[Half, list[Tensor]],
) -> None:
    # 给了两次，PyTorch 2.11 编译十二层就没个完
    compute, parameters = half
    with Watch() as watch:
        compute(make_input(), parameters)
    (places,) = watch.places
    assert len(set(places)) == len(places)


def test_gradients_have_the_types_of_what_they_are_for(
    half: tuple[Half, list[Tensor]],
) -> None:
    compute, parameters = half
    x = make_input().detach().half().requires_grad_()
    found = compute(x, parameters)
    assert found.dtype == torch.float16
    found.square().sum().backward()
    for tensor in (x, *parameters):
        assert tensor.grad is not None
        assert tensor.grad.dtype == tensor.dtype
        assert tensor.grad.shape == tensor.shape
        assert tensor.grad.isfinite().all()


@pytest.mark.skipif(HAS_GPU, reason="differences need float32")
@pytest.mark.parametrize("dropout", [0.0, 0.3])
def test_gradients_are_what_small_changes_show(
    half: tuple[Half, list[Tensor]], dropout: float
) -> None:
    compute, parameters = half
    inputs = [make_input(), *parameters]
    weights = torch.randn(NUM_TOKENS, WIDTH)

    def lose(x: Tensor, *parameters: Tensor) -> Tensor:
        # 同一个种子，丢掉的也就是同样的数
        torch.manual_seed(7)
        return (compute(x, list(parameters), dropout) * weights).sum()

    gradients = torch.autograd.grad(lose(*inputs), inputs)
    step = 1e-3
    for number, gradient in enumerate(gradients):
        torch.manual_seed(number)
        direction = torch.randn_like(inputs[number])
        ends = []
        for sign in (1, -1):
            moved = [part.detach() for part in inputs]
            moved[number] = moved[number] + sign * step * direction
            ends.append(lose(*moved).double())
        slope = (ends[0] - ends[1]).item() / (2 * step)
        expected = (gradient.double() * direction.double()).sum().item()
        assert slope == pytest.approx(expected, rel=2e-2, abs=0.05)


@pytest.mark.parametrize("attention_dropout", [0.0, 0.5])
def test_seeds_decide_what_dropout_leaves_out(
    half: tuple[Half, list[Tensor]], attention_dropout: float
) -> None:
    compute, parameters = half
    x = make_input()

    def run(seed: int) -> Tensor:
        torch.manual_seed(seed)
        return compute(x, parameters, 0.5, attention_dropout)

    assert torch.equal(run(0), run(0))
    assert not torch.allclose(run(0), run(1), atol=1e-3)


@pytest.mark.slow
def test_weights_may_lie_by_columns_when_it_is_compiled(
    half: tuple[Half, list[Tensor]],
) -> None:
    compute, parameters = half
    x = make_input()
    by_columns = [
        p.detach().t().contiguous().t().requires_grad_() if p.dim() == 2 else p
        for p in parameters
    ]
    compiled = torch.compile(compute)
    results = []
    for function, weights in ((compute, parameters), (compiled, by_columns)):
        loss = function(x, weights).float().square().sum()
        results.append(torch.autograd.grad(loss, [x, *weights]))
    for found, expected in zip(*results, strict=True):
        assert distance(found, expected) < 1e-2


def test_nothing_is_kept_for_who_only_wants_the_result(
    half: tuple[Half, list[Tensor]],
) -> None:
    compute, parameters = half
    with torch.no_grad():
        found = compute(make_input(), parameters)
    assert found.grad_fn is None
    assert torch.equal(found, compute(make_input(), parameters))


def test_in_fp8_all_is_near_and_both_products_are_rounded_both_ways(
    half: tuple[Half, list[Tensor]], monkeypatch: pytest.MonkeyPatch
) -> None:
    require_fp8()
    products: list[Tensor] = []
    multiply = fp8.multiply

    def note(*parts: Any) -> Tensor:
        products.append(multiply(*parts))
        return products[-1]

    monkeypatch.setattr(fp8, "multiply", note)
    compute, parameters = half
    weights = torch.randn(NUM_TOKENS, WIDTH, device=DEVICE)
    results = []
    for in_fp8 in (False, True):
        x = make_input()
        found = compute(x, parameters, in_fp8=in_fp8)
        loss = (found * weights).sum()
        results.append([found, *torch.autograd.grad(loss, [x, *parameters])])
        assert len(products) == 4 * in_fp8
    *pairs, bias_of_norm = zip(*results, strict=True)
    for plain, rounded in pairs:
        assert 0 < distance(rounded, plain) < 0.15
    # 只是梯度的和，与乘积无关
    assert torch.equal(*bias_of_norm)


def test_compiled_in_one_graph_it_is_the_same(
    half: tuple[Half, list[Tensor]],
) -> None:
    compute, parameters = half
    torch.compiler.reset()
    compiled = torch.compile(compute, backend="aot_eager", fullgraph=True)
    results = []
    for run in (compute, compiled):
        x = make_input()
        found = run(x, parameters)
        gradients = torch.autograd.grad(found.square().sum(), [x, *parameters])
        results.append([found, *gradients])
    for plain, fast in zip(*results, strict=True):
        assert torch.equal(plain, fast)
