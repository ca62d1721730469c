"""The attention kernel against PyTorch's own, and against itself."""

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from .conftest import DEVICE, DTYPE, HALF_TOLERANCE, HAS_GPU, TOLERANCE

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


@pytest.mark.parametrize(
    ("dtype", "tolerance"),
    {DTYPE: TOLERANCE, torch.bfloat16: HALF_TOLERANCE}.items(),
)
def test_values_and_gradients_are_those_of_plain_attention(
    lengths: list[int],
    attend: Callable[..., Tensor],
    dtype: torch.dtype,
    tolerance: float,
) -> None:
    qkv, starts, grad = make(lengths)
    qkv, grad = qkv.to(dtype), grad.to(dtype)
    exact = qkv.double().requires_grad_()
    expected = attend_plainly(exact, lengths)
    (expected_gradient,) = torch.autograd.grad(expected, exact, grad.double())
    qkv.requires_grad_()
    bias = torch.zeros(3 * NUM_HEADS * WIDTH, device=DEVICE, requires_grad=True)
    found = attend(qkv, bias, starts, max(lengths))
    gradient, bias_gradient = torch.autograd.grad(found, (qkv, bias), grad)
    assert distance(found, expected) < tolerance
    for part in range(3):
        assert (
            distance(gradient[:, part], expected_gradient[:, part]) < tolerance
        )
    # 键的偏置理论上没有梯度，查询的也小：误差以全部梯度的大小为尺
    error = bias_gradient.double() - expected_gradient.sum(0).flatten()
    scale = expected_gradient.norm() * len(qkv) ** 0.5
    assert float(error.norm() / scale) < tolerance


@pytest.mark.parametrize("dropout", [0.0, 0.3])
def test_some_queries_alone_find_and_get_what_they_do_among_all(
    lengths: list[int], attend: Callable[..., Tensor], dropout: float
) -> None:
    from bert_from_scratch.kernels.attention import attend_from

    qkv, starts, grad = make(lengths)
    # 有的序列一个查询也没有，有的首尾都有，还有重复的
    places = torch.arange(0, len(qkv), 3, device=DEVICE)
    places = torch.cat((places, places[-1:]))
    query_starts = torch.searchsorted(places, starts).int()
    rows = torch.arange(len(qkv), device=DEVICE)
    if dropout:
        # 丢弃由行号决定：只留下每条序列开头的查询，行号才与全体的相同
        begins = starts[torch.searchsorted(starts, rows, right=True) - 1]
        places = rows[rows - begins < 5]
        query_starts = torch.searchsorted(places, starts).int()
    qkv.requires_grad_()
    bias = torch.zeros(3 * NUM_HEADS * WIDTH, device=DEVICE, requires_grad=True)
    queries, kv = qkv[:, 0].index_select(0, places), qkv[:, 1:].contiguous()
    results = []
    for is_whole in (True, False):
        torch.manual_seed(0)
        if is_whole:
            mixed = attend(qkv, bias, starts, max(lengths), dropout)[places]
        else:
            mixed = attend_from(
                *(queries, kv, bias, query_starts, starts),
                *(max(lengths), dropout),
            )
        results.append(
            [mixed, *torch.autograd.grad(mixed, (qkv, bias), grad[places])]
        )
    for whole, part in zip(*results, strict=True):
        assert distance(part, whole) < TOLERANCE


def test_more_queries_than_words_in_one_sequence_are_all_answered() -> None:
    from bert_from_scratch.kernels.attention import attend, attend_from

    lengths = [20, 7]
    qkv, starts, grad = make(lengths)
    # 没用上的槽位都指向第一个词：远多于整条序列的词数
    places = torch.tensor([*[0] * 200, 3, 19, 22, 26, 26], device=DEVICE)
    query_starts = torch.searchsorted(places, starts).int()
    # 两百份梯度在 float32 里相加，半精度的舍入才不会盖过差别
    leaf = qkv.float().requires_grad_()
    bias = torch.zeros(3 * NUM_HEADS * WIDTH, device=DEVICE)
    whole = attend(leaf.to(DTYPE), bias, starts, 20).float()[places]
    part = attend_from(
        leaf[:, 0].index_select(0, places).to(DTYPE),
        leaf[:, 1:].to(DTYPE).contiguous(),
        bias,
        query_starts,
        starts,
        20,
    ).float()
    assert distance(part, whole) < TOLERANCE
    gradients = [
        torch.autograd.grad(mixed, leaf, grad[places].float())[0]
        for mixed in (whole, part)
    ]
    assert distance(*reversed(gradients)) < TOLERANCE


def test_rows_with_gaps_between_are_read_and_differentiated_all_the_same() -> (
    None
):
    from bert_from_scratch.kernels.attention import attend, attend_from

    qkv, starts, grad = make([20, 7])
    bias = torch.zeros(3 * NUM_HEADS * WIDTH, device=DEVICE)
    wide = torch.cat((qkv, qkv[:, :1]), 1).requires_grad_()
    with_gaps = wide[:, :3]
    assert not with_gaps.is_contiguous()
    leaf = qkv.clone().requires_grad_()
    pairs = [
        (attend(with_gaps, bias, starts, 20), attend(leaf, bias, starts, 20)),
        (
            attend_from(
                *(with_gaps[:, 0], with_gaps[:, 1:], bias),
                *(starts, starts, 20),
            ),
            attend(leaf, bias, starts, 20),
        ),
    ]
    for found, expected in pairs:
        assert distance(found, expected) < TOLERANCE
        (gradient,) = torch.autograd.grad(found, wide, grad)
        (right,) = torch.autograd.grad(expected, leaf, grad)
        assert distance(gradient[:, :3], right) < TOLERANCE
        assert not gradient[:, 3].any()


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


def test_every_head_leaves_out_other_weights(
    attend: Callable[..., Tensor],
) -> None:
    length = 128
    starts = torch.tensor([0, length]).int().to(DEVICE)
    qkv = torch.zeros(length, 3, 2, length, device=DEVICE, dtype=DTYPE)
    qkv[:, 2] = torch.eye(length)[:, None].to(DEVICE, DTYPE)
    weights = attend(qkv, qkv.new_zeros(1), starts, length, 0.25)
    one, other = (weights == 0).unbind(1)
    # 两个头各丢各的：碰巧相同的占 0.25 ** 2 + 0.75 ** 2
    assert (one == other).float().mean().item() == pytest.approx(
        0.625, abs=0.03
    )


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
