"""A decoder of its own is found, in memory and on disk."""

import shutil
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from safetensors.torch import load_file, save_file
from torch import Tensor

from bert_from_scratch import BertConfig
from bert_from_scratch.analysis.verify.subject import Subject
from bert_from_scratch.analysis.verify.tied_weights import TIED_WEIGHTS
from bert_from_scratch.objectives import MaskedLMHead

from .conftest import MakeDir, judge

DECODER = "cls.predictions.decoder.weight"


class UntiedHead(MaskedLMHead):
    """Scores by a matrix of its own."""

    def __init__(self, config: BertConfig, embedding: Tensor) -> None:
        super().__init__(config)
        self.decoder = torch.nn.Parameter(embedding.detach().clone())

    def forward(self, hidden_state: Tensor, token_embedding: Tensor) -> Tensor:
        return super().forward(hidden_state, self.decoder)


class CopyingHead(MaskedLMHead):
    """Scores all WordPieces by the last one's embedding."""

    def forward(self, hidden_state: Tensor, token_embedding: Tensor) -> Tensor:
        same = token_embedding[-1:].expand_as(token_embedding)
        x = self.norm(F.gelu(self.dense(hidden_state)))
        return F.linear(x, same, self.bias)


def test_a_head_with_a_matrix_of_its_own_fails(subject: Subject) -> None:
    assert judge(TIED_WEIGHTS, subject) == "pass"
    model = subject.pretraining
    assert model is not None
    embedding = model.bert.embedding.token.weight
    model.mlm_head = UntiedHead(model.config, embedding)
    assert judge(TIED_WEIGHTS, subject) == "fail"


def test_a_copy_of_the_embeddings_in_the_decoder_fails(
    subject: Subject, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = subject.pretraining
    assert model is not None

    def by_copy(states: Tensor, places: Tensor) -> Tensor:
        copied = model.bert.embedding.token.weight.clone()
        return model.mlm_head(states.flatten(0, 1)[places], copied)

    monkeypatch.setattr(model, "mlm_logits", by_copy)
    assert judge(TIED_WEIGHTS, subject) == "fail"


def test_scores_that_move_with_another_embedding_fail(
    subject: Subject,
) -> None:
    model = subject.pretraining
    assert model is not None
    model.mlm_head = CopyingHead(model.config)
    assert judge(TIED_WEIGHTS, subject) == "fail"


def add_decoder(directory: Path, change: float) -> None:
    path = directory / "model.safetensors"
    tensors = load_file(path)
    embedding = tensors["bert.embeddings.word_embeddings.weight"]
    tensors[DECODER] = embedding + change
    save_file(tensors, path, metadata={"format": "pt"})


@pytest.mark.parametrize(("change", "verdict"), [(0.0, "pass"), (1e-3, "fail")])
def test_an_untied_decoder_on_disk_fails_and_a_tied_one_passes(
    make_dir: MakeDir, tmp_path: Path, change: float, verdict: str
) -> None:
    directory = shutil.copytree(make_dir("tiny"), tmp_path / "model")
    add_decoder(directory, change)
    subject = Subject.load(directory)
    assert DECODER in subject.stored_decoder
    assert judge(TIED_WEIGHTS, subject) == verdict


def test_the_model_is_left_as_it_was(subject: Subject) -> None:
    before = subject.bert.embedding.token.weight.clone()
    judge(TIED_WEIGHTS, subject)
    assert torch.equal(subject.bert.embedding.token.weight, before)
