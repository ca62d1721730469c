"""Numbers that are not Hugging Face's are found."""

import shutil
import sys
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from safetensors.torch import load_file, save_file

from bert_from_scratch import BertModel
from bert_from_scratch.analysis.verify.reference import REFERENCE
from bert_from_scratch.analysis.verify.shapes import SHAPES
from bert_from_scratch.analysis.verify.subject import Subject
from bert_from_scratch.analysis.verify.suite import run_check
from bert_from_scratch.model.block import TransformerBlock

from .conftest import MakeDir, judge


def test_another_activation_fails(subject: Subject) -> None:
    assert judge(REFERENCE, subject) == "pass"
    block = subject.bert.encoder.blocks[1]
    assert isinstance(block, TransformerBlock)
    block.feed_forward.activation = lambda x: F.gelu(x, approximate="tanh")
    assert judge(REFERENCE, subject) == "fail"


def test_without_transformers_it_is_not_applicable(
    subject: Subject, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "transformers", None)
    outcome = run_check(REFERENCE, subject)
    assert outcome.verdict == "not applicable"
    assert outcome.reason is not None
    assert outcome.reason.en.startswith("transformers is not installed: ")


def test_segments_that_are_ignored_fail(subject: Subject) -> None:
    weight = subject.bert.embedding.segment.weight
    with torch.no_grad():
        weight[1] = weight[0]
    assert judge(REFERENCE, subject) == "fail"


@pytest.mark.parametrize("position", [100, -1])
def test_a_wrong_position_far_away_fails(
    subject: Subject, position: int
) -> None:
    with torch.no_grad():
        subject.bert.embedding.position.weight[position] += 0.01
    outcome = run_check(REFERENCE, subject)
    names = [m.name.en for m in outcome.measurements if not m.holds]
    assert names == ["hidden states of 512 tokens, all layers"]


def test_hidden_states_pooled_logits_and_loss_are_compared(
    subject: Subject,
) -> None:
    names = " ".join(
        m.name.en for m in run_check(REFERENCE, subject).measurements
    )
    for part in ("layer 2", "attention", "pooled", "MLM", "NSP", "loss"):
        assert part in names


@pytest.mark.parametrize(
    ("gone", "has_pooler"),
    [
        (("pooler", "seq_relationship"), False),
        (("seq_relationship",), True),
        (("pooler",), False),
    ],
)
def test_a_model_with_an_mlm_head_but_no_nsp_head_agrees(
    make_dir: MakeDir, tmp_path: Path, gone: tuple[str, ...], has_pooler: bool
) -> None:
    directory = shutil.copytree(make_dir("tiny"), tmp_path / "model")
    path = directory / "model.safetensors"
    kept = {
        name: tensor
        for name, tensor in load_file(path).items()
        if not any(part in name for part in gone)
    }
    save_file(kept, path, metadata={"format": "pt"})
    subject = Subject.load(directory)
    assert subject.pretraining is not None
    assert subject.has_pooler == has_pooler
    assert not subject.has_nsp_head
    assert judge(REFERENCE, subject) == "pass"
    assert judge(SHAPES, subject) == "pass"


def test_an_encoder_alone_agrees(make_dir: MakeDir, tmp_path: Path) -> None:
    subject = Subject.load(make_dir("tiny"))
    encoder = BertModel.from_pretrained(subject.directory)
    encoder.save_pretrained(tmp_path)
    subject.tokenizer.save(tmp_path)
    alone = Subject.load(tmp_path)
    assert alone.pretraining is None
    assert judge(REFERENCE, alone) == "pass"


def test_transformers_keeps_quiet_and_stays_as_it_was(
    subject: Subject, capfd: pytest.CaptureFixture[str]
) -> None:
    from transformers.utils import logging

    logging.set_verbosity_warning()
    level = logging.get_verbosity()
    judge(REFERENCE, subject)
    out, err = capfd.readouterr()
    assert (out, err) == ("", "")
    assert logging.get_verbosity() == level
    assert logging.is_progress_bar_enabled()
