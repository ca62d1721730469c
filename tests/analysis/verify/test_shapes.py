"""Shapes and counts are the config's, or the check fails."""

from dataclasses import replace

import pytest
import torch
from torch import nn

from bert_from_scratch import BertConfig, BertForPreTraining, BertModel
from bert_from_scratch.analysis.verify.shapes import (
    SHAPES,
    count_parameters,
    trace,
)
from bert_from_scratch.analysis.verify.subject import Subject
from bert_from_scratch.embeddings.linear import Linear
from bert_from_scratch.model.block import TransformerBlock

from .conftest import judge


def first_block(subject: Subject) -> TransformerBlock:
    block = subject.bert.encoder.blocks[0]
    assert isinstance(block, TransformerBlock)
    return block


def test_a_wider_feed_forward_network_fails(subject: Subject) -> None:
    assert judge(SHAPES, subject) == "pass"
    h, i = subject.config.hidden_size, subject.config.intermediate_size
    first_block(subject).feed_forward.expand = Linear(h, i + 1)
    first_block(subject).feed_forward.contract = Linear(i + 1, h)
    assert judge(SHAPES, subject) == "fail"


def test_a_layer_without_its_bias_fails(subject: Subject) -> None:
    h = subject.config.hidden_size
    first_block(subject).attention.output = Linear(h, h, bias=False)
    assert judge(SHAPES, subject) == "fail"


def test_a_layer_too_few_fails(subject: Subject) -> None:
    del subject.bert.encoder.blocks[1]
    assert judge(SHAPES, subject) == "fail"


def test_a_layer_too_many_fails(subject: Subject) -> None:
    subject.bert.encoder.blocks.append(TransformerBlock(subject.config))
    subject.bert.eval()
    assert judge(SHAPES, subject) == "fail"


def test_parameters_that_no_tensor_passes_through_fail(
    subject: Subject,
) -> None:
    assert subject.pretraining is not None
    subject.pretraining.decoder = nn.Linear(3, 3)
    assert judge(SHAPES, subject) == "fail"


def test_the_trace_goes_from_embeddings_to_the_vocabulary(
    subject: Subject,
) -> None:
    rows = trace(subject)
    shapes = [rows[name]["shape"] for name in rows]
    num_tokens = len(subject.encodings[0])
    assert shapes[0] == [1, num_tokens, 128]
    assert rows["mlm_head"]["shape"] == [
        *(1, num_tokens, subject.config.vocab_size)
    ]
    names = list(rows)
    assert names.index("bert.embedding") < names.index("bert.encoder")
    assert names.index("bert.encoder") < names.index("bert.pooler")
    assert names.index("mlm_head.norm") < names.index("mlm_head")


def test_no_hook_stays_behind(subject: Subject) -> None:
    trace(subject)
    assert subject.pretraining is not None
    assert not any(m._forward_hooks for m in subject.pretraining.modules())


@pytest.mark.parametrize(
    ("preset", "encoder", "whole"),
    # Hugging Face 的 BertModel 与 BertForPreTraining 数出来的参数个数
    [
        ("base", 109_482_240, 110_106_428),
        ("large", 335_141_888, 336_226_108),
    ],
)
def test_the_formula_gives_the_counts_of_the_published_models(
    subject: Subject, preset: str, encoder: int, whole: int
) -> None:
    config = BertConfig.preset(preset)
    with torch.device("meta"):
        bert, model = BertModel(config), BertForPreTraining(config)
    alone = replace(subject, bert=bert, pretraining=None)
    both = replace(subject, bert=model.bert, pretraining=model)
    assert count_parameters(alone) == encoder
    assert count_parameters(both) == whole
