"""Edges that give NaN, or an error that nobody understands, are found."""

import pytest
from torch import Tensor

from bert_from_scratch import BertError, BertModel
from bert_from_scratch.analysis.verify.boundaries import BOUNDARIES
from bert_from_scratch.analysis.verify.subject import Subject
from bert_from_scratch.analysis.verify.suite import run_check
from bert_from_scratch.model.layout import Padded

from .conftest import judge

BERT = "bert_from_scratch.model.bert"


def failed_names(subject: Subject) -> str:
    outcome = run_check(BOUNDARIES, subject)
    assert outcome.verdict == "fail"
    return "\n".join(m.name.en for m in outcome.measurements if not m.holds)


def test_nan_in_rows_of_padding_alone_fails(
    subject: Subject, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert judge(BOUNDARIES, subject) == "pass"

    def plain_mask(layout: Padded) -> Tensor | None:
        mask = layout.attention_mask
        return None if mask is None else mask.bool()[:, None, None, :]

    name = "bert_from_scratch.model.attention._key_mask"
    monkeypatch.setattr(name, plain_mask)
    # 内核可能自己避开 NaN，于是让它如实算出 0/0
    monkeypatch.setattr(
        "torch.nn.functional.scaled_dot_product_attention", plain_attention
    )
    assert "a row of padding alone" in failed_names(subject)


def plain_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None,
    dropout_p: float,
) -> Tensor:
    scores = query @ key.transpose(-1, -2) * query.shape[-1] ** -0.5
    if attn_mask is not None:
        scores = scores.masked_fill(~attn_mask, float("-inf"))
    return scores.softmax(dim=-1) @ value


def test_a_length_that_nobody_checks_fails(
    subject: Subject, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(BertModel, "_check_length", lambda *args: None)
    monkeypatch.setattr(f"{BERT}._check_ids", lambda *args: None)
    names = failed_names(subject)
    assert "513 tokens, padded" in names
    assert "513 tokens, packed" in names
    assert "the id" in names


def test_an_error_without_the_numbers_fails(
    subject: Subject, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*args: object) -> None:
        if args[1].shape[-1] > 512:  # type: ignore[attr-defined]
            raise BertError("Too long.")

    monkeypatch.setattr(BertModel, "_check_length", refuse)
    assert "513 tokens" in failed_names(subject)


def test_one_token_that_looks_elsewhere_fails(
    subject: Subject, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Tensor, "softmax", lambda x, dim: x.sigmoid())
    assert "[CLS] alone: smallest weight" in failed_names(subject)
