"""A [MASK] that attention cannot see is found."""

import pytest
import torch
from torch import Tensor

from bert_from_scratch import BertModel
from bert_from_scratch.analysis.verify.mask_token import MASK_VISIBLE
from bert_from_scratch.analysis.verify.subject import Subject
from bert_from_scratch.model.layout import Layout, Padded

from .conftest import MakeDir, judge


def test_a_model_that_hides_mask_from_attention_fails(
    subject: Subject, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = BertModel.embed
    mask_id = subject.tokenizer.mask_token_id

    def blind(
        self: BertModel, input_ids: Tensor, *args: None, **rest: None
    ) -> tuple[Tensor, Layout]:
        x, _ = original(self, input_ids, *args, **rest)
        return x, Padded(input_ids != mask_id)

    assert judge(MASK_VISIBLE, subject) == "pass"
    monkeypatch.setattr(BertModel, "embed", blind)
    assert judge(MASK_VISIBLE, subject) == "fail"


def test_a_model_that_reads_no_other_token_fails(
    subject: Subject,
) -> None:
    for block in subject.bert.encoder.blocks:
        torch.nn.init.zeros_(block.attention.output.weight)  # type: ignore[union-attr, arg-type]
    assert judge(MASK_VISIBLE, subject) == "fail"


def test_an_attention_mask_of_zero_at_mask_fails(subject: Subject) -> None:
    _, place = subject.hide_one(subject.encodings[1])
    subject.encodings[1].attention_mask[place] = 0
    assert judge(MASK_VISIBLE, subject) == "fail"


def test_a_text_without_mask_gets_one(make_dir: MakeDir) -> None:
    subject = Subject.load(make_dir("tiny"), ["the man reads"])
    assert judge(MASK_VISIBLE, subject) == "pass"
