"""The attention kernel against PyTorch's own, and against itself."""

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from .conftest import DEVICE, DTYPE, HAS_GPU, TOLERANCE

NUM_HEADS, WIDTH = 2, 32
# 空序列、恰好一块、多出一个词，都要试到
CASES = {
    "short": [7, 0, 16, 1, 12, 0],
    "one tile": [128, 1, 0, 127, 64],
    "long": [130, 0, 129, 3, 0, 200],
}


@pytest.fixture(params=CASES)
def lengths(request: pytest.FixtureRequest) -> list[int]:
    return CASES[request.param]


@pytest.fixture
def attend() -> Callable[..., Tensor]:
    from bert_from_scratch.kernels.attention import attend

    return attend


def make(lengths: list[int]) -> tuple[Tensor, Tensor, Tensor]:
    """Returns qkv, starts and a gradient."""
    torch.manual_seed(0)
    starts = torch.tensor([0, *lengths]).cumsum(0).int().to(DEVICE)
    num_tokens = sum(lengths)
    qkv = torch.randn(num_tokens, 3, NUM_HEADS, WIDTH)
    grad = torch.randn(num_tokens, NUM_HEADS, WIDTH)
    return qkv.to(DEVICE, DTYPE), starts, grad.to(DEVICE, DTYPE)


def attend_plainly(qkv: Tensor, lengths: list[int]) -> Tensor:
    mixed = []
    for part in qkv.split([n for n in lengths if n]):
        query, key, value = (x.transpose(0, 1) for x in part.unbind(1))
        one = F.scaled_dot_product_attention(query, key, value)
        mixed.append(one.transpose(0, 1))
    return torch.cat(mixed)


def distance(found: Tensor, expected: Tensor) -> float:
    found, expected = found.detach().double(), expected.detach().double()
    return float((found - expected).norm() / expected.norm())


def test_values_and_gradients_are_those_of_plain_attention(
    lengths: list[int], attend: Callable[..., Tensor]
) -> None:
    qkv, starts, grad = make(lengths)
    exact = qkv.double().requires_grad_()
    expected = attend_plainly(exact, lengths)
    (expected_gradient,) = torch.autograd.grad(expected, exact, grad.double())
    qkv.requires_grad_()
    bias = torch.zeros(3 * NUM_HEADS * WIDTH, device=DEVICE, requires_grad=True)
    found = attend(qkv, bias, starts, max(lengths))
    gradient, bias_gradient = torch.autograd.grad(found, (qkv, bias), grad)
    assert distance(found, expected) < TOLERANCE
    for part in range(3):
        assert (
            distance(gradient[:, part], expected_gradient[:, part]) < TOLERANCE
        )
    # 键的偏置理论上没有梯度，查询的也小：误差以全部梯度的大小为尺
    error = bias_gradient.double() - expected_gradient.sum(0).flatten()
    scale = expected_gradient.norm() * len(qkv) ** 0.5
    assert float(error.norm() / scale) < TOLERANCE


# 解释器会提醒越界的键溢出；内核随后把它们换成零
@pytest.mark.filterwarnings("ignore:.*encountered in:RuntimeWarning")
def test_scores_far_below_zero_do_not_overflow(
    attend: Callable[..., Tensor],
) -> None:
    lengths = [300, 5]
    qkv, starts, grad = make(lengths)
    # 所有打分约为 -600：若不减最大值，或漏遮一个越界的键，就会得到无穷
    qkv[:, 0] = 10
    qkv[:, 1] = -10
    qkv.requires_grad_()
    bias = torch.zeros(3 * NUM_HEADS * WIDTH, device=DEVICE, requires_grad=True)
    found = attend(qkv, bias, starts, 300)
    gradient, bias_gradient = torch.autograd.grad(found, (qkv, bias), grad)
    assert distance(found, attend_plainly(qkv.double(), lengths)) < TOLERANCE
    assert gradient.isfinite().all()
    assert bias_gradient.isfinite().all()


def test_dropout_leaves_out_single_weights(
    attend: Callable[..., Tensor],
) -> None:
    for length in (128, 256):
        starts = torch.tensor([0, length, 2 * length]).int().to(DEVICE)
        qkv = torch.zeros(2 * length, 3, 1, 128, device=DEVICE, dtype=DTYPE)
        eye = torch.eye(length)[:, :128].repeat(2, 1)[:, None]
        qkv[:, 2] = eye.to(DEVICE, DTYPE)
        torch.manual_seed(0)
        weights = attend(qkv, qkv[0, 0, 0], starts, length, 0.25)
        weights = weights.float()[:, 0] * length
        is_dropped = weights == 0
        assert float(is_dropped.float().mean()) == pytest.approx(0.25, abs=0.01)
        assert weights[~is_dropped].mean().item() == pytest.approx(
            4 / 3, rel=0.01
        )
        # 行、列、序列之间互不相干：哪一行也不会整行丢掉
        for axis in (0, 1):
            spread = is_dropped.float().mean(axis).std()
            size = is_dropped.shape[axis]
            assert spread.item() == pytest.approx(
                (0.1875 / size) ** 0.5, rel=0.35
            )
        one, other = is_dropped.split(length)
        assert (one == other).float().mean().item() == pytest.approx(
            0.625, abs=0.03
        )
        torch.manual_seed(1)
        again = attend(qkv, qkv[0, 0, 0], starts, length, 0.25)
        assert ((again == 0)[:, 0] != is_dropped).any()


def test_the_way_back_leaves_out_the_same_weights(
    lengths: list[int], attend: Callable[..., Tensor]
) -> None:
    qkv, starts, grad = make(lengths)
    qkv.requires_grad_()
    bias = torch.zeros(3 * NUM_HEADS * WIDTH, device=DEVICE)
    torch.manual_seed(0)
    mixed = attend(qkv, bias, starts, max(lengths), 0.3)
    (gradient,) = torch.autograd.grad(mixed, qkv, grad)
    # 对值是线性的：<g, A v> = <A' g, v>，只有前后丢弃的相同才成立
    mixed, values = mixed.detach().double(), qkv[:, 2].detach().double()
    forwards = (mixed * grad.double()).sum()
    backwards = (gradient[:, 2].double() * values).sum()
    scale = mixed.norm() * grad.double().norm()
    assert float((forwards - backwards).abs() / scale) < TOLERANCE / 5
    # 对查询与键：沿一个方向的差商
    if not HAS_GPU:
        direction = torch.randn_like(qkv)
        direction[:, 2] = 0
        step = 3e-3
        sides = []
        for sign in (1, -1):
            torch.manual_seed(0)
            moved = qkv.detach() + sign * step * direction
            sides.append(attend(moved, bias, starts, max(lengths), 0.3))
        slope = ((sides[0] - sides[1]).double() * grad).sum() / (2 * step)
        found = (gradient.double() * direction).sum()
        assert slope.item() == pytest.approx(found.item(), rel=0.02, abs=0.05)
