from pathlib import Path

import pytest
import torch
from torch import nn

from bert_from_scratch import BertConfig, BertError, BertModel
from bert_from_scratch.finetune.layers import (
    freeze_layers,
    rate_scales,
    set_attention_dropout,
)
from bert_from_scratch.finetune.sequence_classifier import SequenceClassifier
from bert_from_scratch.train.optimizer import build_optimizer
from bert_from_scratch.train.settings import TrainingSettings

CONFIG = BertConfig(
    vocab_size=30,
    hidden_size=16,
    num_hidden_layers=3,
    num_attention_heads=2,
    intermediate_size=32,
)


def make_model() -> SequenceClassifier:
    return SequenceClassifier(CONFIG, ["no", "yes"])


def test_frozen_layers_are_the_embeddings_and_the_first_blocks() -> None:
    model = make_model()
    freeze_layers(model, 2)
    trained = {n for n, p in model.named_parameters() if p.requires_grad}
    assert not any("embedding" in name for name in trained)
    blocks = {name.split(".")[3] for name in trained if "blocks" in name}
    assert blocks == {"2"}
    assert "classifier.weight" in trained
    assert "bert.pooler.dense.weight" in trained


def test_nothing_is_frozen_by_default() -> None:
    model = make_model()
    freeze_layers(model, 0)
    assert all(parameter.requires_grad for parameter in model.parameters())


def test_more_layers_than_there_are_cannot_be_frozen() -> None:
    with pytest.raises(BertError, match=r"0 ... 3, got 4"):
        freeze_layers(make_model(), 4)


def test_the_rate_falls_from_layer_to_layer() -> None:
    scales = rate_scales(make_model(), 0.5)
    name = "bert.encoder.blocks.{}.output_norm.weight"
    assert [scales[name.format(n)] for n in range(3)] == [1 / 8, 1 / 4, 1 / 2]
    assert scales["bert.embedding.token.weight"] == 1 / 16
    assert "classifier.weight" not in scales


def test_the_optimizer_groups_by_decay_and_scale() -> None:
    model = make_model()
    settings = TrainingSettings(steps=1, weight_decay=0.1)
    optimizer = build_optimizer(model, settings, rate_scales(model, 0.5))
    found = {
        id(parameter): (group["weight_decay"], group["rate_scale"])
        for group in optimizer.param_groups
        for parameter in group["params"]
    }
    names = dict(model.named_parameters())
    assert found[id(names["classifier.weight"])] == (0.1, 1)
    assert found[id(names["classifier.bias"])] == (0, 1)
    norm = "bert.encoder.blocks.2.output_norm.weight"
    assert found[id(names[norm])] == (0, 0.5)
    assert found[id(names["bert.embedding.token.weight"])] == (0.1, 1 / 16)
    assert len(found) == len(names)


def test_a_decay_of_nothing_is_refused() -> None:
    with pytest.raises(BertError, match="--layer-decay"):
        rate_scales(make_model(), 0.0)


def test_attention_dropout_is_set_and_written_down(tmp_path: Path) -> None:
    model = make_model()
    set_attention_dropout(model, 0.0)
    model.save_pretrained(tmp_path / "model")
    found = BertConfig.load(tmp_path / "model" / "config.json")
    assert found.attention_probs_dropout_prob == 0
    assert found.hidden_dropout_prob == CONFIG.hidden_dropout_prob
    torch.manual_seed(0)
    attention = model.bert.encoder.blocks[0].get_submodule("attention").train()
    from bert_from_scratch.model.layout import Padded

    x = torch.randn(1, 5, 16)
    assert torch.equal(attention(x, Padded()), attention(x, Padded()))


def test_a_model_without_bert_has_no_layers_to_freeze() -> None:
    with pytest.raises(BertError, match="no BERT inside"):
        freeze_layers(nn.Linear(2, 2), 1)


def test_an_encoder_alone_has_no_head() -> None:
    with pytest.raises(BertError, match="no BERT inside"):
        rate_scales(BertModel(CONFIG), 0.5)
