"""GELU and cross-entropy kernels against PyTorch's own functions."""

import pytest
import torch
import torch.nn.functional as F

from .conftest import DEVICE, DTYPE, HAS_GPU, TOLERANCE
from .test_attention import distance


@pytest.mark.parametrize("shape", [(3, 70, 300), (513, 256), (1, 8)])
def test_gelu_is_that_of_pytorch(shape: tuple[int, ...]) -> None:
    from bert_from_scratch.kernels.activation import gelu

    torch.manual_seed(0)
    x = (3 * torch.randn(shape)).to(DEVICE, DTYPE).requires_grad_()
    bias = torch.randn(shape[-1], device=DEVICE, requires_grad=True)
    grad = torch.randn(shape).to(DEVICE, DTYPE)
    exact = x.detach().double().requires_grad_()
    expected = F.gelu(exact + bias.detach())
    (expected_gradient,) = torch.autograd.grad(expected, exact, grad.double())
    found = gelu(x, bias)
    gradient, bias_gradient = torch.autograd.grad(found, (x, bias), grad)
    assert found.dtype == DTYPE
    assert distance(found, expected) < TOLERANCE
    assert distance(gradient, expected_gradient) < TOLERANCE
    total = expected_gradient.flatten(0, -2).sum(0)
    assert distance(bias_gradient, total) < TOLERANCE


def test_gelu_is_right_to_the_last_digit_of_its_type() -> None:
    from bert_from_scratch.kernels.activation import gelu

    x = torch.linspace(-12, 12, 20_000).view(100, 200).to(DEVICE, DTYPE)
    found = gelu(x, torch.zeros_like(x[0])).double()
    expected = F.gelu(x.double())
    tolerance = 5e-3 if HAS_GPU else 3e-6
    torch.testing.assert_close(found, expected, rtol=tolerance, atol=1e-6)


@pytest.mark.parametrize("num_words", [100, 4096, 9001])
def test_cross_entropy_is_that_of_pytorch(num_words: int) -> None:
    from bert_from_scratch.kernels.cross_entropy import cross_entropy

    torch.manual_seed(0)
    width = -(-num_words // 64) * 64
    logits = torch.randn(13, width).to(DEVICE, DTYPE)
    # 多出的列里放上很大的数：谁看了它们谁就错
    logits[:, num_words:] = 50
    logits.requires_grad_()
    labels = torch.randint(num_words, (13,), device=DEVICE)
    labels[1] = logits[1, :num_words].argmax()
    labels[3] = labels[12] = -100
    exact = logits.detach()[:, :num_words].double().requires_grad_()
    expected = F.cross_entropy(exact, labels, reduction="sum")
    (expected_gradient,) = torch.autograd.grad(expected / 7, exact)
    total, correct = cross_entropy(logits, labels, num_words)
    (gradient,) = torch.autograd.grad(total / 7, logits)
    assert total.item() == pytest.approx(expected.item(), rel=1e-5)
    assert correct.item() == (exact.argmax(1) == labels).sum().item() >= 1
    assert distance(gradient[:, :num_words], expected_gradient) < TOLERANCE
    assert not gradient[:, num_words:].any()
    assert not gradient[3].any()


def test_of_equal_scores_the_first_counts() -> None:
    from bert_from_scratch.kernels.cross_entropy import cross_entropy

    logits = torch.zeros(3, 8192, device=DEVICE, dtype=DTYPE)
    logits[1, [5000, 17, 4097]] = 1
    labels = torch.tensor([0, 17, 5], device=DEVICE)
    _, correct = cross_entropy(logits, labels, 8192)
    assert correct.item() == 2


def test_scores_that_are_part_of_a_wider_table_are_not_written_past() -> None:
    from bert_from_scratch.kernels.cross_entropy import cross_entropy

    torch.manual_seed(0)
    table = torch.randn(6, 128, device=DEVICE).to(DTYPE).requires_grad_()
    labels = torch.randint(100, (6,), device=DEVICE)
    total, _ = cross_entropy(table[:, :100], labels, 100)
    (gradient,) = torch.autograd.grad(total, table)
    exact = table.detach()[:, :100].double().requires_grad_()
    expected = F.cross_entropy(exact, labels, reduction="sum")
    (expected_gradient,) = torch.autograd.grad(expected, exact)
    assert total.item() == pytest.approx(expected.item(), rel=1e-5)
    assert distance(gradient[:, :100], expected_gradient) < TOLERANCE
    assert not gradient[:, 100:].any()
