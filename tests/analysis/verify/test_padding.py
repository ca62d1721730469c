"""Padding that leaks is found, on either side."""

import pytest
from torch import Tensor

from bert_from_scratch import BertModel
from bert_from_scratch.analysis.verify.padding import PADDING_INVARIANCE
from bert_from_scratch.analysis.verify.subject import Subject
from bert_from_scratch.analysis.verify.suite import run_check
from bert_from_scratch.model.layout import Layout

from .conftest import judge


def test_unmasked_padding_fails(
    subject: Subject, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert judge(PADDING_INVARIANCE, subject) == "pass"
    name = "bert_from_scratch.model.attention._key_mask"
    monkeypatch.setattr(name, lambda layout: None)
    assert judge(PADDING_INVARIANCE, subject) == "fail"


def test_positions_that_count_the_padding_fail_on_the_left_alone(
    subject: Subject, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = BertModel.embed

    def ignore(
        self: BertModel,
        input_ids: Tensor,
        token_type_ids: Tensor,
        attention_mask: Tensor,
        position_ids: Tensor,
        *rest: None,
    ) -> tuple[Tensor, Layout]:
        return original(self, input_ids, token_type_ids, attention_mask)

    monkeypatch.setattr(BertModel, "embed", ignore)
    outcome = run_check(PADDING_INVARIANCE, subject)
    assert outcome.verdict == "fail"
    assert all(m.holds == ("right" in m.name.en) for m in outcome.measurements)


def test_several_lengths_and_both_amounts_are_measured_on_both_sides(
    subject: Subject,
) -> None:
    names = {
        m.name.en for m in run_check(PADDING_INVARIANCE, subject).measurements
    }
    for length in (1, 2, 7, 32, *map(len, subject.encodings)):
        for amount in (1, 16):
            for side in ("right", "left"):
                assert (
                    f"length {length}, padding of {amount} on the {side}"
                    in names
                )
