"""The checks of attention fail where attention is wrong."""

from functools import partial

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from bert_from_scratch.analysis.verify.attention import (
    EXTENDED_MASK,
    FUSED_ATTENTION,
    SOFTMAX_ROWS,
)
from bert_from_scratch.analysis.verify.check import Check
from bert_from_scratch.analysis.verify.subject import Subject
from bert_from_scratch.analysis.verify.suite import run_check
from bert_from_scratch.model.attention import MultiHeadSelfAttention
from bert_from_scratch.model.layout import Layout

from .conftest import judge

ATTENTION = "bert_from_scratch.model.attention"


@pytest.mark.parametrize(
    "check", [EXTENDED_MASK, SOFTMAX_ROWS, FUSED_ATTENTION]
)
def test_unmasked_padding_fails(
    check: Check, subject: Subject, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert judge(check, subject) == "pass"
    monkeypatch.setattr(f"{ATTENTION}._key_mask", lambda layout: None)
    assert judge(check, subject) == "fail"


def test_a_wrong_scale_in_the_kernel_fails(
    subject: Subject, monkeypatch: pytest.MonkeyPatch
) -> None:
    unscaled = partial(F.scaled_dot_product_attention, scale=1.0)
    monkeypatch.setattr(F, "scaled_dot_product_attention", unscaled)
    assert judge(FUSED_ATTENTION, subject) == "fail"


def test_a_kernel_that_forgets_the_padding_fails_where_there_is_some(
    subject: Subject, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = F.scaled_dot_product_attention

    def forget(q: Tensor, k: Tensor, v: Tensor, **rest: object) -> Tensor:
        return original(q, k, v)

    monkeypatch.setattr(F, "scaled_dot_product_attention", forget)
    outcome = run_check(FUSED_ATTENTION, subject)
    names = [m.name.en for m in outcome.measurements if not m.holds]
    assert names == [
        f"layer {n}: fused output against the formula" for n in (1, 2)
    ]


def test_a_kernel_that_sees_its_neighbourhood_alone_fails(
    subject: Subject, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = F.scaled_dot_product_attention

    def look_near(
        q: Tensor, k: Tensor, v: Tensor, attn_mask: Tensor | None, **_: object
    ) -> Tensor:
        places = torch.arange(q.shape[-2])
        is_near = (places[:, None] - places).abs() <= 64
        mask = is_near if attn_mask is None else is_near & attn_mask
        return original(q, k, v, attn_mask=mask)

    monkeypatch.setattr(F, "scaled_dot_product_attention", look_near)
    outcome = run_check(FUSED_ATTENTION, subject)
    names = [m.name.en for m in outcome.measurements if not m.holds]
    assert names == [
        "all layers, 512 tokens without padding: fused output against the "
        "formula"
    ]


def test_a_scale_by_the_width_of_the_model_fails(
    subject: Subject, monkeypatch: pytest.MonkeyPatch
) -> None:
    scale = subject.config.hidden_size**-0.5
    wrong = partial(F.scaled_dot_product_attention, scale=scale)
    monkeypatch.setattr(F, "scaled_dot_product_attention", wrong)
    assert judge(FUSED_ATTENTION, subject) == "fail"


def test_weights_that_are_not_those_of_the_formula_fail(
    subject: Subject, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = MultiHeadSelfAttention.weights

    def sharper(
        self: MultiHeadSelfAttention, x: Tensor, layout: Layout
    ) -> Tensor:
        squared = original(self, x, layout) ** 2
        return squared / squared.sum(dim=-1, keepdim=True)

    monkeypatch.setattr(MultiHeadSelfAttention, "weights", sharper)
    assert judge(SOFTMAX_ROWS, subject) == "pass"
    assert judge(FUSED_ATTENTION, subject) == "fail"


def test_a_softmax_over_the_wrong_axis_fails(
    subject: Subject, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = Tensor.softmax

    def transposed(x: Tensor, dim: int) -> Tensor:
        return original(x, dim=-2 if x.dim() == 4 else dim)

    monkeypatch.setattr(Tensor, "softmax", transposed)
    assert judge(SOFTMAX_ROWS, subject) == "fail"


def test_a_gate_instead_of_a_softmax_fails(
    subject: Subject, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Tensor, "softmax", lambda x, dim: torch.sigmoid(x))
    assert judge(SOFTMAX_ROWS, subject) == "fail"


def test_an_attention_mask_with_holes_in_it_fails(subject: Subject) -> None:
    subject.encodings[0].attention_mask[1] = 0
    assert judge(EXTENDED_MASK, subject) == "fail"
