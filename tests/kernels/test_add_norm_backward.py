"""The way back of a sum and its LayerNorm, bias and dropout included."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from .conftest import DEVICE, DTYPE, HAS_GPU, TOLERANCE
from .test_attention import distance

EPS = 1e-12
DROPOUT = 0.25
SEED = torch.tensor([12345], device=DEVICE)


def make(num_rows: int, width: int) -> list[Tensor]:
    """Returns x, change, its bias, weight, bias of the norm, and a gradient."""
    torch.manual_seed(0)
    x, change, grad = torch.randn(3, num_rows, width).to(DEVICE, DTYPE)
    vectors = torch.randn(3, width, device=DEVICE).unbind(0)
    return [x, change, *vectors, grad]


def run(
    made: list[Tensor], dropout: float = 0.0
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Returns the result, and the gradients as the kernel gives them."""
    from bert_from_scratch.kernels.add_norm import add_norm
    from bert_from_scratch.kernels.add_norm_backward import add_norm_backward

    x, change, change_bias, weight, bias, grad = made
    found = add_norm(
        *(x, change, weight, bias, EPS),
        change_bias=change_bias,
        dropout=dropout,
        seed=SEED,
    )
    gradients = add_norm_backward(
        grad, x, change, change_bias, weight, EPS, dropout, SEED
    )
    return found, *gradients


def expect(made: list[Tensor], kept: Tensor | float) -> list[Tensor]:
    """Returns the same by PyTorch in float64: result, then gradients."""
    *parts, grad = (part.double() for part in made)
    for part in parts:
        part.requires_grad_()
    x, change, change_bias, weight, bias = parts
    total = x + kept * (change + change_bias)
    found = F.layer_norm(total, total.shape[-1:], weight, bias, EPS)
    gradients = torch.autograd.grad(found, parts, grad)
    of_x, of_change, of_change_bias, of_weight, of_bias = gradients
    return [found, of_x, of_change, of_weight, of_bias, of_change_bias]


@pytest.mark.parametrize("width", [8, 300, 768, 1024, 5000])
@pytest.mark.parametrize("num_rows", [1, 7, 35])
def test_gradients_are_those_of_pytorch(num_rows: int, width: int) -> None:
    made = make(num_rows, width)
    found, of_x, of_change, sums = run(made)
    # 没有 dropout 时两个梯度是同一个：不必写两遍
    assert of_change is of_x
    assert sums.dtype == torch.float32
    assert sums.shape == (3, width)
    everything = [found, of_x, of_change, *sums]
    for one, other in zip(everything, expect(made, 1.0), strict=True):
        # 单独一行时，变化的梯度之和为零：以元素的大小为尺
        assert distance(one, other) < 2 * TOLERANCE


@pytest.mark.parametrize("num_rows", [7, 130])
def test_what_is_left_out_has_no_gradient_and_the_rest_is_scaled(
    num_rows: int,
) -> None:
    made = make(num_rows, 300)
    found, of_x, of_change, sums = run(made, DROPOUT)
    kept = (of_change != 0).double() / (1 - DROPOUT)
    everything = [found, of_x, of_change, *sums]
    for one, other in zip(everything, expect(made, kept), strict=True):
        assert distance(one, other) < 2 * TOLERANCE


def test_dropout_leaves_out_as_many_as_it_says_everywhere() -> None:
    x, change, change_bias, weight, _, grad = make(100, 1024)
    from bert_from_scratch.kernels.add_norm_backward import add_norm_backward

    def find_kept(seed: int) -> Tensor:
        _, of_change, _ = add_norm_backward(
            *(grad, x, change, change_bias, weight, EPS, DROPOUT),
            torch.tensor([seed], device=DEVICE),
        )
        return (of_change != 0).double()

    kept = find_kept(1)
    assert kept.mean().item() == pytest.approx(1 - DROPOUT, abs=0.005)
    for axis in (0, 1):
        # 每行、每列也都如此，散列没有条纹
        means = kept.mean(axis)
        spread = (DROPOUT * (1 - DROPOUT) / kept.shape[axis]) ** 0.5
        assert means.std().item() == pytest.approx(spread, rel=0.2)
    assert torch.equal(kept, find_kept(1))
    agreement = (kept == find_kept(2)).double().mean().item()
    assert agreement == pytest.approx(1 - 2 * DROPOUT * (1 - DROPOUT), abs=0.01)


def test_rows_far_apart_leave_out_different_numbers() -> None:
    from bert_from_scratch.kernels.add_norm import add_norm

    # 散列的位置只给行 16 位：第 65,536 行不能与第 0 行相同
    width, far = 8, 65536
    row = torch.randn(width).to(DEVICE, DTYPE)
    change = row.expand(far + 64, width)
    ones, zeros = torch.ones_like(row), torch.zeros_like(row)
    found = add_norm(
        *(torch.zeros_like(change), change, ones, zeros, EPS),
        dropout=DROPOUT,
        seed=SEED,
    )
    assert not torch.equal(found[:64], found[far:])


@pytest.mark.skipif(not HAS_GPU, reason="row by row, the interpreter is slow")
def test_the_way_back_finds_the_same_numbers_in_far_rows() -> None:
    made = make(70_000, 256)
    found, of_x, of_change, _ = run(made, DROPOUT)
    kept = (of_change != 0).double() / (1 - DROPOUT)
    expected = expect(made, kept)
    for one, other in zip((found, of_x, of_change), expected, strict=False):
        assert distance(one[-99:], other[-99:]) < 2 * TOLERANCE


@pytest.mark.skipif(HAS_GPU, reason="half precision is the GPU's own test")
def test_half_precision_rounds_results_alone() -> None:
    made = make(40, 96)
    half = [part.bfloat16() for part in made[:2]]
    grad = made[-1].bfloat16()
    found, of_x, _, sums = run([*half, *made[2:5], grad])
    exact = [*(part.float() for part in half), *made[2:5], grad.float()]
    expected = expect(exact, 1.0)
    assert found.dtype == of_x.dtype == torch.bfloat16
    for one, other in zip((found, of_x), expected[:2], strict=True):
        assert distance(one, other) < 4e-3
    for one, other in zip(sums, expected[3:], strict=True):
        assert distance(one, other) < 1e-5
