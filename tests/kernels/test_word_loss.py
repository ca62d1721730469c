"""Scores and loss in one against PyTorch's own functions in float64."""

import math

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from bert_from_scratch.kernels import dense
from bert_from_scratch.kernels import word_loss as room
from bert_from_scratch.kernels.word_loss import usable, word_loss

from .test_attention import distance

NUM_WORDS, WIDTH = 101, 24


@pytest.fixture
def inputs() -> list[Tensor]:
    torch.manual_seed(0)
    sizes = [(13, WIDTH), (NUM_WORDS, WIDTH), (NUM_WORDS,)]
    return [torch.randn(size, requires_grad=True) for size in sizes]


@pytest.fixture
def labels() -> Tensor:
    labels = torch.randint(NUM_WORDS, (13,))
    labels[3] = labels[12] = -100
    return labels


@pytest.mark.parametrize("rows", [1, 4, 100])
def test_loss_and_gradients_are_those_of_pytorch(
    inputs: list[Tensor],
    labels: Tensor,
    rows: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(room, "CHUNK", rows * NUM_WORDS)
    exact = [x.detach().double().requires_grad_() for x in inputs]
    scores = F.linear(*exact)
    labels[1] = scores[1].argmax()
    expected = F.cross_entropy(scores, labels, reduction="sum")
    total, correct = word_loss(inputs[0], inputs[1], inputs[2], labels)
    assert total.item() == pytest.approx(expected.item(), rel=1e-6)
    assert correct.item() == (scores.argmax(1) == labels).sum().item() >= 1
    for mine, other in zip(
        torch.autograd.grad(total / 7, inputs),
        torch.autograd.grad(expected / 7, exact),
        strict=True,
    ):
        assert distance(mine, other) < 1e-6


def test_a_uniform_guess_costs_the_log_of_the_vocabulary() -> None:
    labels = torch.tensor([0, 5])
    zeros = torch.zeros(2, WIDTH), torch.zeros(NUM_WORDS, WIDTH)
    total, correct = word_loss(*zeros, torch.zeros(NUM_WORDS), labels)
    assert total.item() == pytest.approx(2 * math.log(NUM_WORDS))
    # 并列时算第一个，与 argmax 相同
    assert correct.item() == 1


def test_without_labels_loss_and_gradients_are_zero(
    inputs: list[Tensor],
) -> None:
    nothing = torch.full((13,), -100)
    total, correct = word_loss(inputs[0], inputs[1], inputs[2], nothing)
    assert total.item() == correct.item() == 0
    assert not any(g.any() for g in torch.autograd.grad(total, inputs))


def test_huge_scores_do_not_overflow(
    inputs: list[Tensor], labels: Tensor
) -> None:
    total, _ = word_loss(inputs[0] * 1e4, inputs[1], inputs[2], labels)
    assert total.isfinite()
    assert all(g.isfinite().all() for g in torch.autograd.grad(total, inputs))


def test_only_what_learns_gets_a_gradient(
    inputs: list[Tensor], labels: Tensor, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Tensor) -> Tensor:
        raise AssertionError("a product that nobody needs")

    monkeypatch.setattr(room, "multiply_columns", refuse)
    x, words, bias = inputs
    total, _ = word_loss(x, words.detach(), bias, labels)
    total.backward()
    assert x.grad is not None
    assert bias.grad is not None
    assert words.grad is None


def test_it_is_for_float32_on_a_cpu_alone() -> None:
    x = torch.zeros(2, 3)
    assert usable(x)
    assert not usable(x.double())
    assert not usable(x.to("meta"))
    with torch.autocast("cpu", torch.bfloat16):
        assert not usable(x)


@pytest.mark.parametrize("has_onednn", [True, False])
def test_no_position_at_all_costs_nothing(
    inputs: list[Tensor], has_onednn: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dense, "onednn_is_faster", lambda: has_onednn)
    x, words, bias = inputs
    nothing = torch.zeros(0, dtype=torch.long)
    total, correct = word_loss(x[:0], words, bias, nothing)
    total.backward()
    assert total.item() == correct.item() == 0
    for tensor in inputs:
        assert tensor.grad is not None
        assert not tensor.grad.any()
