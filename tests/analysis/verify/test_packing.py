"""Packed sequences that know of each other are found."""

from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from bert_from_scratch.analysis.verify import packing
from bert_from_scratch.analysis.verify.packing import PACKED_EQUALS_PADDED
from bert_from_scratch.analysis.verify.subject import Subject
from bert_from_scratch.analysis.verify.suite import run_check
from bert_from_scratch.data.batch import Batch, TokenSequence, pack
from bert_from_scratch.model.layout import Layout, Packed

from .conftest import judge


def failed_names(subject: Subject) -> list[str]:
    outcome = run_check(PACKED_EQUALS_PADDED, subject)
    assert outcome.verdict == "fail"
    return [m.name.en for m in outcome.measurements if not m.holds]


def test_positions_that_the_model_does_not_restart_fail(
    subject: Subject, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert judge(PACKED_EQUALS_PADDED, subject) == "pass"

    def count_on(self: Packed, num_tokens: int) -> Tensor:
        return torch.arange(num_tokens)

    monkeypatch.setattr(Packed, "position_ids", count_on)
    assert judge(PACKED_EQUALS_PADDED, subject) == "fail"


def test_positions_that_the_batch_does_not_restart_fail(
    subject: Subject, monkeypatch: pytest.MonkeyPatch
) -> None:
    def pack_on(sequences: list[TokenSequence]) -> Batch:
        batch = pack(sequences)
        return replace(batch, position_ids=torch.arange(len(batch.input_ids)))

    monkeypatch.setattr(packing, "pack", pack_on)
    names = failed_names(subject)
    assert "hidden states, packed against padded" in names
    assert "sum of the positions where sequences start" in names


def test_attention_across_sequences_fails(
    subject: Subject, monkeypatch: pytest.MonkeyPatch
) -> None:
    def attend_to_all(
        query: Tensor, key: Tensor, value: Tensor, *rest: object
    ) -> Tensor:
        q, k, v = (x.transpose(0, 1)[None] for x in (query, key, value))
        return F.scaled_dot_product_attention(q, k, v)[0].transpose(0, 1)

    name = "bert_from_scratch.model.attention._attend_by_length"
    monkeypatch.setattr(name, attend_to_all)
    assert judge(PACKED_EQUALS_PADDED, subject) == "fail"


def test_a_pooled_vector_of_another_token_fails(
    subject: Subject, monkeypatch: pytest.MonkeyPatch
) -> None:
    def last_tokens(self: Packed, x: Tensor) -> Tensor:
        return x[self.cu_seqlens[1:].long() - 1]

    monkeypatch.setattr(Packed, "first_tokens", last_tokens)
    names = failed_names(subject)
    assert "pooled vectors, packed against padded" in names
    assert "hidden states, packed against padded" not in names


def test_a_loss_at_other_places_fails(
    subject: Subject, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = subject.pretraining
    assert model is not None
    encoder = model.bert.encoder
    original = encoder.forward

    def shift_packed(
        x: Tensor, layout: Layout, places: Tensor | None = None
    ) -> Tensor:
        if places is not None and isinstance(layout, Packed):
            places = (places + 1) % len(x)
        return original(x, layout, places)

    monkeypatch.setattr(encoder, "forward", shift_packed)
    assert judge(PACKED_EQUALS_PADDED, subject) == "fail"
