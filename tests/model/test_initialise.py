"""Fresh weights: the distribution that Google's BERT starts from."""

import pytest
import torch
from scipy.stats import kstest, truncnorm

from bert_from_scratch import BertConfig, BertForPreTraining
from bert_from_scratch.model.initialise import draw_cut_normal


def test_numbers_are_normal_and_cut_at_two_deviations() -> None:
    torch.manual_seed(0)
    weight = torch.empty(200, 500)
    draw_cut_normal(weight, 0.02)
    assert weight.abs().max() <= 0.04
    found = kstest(weight.flatten().numpy() / 0.02, truncnorm(-2, 2).cdf)
    assert found.pvalue > 0.01


def test_a_seed_gives_the_same_numbers_whatever_the_version() -> None:
    torch.manual_seed(0)
    weight = torch.empty(4)
    draw_cut_normal(weight, 0.02)
    expected = [-0.000179, 0.013871, -0.024831, -0.020834]
    assert weight.tolist() == pytest.approx(expected, abs=2e-6)


def test_a_fresh_model_is_drawn_so_and_repeats() -> None:
    config = BertConfig.preset("tiny", vocab_size=300)

    def build(seed: int) -> dict[str, torch.Tensor]:
        torch.manual_seed(seed)
        return BertForPreTraining(config).state_dict()

    one, same, other = build(0), build(0), build(1)
    for name, weight in one.items():
        assert torch.equal(weight, same[name])
        if weight.dim() == 2:
            assert not torch.equal(weight, other[name])
            assert weight.abs().max() <= 2 * config.initializer_range
        elif "norm.weight" in name:
            assert torch.equal(weight, torch.ones_like(weight))
        else:
            assert not weight.any(), name


def test_half_precision_has_the_same_numbers_rounded() -> None:
    whole, half = torch.empty(1000), torch.empty(1000, dtype=torch.bfloat16)
    for weight in (whole, half):
        torch.manual_seed(0)
        draw_cut_normal(weight, 0.02)
    assert torch.equal(half, whole.bfloat16())
