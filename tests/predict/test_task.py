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
from bert_from_scratch.predict import task as predict_task

TOKENIZER = WordPieceTokenizer(
    ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "good", "bad", "film"]
)


def make_predictor(
    has_pairs: bool | None, precision: str = "auto"
) -> TaskPredictor:
    torch.manual_seed(0)
    config = BertConfig.preset("tiny", vocab_size=len(TOKENIZER))
    task = ClassificationTask(TOKENIZER, ("no", "yes"), has_pairs=has_pairs)
    model = SequenceClassifier(config, task.labels)
    return TaskPredictor(task, model, precision=precision)


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


@pytest.mark.parametrize(
    "line", ['{"text": "a"', '{"n": ' + "1" * 5000 + "}", "{" * 100_000]
)
def test_a_broken_object_is_not_taken_for_a_text(line: str) -> None:
    predictor = make_predictor(None)
    with pytest.raises(BertError, match=r"t, line 2 begins like") as error:
        list(predictor.predict_lines(["good", line], "t"))
    assert '{"text": ...}' in str(error.value.hint)


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


LINES = [" ".join(("good", "bad", "film")[: 1 + n % 3]) for n in range(11)]


@pytest.mark.parametrize("reads_ahead", [False, True])
def test_answers_come_in_the_order_of_the_lines(
    monkeypatch: pytest.MonkeyPatch, reads_ahead: bool
) -> None:
    predictor = make_predictor(None)
    expected = [predictor.predict_texts([line])[0] for line in LINES]
    monkeypatch.setattr(predict_task, "EXAMPLES_AT_A_TIME", 3)
    found = list(
        predictor.predict_lines(
            LINES, "texts.txt", batch_tokens=5, reads_ahead=reads_ahead
        )
    )
    assert [one["text"] for one in found] == LINES
    for one, other in zip(found, expected, strict=True):
        assert one["probabilities"] == pytest.approx(other["probabilities"])


@pytest.mark.parametrize("reads_ahead", [False, True])
def test_a_bad_line_does_not_cost_the_answers_before_it(
    monkeypatch: pytest.MonkeyPatch, reads_ahead: bool
) -> None:
    monkeypatch.setattr(predict_task, "EXAMPLES_AT_A_TIME", 3)
    found = []
    lines = [*LINES[:7], '{"text": 1}']
    with pytest.raises(BertError, match="line 8 lacks a text"):
        for one in make_predictor(None).predict_lines(
            lines, "texts.txt", reads_ahead=reads_ahead
        ):
            found.append(one["text"])  # noqa: PERF401
    assert found == LINES[:6]


def test_half_precision_is_near_and_not_the_same() -> None:
    exact = make_predictor(None, "fp32").predict_texts(LINES)
    half = make_predictor(None, "bf16").predict_texts(LINES)
    differences = [
        abs(one["probabilities"]["yes"] - other["probabilities"]["yes"])
        for one, other in zip(exact, half, strict=True)
    ]
    assert 0 < max(differences) < 1e-2


def test_an_unknown_precision_is_refused() -> None:
    with pytest.raises(BertError, match="Unknown precision 'fp8'"):
        make_predictor(None, "fp8")


def test_what_is_no_bert_stays_in_float32_and_says_so(
    caplog: pytest.LogCaptureFixture,
) -> None:
    task = ClassificationTask(TOKENIZER, ("no", "yes"))
    bag = torch.nn.EmbeddingBag(len(TOKENIZER), 2)
    with caplog.at_level(logging.WARNING):
        predictor = TaskPredictor(task, bag, precision="bf16")
    assert predictor.precision == "fp32"
    assert "bf16 has no effect" in caplog.text
    assert make_predictor(None, "bf16").precision == "bf16"
