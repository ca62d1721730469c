"""A fine-tuned model at work: lines in, answers out, mistakes told."""

import logging

import pytest
import torch

from bert_from_scratch import (
    BertConfig,
    BertError,
    SequenceClassifier,
    TaskPredictor,
    WordPieceTokenizer,
)
from bert_from_scratch.finetune.classification import ClassificationTask

TOKENIZER = WordPieceTokenizer(
    ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "good", "bad", "film"]
)


def make_predictor(has_pairs: bool | None) -> TaskPredictor:
    torch.manual_seed(0)
    config = BertConfig.preset("tiny", vocab_size=len(TOKENIZER))
    task = ClassificationTask(TOKENIZER, ("no", "yes"), has_pairs=has_pairs)
    return TaskPredictor(task, SequenceClassifier(config, task.labels))


def test_blank_lines_are_passed_over_and_counted(
    caplog: pytest.LogCaptureFixture,
) -> None:
    lines = ["good film", "", "bad film", "  "]
    with caplog.at_level(logging.WARNING):
        found = list(make_predictor(None).predict_lines(lines, "texts.txt"))
    assert [one["text"] for one in found] == ["good film", "bad film"]
    assert "texts.txt: 2 blank lines were passed over" in caplog.text
    assert "the first is line 2" in caplog.text


def test_a_line_that_is_no_example_is_named_by_its_number() -> None:
    predictor = make_predictor(None)
    with pytest.raises(BertError, match=r"texts\.txt, line 3 lacks a text"):
        list(predictor.predict_lines(["good", "", '{"text": 1}'], "texts.txt"))


def test_single_texts_are_refused_by_a_model_of_pairs() -> None:
    predictor = make_predictor(True)
    with pytest.raises(BertError, match="argument 2: the second text") as error:
        predictor.predict_texts(["good\tfilm", "bad film"])
    assert "tab" in str(error.value.hint)
    with pytest.raises(BertError, match="argument 1: the second text"):
        predictor.predict_texts(["bad film"])
    assert len(predictor.predict_texts(["good\tfilm"])) == 1


def test_pairs_are_refused_by_a_model_of_single_texts() -> None:
    with pytest.raises(BertError, match="trained on single texts"):
        make_predictor(False).predict_texts(["good\tfilm"])
    assert len(make_predictor(None).predict_texts(["good\tfilm"])) == 1
