"""The next-sentence head answers where it was trained, and only there."""

import copy
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from bert_from_scratch import (
    BertConfig,
    BertForPreTraining,
    BertModel,
    SequenceClassifier,
    WordPieceTokenizer,
)
from bert_from_scratch.analysis.inspector import Inspector
from bert_from_scratch.analysis.next_sentence import has_trained_head
from bert_from_scratch.analysis.subject import Model
from bert_from_scratch.data.batch import pad

Build = Callable[[Model], Inspector]
PAIR = ("the man reads", "he fed birds")


def test_the_answer_is_that_of_the_model_run_whole(
    pretrained: BertForPreTraining,
    inspector_of: Build,
    tokenizer: WordPieceTokenizer,
) -> None:
    batch = pad([tokenizer.encode(*PAIR)])
    with torch.no_grad():
        pooled = pretrained.bert(**batch.inputs()).pooled
        chances = pretrained.nsp_head(pooled).softmax(-1)[0].tolist()
    found = inspector_of(pretrained).inspect(*PAIR)
    assert found.next_sentence is not None
    # 标签 0 是“接续”，1 是“随机”，与训练数据一致
    told = (found.next_sentence.follows, found.next_sentence.random)
    assert told == pytest.approx(chances, abs=1e-6)
    assert found.to_dict()["next_sentence"] == {
        "follows": told[0],
        "random": told[1],
    }


def test_without_a_pair_or_the_head_there_is_no_answer(
    pretrained: BertForPreTraining,
    encoder: BertModel,
    classifier: SequenceClassifier,
    inspector_of: Build,
) -> None:
    assert inspector_of(pretrained).inspect("man").next_sentence is None
    for model in (encoder, classifier):
        assert inspector_of(model).inspect(*PAIR).next_sentence is None


def test_a_head_as_it_was_drawn_has_no_answer(config: BertConfig) -> None:
    model = BertForPreTraining(config)
    assert not has_trained_head(model)
    torch.nn.init.ones_(model.nsp_head.bias)
    # 池化层没有训练过，头读到的向量就没有意义
    assert not has_trained_head(model)
    pooler = copy.deepcopy(model.bert.pooler)
    torch.nn.init.ones_(next(p for p in pooler.parameters() if p.dim() == 1))
    model.bert.pooler = pooler
    assert has_trained_head(model)


@pytest.mark.parametrize("part", ["cls.seq_relationship.", "bert.pooler."])
def test_a_checkpoint_that_lacks_a_part_has_no_answer(
    pretrained: BertForPreTraining, save: Callable[[Model], Path], part: str
) -> None:
    directory = save(pretrained)
    path = directory / "model.safetensors"
    kept = {k: v for k, v in load_file(path).items() if not k.startswith(part)}
    assert Inspector.load(directory, "cpu").inspect(*PAIR).next_sentence
    save_file(kept, path, metadata={"format": "pt"})
    found = Inspector.load(directory, "cpu").inspect(*PAIR)
    assert found.next_sentence is None
