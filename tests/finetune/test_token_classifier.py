"""A tag a token: Hugging Face's numbers, whatever lies beside it."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers

from bert_from_scratch import BertConfig, BertForPreTraining
from bert_from_scratch.data.batch import IGNORE_INDEX, Batch, pack
from bert_from_scratch.finetune.encoding import TextSequence
from bert_from_scratch.finetune.head import put_on_encoder
from bert_from_scratch.finetune.token_classifier import TokenClassifier
from bert_from_scratch.model import names

from .outputs import outputs_of

CONFIG = BertConfig.preset(
    "tiny",
    vocab_size=40,
    hidden_size=32,
    hidden_dropout_prob=0.0,
    attention_probs_dropout_prob=0.0,
)
LABELS = ("B-PER", "I-PER", "O")


def make_model(**options: Any) -> TokenClassifier:
    torch.manual_seed(0)
    model = TokenClassifier(CONFIG, LABELS, **options)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn(parameter.shape) * 0.1)
    return model


def make_batch(lengths: tuple[int, ...] = (7, 7, 7), seed: int = 0) -> Batch:
    random = np.random.default_rng(seed)
    batch = pack(
        [
            TextSequence(
                random.integers(5, 40, n).astype(np.int32),
                np.zeros(n, np.uint8),
            )
            for n in lengths
        ]
    )
    labels = torch.from_numpy(random.integers(0, 3, sum(lengths)))
    labels[torch.from_numpy(random.random(sum(lengths)) < 0.4)] = IGNORE_INDEX
    return replace(batch, labels=labels)


def test_loss_and_gradients_are_hugging_faces(tmp_path: Path) -> None:
    ours = make_model()
    ours.save_pretrained(tmp_path)
    peer, info = transformers.AutoModelForTokenClassification.from_pretrained(
        tmp_path, output_loading_info=True
    )
    assert not info["missing_keys"]
    assert not info["unexpected_keys"]
    assert peer.config.id2label == dict(enumerate(LABELS))
    batch = make_batch()
    theirs = peer(
        batch.input_ids.view(3, 7),
        labels=batch.labels.view(3, 7),  # type: ignore[union-attr]
    )
    torch.testing.assert_close(
        ours.logits(batch), theirs.logits.flatten(0, 1), atol=1e-5, rtol=0
    )
    loss = ours(batch).loss
    torch.testing.assert_close(loss, theirs.loss, atol=1e-5, rtol=0)
    loss.backward()
    theirs.loss.backward()
    gradients = names.to_hugging_face(
        {n: p.grad for n, p in ours.named_parameters() if p.grad is not None}
    )
    reference = {n: p.grad for n, p in peer.named_parameters()}
    assert gradients.keys() == reference.keys()
    for name, gradient in gradients.items():
        torch.testing.assert_close(
            gradient, reference[name], atol=1e-5, rtol=1e-5
        )


def test_a_model_of_hugging_face_is_read(tmp_path: Path) -> None:
    config = transformers.BertConfig(
        **CONFIG.to_hugging_face("BertForTokenClassification"),
        id2label=dict(enumerate(LABELS)),
    )
    peer = transformers.BertForTokenClassification(config).eval()
    peer.save_pretrained(tmp_path)
    ours = TokenClassifier.from_pretrained(tmp_path)
    assert ours.labels == LABELS
    batch = make_batch()
    torch.testing.assert_close(
        ours.logits(batch),
        peer(batch.input_ids.view(3, 7)).logits.flatten(0, 1),
        atol=1e-5,
        rtol=0,
    )


def test_neighbours_in_a_batch_do_not_matter() -> None:
    model = make_model().eval()
    together = outputs_of(model, make_batch((4, 9, 2)))
    assert [scores.shape for scores in together] == [(4, 3), (9, 3), (2, 3)]
    assert together[0].dtype == np.float32
    alone = outputs_of(model, make_batch((4,)))
    np.testing.assert_allclose(together[0], alone[0], atol=1e-5)


def test_weights_of_classes_are_those_of_pytorch() -> None:
    weights = [0.5, 2.0, 1.5]
    model = make_model(class_weights=weights)
    batch = make_batch()
    assert batch.labels is not None
    expected = torch.nn.functional.cross_entropy(
        model.logits(batch), batch.labels, torch.tensor(weights)
    )
    output = model(batch)
    assert output.loss.item() == pytest.approx(expected.item(), abs=1e-5)
    count = model.count_labels(batch)["task"]
    assert count.item() == pytest.approx(output.parts["task"].count.item())
    assert "class_weights" not in model.state_dict()


def test_an_encoder_goes_in_without_its_pooler(tmp_path: Path) -> None:
    source = BertForPreTraining(CONFIG)
    source.save_pretrained(tmp_path)
    model = put_on_encoder(lambda c: TokenClassifier(c, LABELS), tmp_path)
    assert not [name for name in model.state_dict() if "pooler" in name]
    copied = model.bert.encoder.state_dict()
    for name, tensor in source.bert.encoder.state_dict().items():
        assert torch.equal(copied[name], tensor)
