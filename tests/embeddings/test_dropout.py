"""A tenth becomes 0, the rest grows, the mean stays."""

import pytest
import torch

from bert_from_scratch.embeddings.dropout import Dropout


@pytest.mark.parametrize("p", [0.1, 0.5, 0.9])
def test_shares_and_scale_are_those_of_dropout(p: float) -> None:
    torch.manual_seed(0)
    dropped = Dropout(p)(torch.ones(1000, 1001))
    assert (dropped == 0).float().mean().item() == pytest.approx(p, abs=2e-3)
    kept = dropped[dropped != 0]
    torch.testing.assert_close(kept, torch.full_like(kept, 1 / (1 - p)))


def test_every_lane_of_a_draw_is_fair() -> None:
    torch.manual_seed(0)
    is_zero = Dropout(0.1)(torch.ones(4_000_000)).view(-1, 4) == 0
    shares = is_zero.double().mean(dim=0)
    assert shares.tolist() == pytest.approx([0.1] * 4, abs=1e-3)
    # 相邻的值互不相关：两个都为零的机会是一成的平方
    both = (is_zero[:, 0] & is_zero[:, 1]).double().mean().item()
    assert both == pytest.approx(0.01, abs=5e-4)


def test_the_gradient_passes_where_values_do() -> None:
    torch.manual_seed(0)
    x = torch.randn(100, 7, requires_grad=True)
    dropped = Dropout(0.3)(x)
    dropped.sum().backward()
    assert x.grad is not None
    torch.testing.assert_close(dropped, x * x.grad)


def test_the_seed_decides_and_evaluation_changes_nothing() -> None:
    x = torch.randn(64, 3)
    layer = Dropout(0.1)
    results = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        results.append(layer(x))
    assert torch.equal(results[0], results[1])
    assert not torch.equal(results[0], results[2])
    assert torch.equal(layer.eval()(x), x)
