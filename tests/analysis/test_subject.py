"""Any BERT directory can be looked into; what cannot is said."""

from collections.abc import Callable
from copy import deepcopy
from pathlib import Path

import pytest
import torch

from bert_from_scratch import (
    BertConfig,
    BertError,
    BertForPreTraining,
    BertModel,
    SequenceClassifier,
    TokenClassifier,
)
from bert_from_scratch.analysis.subject import Model, Subject

Save = Callable[[Model], Path]


def test_each_kind_of_directory_keeps_its_head(
    encoder: BertModel,
    pretrained: BertForPreTraining,
    classifier: SequenceClassifier,
    save: Save,
) -> None:
    for model in (encoder, pretrained, classifier):
        subject = Subject.load(save(model), "cpu")
        assert type(subject.model) is type(model)
        assert subject.architecture == model.architecture
        assert isinstance(subject.bert, BertModel)
        assert subject.name == "my-bert"
        assert not subject.model.training


def test_other_heads_leave_the_encoder(config: BertConfig, save: Save) -> None:
    tagger = TokenClassifier(config, ("O", "B-PER"))
    subject = Subject.load(save(tagger), "cpu")  # type: ignore[arg-type]
    assert isinstance(subject.model, BertModel)
    assert subject.architecture == "BertForTokenClassification"


def test_a_run_is_called_by_its_own_name(
    encoder: BertModel, save: Save, tmp_path: Path
) -> None:
    run = tmp_path / "my-run"
    run.mkdir()
    save(encoder).rename(run / "model")
    assert Subject.load(run, "cpu").name == "my-run"


def test_weights_that_are_no_numbers_are_named(
    classifier: SequenceClassifier, save: Save
) -> None:
    broken = deepcopy(classifier)
    with torch.no_grad():
        broken.classifier.bias[0] = torch.nan
    with pytest.raises(BertError, match=r"classifier\.bias holds numbers"):
        Subject.load(save(broken), "cpu")


def test_a_missing_directory_is_named(tmp_path: Path) -> None:
    with pytest.raises(BertError, match=r"no model directory .*nowhere"):
        Subject.load(tmp_path / "nowhere", "cpu")


def test_a_promised_mlm_head_that_is_not_there_is_named(
    pretrained: BertForPreTraining, save: Save
) -> None:
    directory = save(pretrained.bert)
    path = directory / "config.json"
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace('"BertModel"', '"BertForMaskedLM"'))
    with pytest.raises(BertError, match=r"cls\.predictions"):
        Subject.load(directory, "cpu")


def test_a_text_that_is_too_long_is_refused_with_its_length(
    encoder: BertModel, save: Save
) -> None:
    subject = Subject.load(save(encoder), "cpu")
    assert len(subject.encode("man " * 158, None)) == 160
    with pytest.raises(BertError, match=r"161 tokens.*160") as caught:
        subject.encode("man " * 100, "man " * 58)
    assert caught.value.hint == "shorten it by 1 tokens"
