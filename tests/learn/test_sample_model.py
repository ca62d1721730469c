"""The model of the pipeline: always the same, or the user's."""

import shutil
from pathlib import Path

import pytest
import torch

from bert_from_scratch.errors import BertError
from bert_from_scratch.learn.sample_model import SampleModel


def test_making_it_twice_gives_the_same_and_leaves_randomness_alone() -> None:
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    one, two = SampleModel.make(), SampleModel.make()
    assert torch.equal(torch.rand(3), expected)
    assert one.tokenizer.vocabulary == two.tokenizer.vocabulary
    weight = one.model.embedding.token.weight
    assert torch.equal(weight, two.model.embedding.token.weight)
    assert not one.is_trained


def test_a_directory_is_read_as_it_is(tmp_path: Path) -> None:
    made = SampleModel.make()
    made.model.save_pretrained(tmp_path / "model")
    made.tokenizer.save(tmp_path / "model")
    read = SampleModel.load(tmp_path / "model")
    assert read.is_trained
    assert torch.equal(
        read.model.embedding.token.weight, made.model.embedding.token.weight
    )
    for name in ("vocab.txt", "tokenizer.json"):
        (tmp_path / "model" / name).unlink()
    with pytest.raises(BertError, match="tokenizer"):
        SampleModel.load(tmp_path / "model")
    shutil.rmtree(tmp_path / "model")
    with pytest.raises(BertError, match="no model directory"):
        SampleModel.load(tmp_path / "model")
