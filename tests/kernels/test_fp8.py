"""Dense layers in fp8 against those in float64."""

from dataclasses import replace
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from bert_from_scratch import BertConfig, BertModel
from bert_from_scratch.embeddings.linear import Linear, train_in_fp8
from bert_from_scratch.errors import BertError
from bert_from_scratch.kernels import fp8
from bert_from_scratch.model.block import FeedForward

from .conftest import DEVICE, require_fp8
from .test_attention import distance

CONFIG = BertConfig(
    vocab_size=40,
    hidden_size=64,
    num_hidden_layers=2,
    num_attention_heads=2,
    intermediate_size=128,
    max_position_embeddings=16,
    hidden_dropout_prob=0.0,
    attention_probs_dropout_prob=0.0,
)
# 尾数三位，每个数的舍入误差均匀地在 1/16 以内
ROUNDING = 0.05


def make(rows: int = 48) -> tuple[Tensor, Tensor, Tensor]:
    """Returns x, weight and bias, float32."""
    torch.manual_seed(0)
    shapes = (rows, 64), (32, 64), (32,)
    x, weight, bias = (torch.randn(shape, device=DEVICE) for shape in shapes)
    return x, weight, bias


@pytest.fixture(autouse=True)
def skip_without_fp8() -> None:
    require_fp8()


@pytest.mark.parametrize("has_bias", [True, False])
def test_numbers_and_gradients_are_near_those_of_a_linear_layer(
    has_bias: bool,
) -> None:
    leaves = [leaf.requires_grad_() for leaf in make()]
    if not has_bias:
        leaves.pop()
    grad = torch.randn(48, 32, device=DEVICE).bfloat16()
    halves = [leaf.bfloat16() for leaf in leaves]
    found = fp8.dense(*halves)
    expected = F.linear(*(leaf.double() for leaf in leaves))
    # 既要近，又不能太近：太近就说明没有用 fp8
    assert 0.005 < distance(found, expected) < ROUNDING
    parts = torch.autograd.grad(found, leaves, grad)
    right = torch.autograd.grad(expected, leaves, grad.double())
    assert 0.005 < distance(parts[0], right[0]) < ROUNDING
    # 权重与偏置的梯度仍是半精度的
    for part, exact in zip(parts[1:], right[1:], strict=True):
        assert distance(part, exact) < 0.005


def test_feed_forward_is_near_that_of_linear_layers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    products = []
    multiply = fp8.multiply

    def note(left: fp8.Rows, *others: Any) -> Tensor:
        products.append(tuple(left[0].shape))
        return multiply(left, *others)

    monkeypatch.setattr(fp8, "multiply", note)
    torch.manual_seed(0)
    shapes = (48, 64), (128, 64), (128,), (64, 128), (64,)
    leaves = [torch.randn(s, device=DEVICE).requires_grad_() for s in shapes]
    grad = torch.randn(48, 64, device=DEVICE).bfloat16()
    found = fp8.feed_forward(*(leaf.bfloat16() for leaf in leaves))
    x, expand, expand_bias, contract, contract_bias = (
        leaf.double() for leaf in leaves
    )
    inner = F.gelu(F.linear(x, expand, expand_bias))
    expected = F.linear(inner, contract, contract_bias)
    assert 0.005 < distance(found, expected) < 0.1
    parts = torch.autograd.grad(found, leaves, grad)
    right = torch.autograd.grad(expected, leaves, grad.double())
    for part, exact in zip(parts, right, strict=True):
        assert distance(part, exact) < 0.1
    # 去与回的两次乘法都在 fp8 里，最后的偏置只是半精度的和
    assert products == [(48, 64), (48, 128), (48, 64), (48, 128)]
    assert distance(parts[4], right[4]) < 0.005


def test_every_row_keeps_its_own_digits() -> None:
    x, weight, _ = make()
    scales = torch.logspace(-8, 8, 48, device=DEVICE)[:, None]
    found = fp8.dense((x * scales).bfloat16().requires_grad_(), weight)
    expected = F.linear((x * scales).double(), weight.double())
    for row, right in zip(found, expected, strict=True):
        assert distance(row, right) < 0.1


def test_rows_of_zeros_and_no_rows_at_all_are_no_trouble() -> None:
    _, weight, bias = (part.bfloat16() for part in make())
    x = torch.zeros(16, 64, device=DEVICE, dtype=torch.bfloat16)
    x.requires_grad_()
    found = fp8.dense(x, weight, bias)
    assert torch.equal(found, bias.expand(16, 32))
    found.sum().backward()
    assert x.grad is not None
    assert x.grad.isfinite().all()
    assert distance(x.grad, weight.double().sum(0).expand(16, 64)) < ROUNDING
    nothing = torch.empty(0, 64, device=DEVICE, dtype=torch.bfloat16)
    nothing.requires_grad_()
    for found in (
        fp8.dense(nothing, weight, bias),
        fp8.feed_forward(nothing, weight, bias, weight.t(), weight[0]),
    ):
        assert len(found) == 0
        found.sum().backward()
        assert nothing.grad is not None
        assert nothing.grad.shape == (0, 64)


def test_what_is_not_learnt_from_is_not_rounded() -> None:
    x, weight, bias = make()
    with torch.no_grad():
        found = fp8.dense(x, weight, bias)
    assert torch.equal(found, F.linear(x, weight, bias))


def test_any_number_of_dimensions_comes_back() -> None:
    x, weight, bias = make()
    rows = x.bfloat16().requires_grad_()
    flat = fp8.dense(rows, weight, bias)
    assert torch.equal(
        fp8.dense(rows.view(6, 8, 64), weight, bias), flat.view(6, 8, 32)
    )


def test_only_layers_inside_whose_widths_are_aligned_change() -> None:
    model = BertModel(replace(CONFIG, intermediate_size=40))
    train_in_fp8(model.encoder)
    changed = {
        name
        for name, layer in model.named_modules()
        if isinstance(layer, Linear) and layer.dense is fp8.dense
    }
    assert changed == {
        f"encoder.blocks.{number}.attention.{name}"
        for number in range(2)
        for name in ("qkv", "output")
    }


def test_a_model_that_learns_in_fp8_is_near_one_that_does_not() -> None:
    torch.manual_seed(0)
    model = BertModel(CONFIG).to(DEVICE).train()
    ids = torch.randint(40, (48,), device=DEVICE)
    starts = torch.tensor([0, 16, 32, 48], dtype=torch.int32, device=DEVICE)
    results = []
    for is_fp8 in (False, True):
        if is_fp8:
            train_in_fp8(model.encoder)
        model.zero_grad()
        with torch.autocast(DEVICE, torch.bfloat16):
            output = model(ids, cu_seqlens=starts, max_seqlen=16)
        output.pooled.float().square().sum().backward()
        gradients = [p.grad for p in model.parameters() if p.grad is not None]
        results.append([output.hidden_state, *gradients])
    for plain, rounded in zip(*results, strict=True):
        assert 0 < distance(rounded, plain) < 0.15


@pytest.mark.parametrize("activation", ["gelu", "gelu_new", "relu"])
def test_the_pair_of_layers_is_one_only_where_it_learns_with_this_gelu(
    activation: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = []
    feed_forward = fp8.feed_forward

    def note(*parts: Tensor) -> Tensor:
        calls.append(len(parts))
        return feed_forward(*parts)

    monkeypatch.setattr(fp8, "feed_forward", note)
    torch.manual_seed(0)
    config = replace(CONFIG, hidden_act=activation)
    layers = FeedForward(config).to(DEVICE)
    x = torch.randn(48, 64, device=DEVICE)
    exact = layers(x).detach()
    train_in_fp8(layers)
    found = layers(x.bfloat16().requires_grad_())
    assert len(calls) == (activation == "gelu")
    assert 0.005 < distance(found, exact) < 0.1
    # 不学的时候，与没有换过的一样
    with torch.no_grad():
        assert torch.equal(layers(x), exact)
    assert len(calls) == (activation == "gelu")


def test_layers_that_stay_as_they_are_are_named(
    caplog: pytest.LogCaptureFixture,
) -> None:
    train_in_fp8(Linear(32, 48))
    assert not caplog.messages
    train_in_fp8(torch.nn.Sequential(Linear(32, 48), Linear(40, 48)))
    assert "no effect on 1 of 2 layers" in caplog.text


def test_only_what_is_asked_for_gets_a_gradient() -> None:
    x, weight, bias = make()
    for leaf in (x, weight, bias):
        leaf.requires_grad_()
        found = fp8.dense(x.bfloat16(), weight.bfloat16(), bias.bfloat16())
        found.float().sum().backward()
        assert leaf.grad is not None
        others = [part for part in (x, weight, bias) if part is not leaf]
        assert all(part.grad is None for part in others)
        leaf.requires_grad_(False)
        leaf.grad = None


def test_a_run_in_fp8_without_such_a_gpu_is_refused() -> None:
    from bert_from_scratch.train.defaults import _choose_precision

    with pytest.raises(BertError, match="no fp8 on cpu") as error:
        _choose_precision("fp8", torch.device("cpu"))
    assert "bf16" in str(error.value.hint)
