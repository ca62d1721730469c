"""The formula gives figures worked out by hand."""

import math

import pytest
import torch

from bert_from_scratch import BertConfig
from bert_from_scratch.analysis.verify.formula import (
    difference,
    explicit_attention,
    extended_mask,
)
from bert_from_scratch.model.attention import MultiHeadSelfAttention


def test_attention_of_one_cat_is_as_worked_out_by_hand() -> None:
    config = BertConfig(
        vocab_size=10, hidden_size=3, num_attention_heads=1, pad_token_id=None
    )
    attention = MultiHeadSelfAttention(config)
    eye = torch.eye(3)
    swapped = torch.tensor([[1.0, 0, 0], [0, 0, 1], [0, 1, 0]])
    with torch.no_grad():
        attention.qkv.weight.copy_(torch.cat([eye, swapped, 2 * eye]))
        attention.qkv.bias.zero_()
        attention.output.weight.copy_(eye)
        attention.output.bias.zero_()
    x = torch.tensor([[[1.0, 0, 2], [-1, 2, 0]]])
    probabilities, output, allowed = explicit_attention(attention, x, config)
    assert allowed == 1e-5
    assert probabilities[0, 0].tolist() == [
        pytest.approx([0.24, 0.76], abs=0.005),
        pytest.approx([0.76, 0.24], abs=0.005),
    ]
    assert output[0].tolist() == [
        pytest.approx([-1.04, 3.04, 0.96], abs=0.005),
        pytest.approx([1.04, 0.96, 3.04], abs=0.005),
    ]


def test_large_scores_are_allowed_the_rounding_that_comes_with_them() -> None:
    config = BertConfig(
        vocab_size=10, hidden_size=4, num_attention_heads=1, pad_token_id=None
    )
    attention = MultiHeadSelfAttention(config)
    x = torch.randn(1, 5, 4, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        attention.qkv.weight.copy_(100 * torch.eye(4).repeat(3, 1))
        attention.qkv.bias.zero_()
        _, _, allowed = explicit_attention(attention, x, config)
    largest = (100 * x[0] @ (100 * x[0]).T).abs().max().item() / 2
    assert allowed == pytest.approx(1e-5 * largest / 10, rel=1e-5)


def test_the_extended_mask_is_minus_zero_and_the_smallest_number() -> None:
    extended = extended_mask(torch.tensor([[1, 0]]), torch.float32)
    assert extended.shape == (1, 1, 1, 2)
    real, padding = extended.flatten().tolist()
    assert (real, math.copysign(1, real)) == (0.0, -1.0)
    assert padding == -3.4028234663852886e38


def test_a_difference_is_relative_above_one_and_absolute_below() -> None:
    assert difference(torch.tensor([9.0]), torch.tensor([10.0])) == (
        pytest.approx(0.1)
    )
    assert difference(torch.tensor([0.1]), torch.tensor([0.3])) == (
        pytest.approx(0.2)
    )


def test_a_difference_with_nan_in_it_is_nan() -> None:
    broken = torch.tensor([1.0, math.nan])
    assert math.isnan(difference(broken, torch.ones(2)))
    assert math.isnan(difference(torch.ones(2), broken))


def test_a_difference_of_shapes_is_an_error() -> None:
    with pytest.raises(ValueError, match=r"\(2,\) is not \(1,\)"):
        difference(torch.ones(2), torch.ones(1))
