"""A score a choice: Hugging Face's numbers, question by question."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
import transformers

from bert_from_scratch import BertConfig
from bert_from_scratch.data.batch import IGNORE_INDEX, Batch, pack
from bert_from_scratch.finetune.encoding import TextSequence
from bert_from_scratch.finetune.multiple_choice import MultipleChoice
from bert_from_scratch.model import names

from .outputs import outputs_of

CONFIG = BertConfig.preset(
    "tiny",
    vocab_size=40,
    hidden_size=32,
    hidden_dropout_prob=0.0,
    attention_probs_dropout_prob=0.0,
)


def make_model() -> MultipleChoice:
    torch.manual_seed(0)
    model = MultipleChoice(CONFIG)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn(parameter.shape) * 0.1)
    return model


def make_batch(lengths: tuple[int, ...]) -> Batch:
    random = np.random.default_rng(1)
    return pack(
        [
            TextSequence(
                random.integers(5, 40, n).astype(np.int32),
                (np.arange(n) > n // 2).astype(np.uint8),
            )
            for n in lengths
        ]
    )


def test_loss_and_gradients_are_hugging_faces(tmp_path: Path) -> None:
    ours = make_model()
    ours.save_pretrained(tmp_path)
    peer, info = transformers.AutoModelForMultipleChoice.from_pretrained(
        tmp_path, output_loading_info=True
    )
    assert not info["missing_keys"]
    assert not info["unexpected_keys"]
    batch = replace(make_batch((6,) * 12), labels=torch.tensor([2, 0, 3]))
    theirs = peer(
        batch.input_ids.view(3, 4, 6),
        token_type_ids=batch.token_type_ids.view(3, 4, 6),
        labels=batch.labels,
    )
    torch.testing.assert_close(
        ours.logits(batch).view(3, 4), theirs.logits, atol=1e-5, rtol=0
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
        **CONFIG.to_hugging_face("BertForMultipleChoice")
    )
    peer = transformers.BertForMultipleChoice(config).eval()
    peer.save_pretrained(tmp_path)
    ours = MultipleChoice.from_pretrained(tmp_path, ("bert.pooler",))
    batch = make_batch((6,) * 6)
    theirs = peer(
        batch.input_ids.view(2, 3, 6),
        token_type_ids=batch.token_type_ids.view(2, 3, 6),
    )
    torch.testing.assert_close(
        ours.logits(batch).view(2, 3), theirs.logits, atol=1e-5, rtol=0
    )


def test_neighbours_in_a_batch_do_not_matter() -> None:
    model = make_model().eval()
    together = outputs_of(model, make_batch((4, 9, 5, 3)))
    assert [scores.shape for scores in together] == [(1,)] * 4
    alone = outputs_of(model, make_batch((4, 9)))
    np.testing.assert_allclose(together[:2], alone, atol=1e-5)


def test_a_question_without_an_answer_costs_nothing() -> None:
    model = make_model()
    batch = make_batch((4, 9, 5, 3))
    one = replace(batch, labels=torch.tensor([1, IGNORE_INDEX]))
    alone = replace(make_batch((4, 9)), labels=torch.tensor([1]))
    assert model(one).loss.item() == pytest.approx(
        model(alone).loss.item(), abs=1e-5
    )
    assert model.count_labels(one)["task"].item() == 1
