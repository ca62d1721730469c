"""A classifier says here what `bert predict` says."""

from collections.abc import Callable
from pathlib import Path

import pytest

from bert_from_scratch import (
    BertConfig,
    BertError,
    SequenceClassifier,
    TaskPredictor,
    WordPieceTokenizer,
)
from bert_from_scratch.analysis.classification import classify
from bert_from_scratch.analysis.inspector import Inspector
from bert_from_scratch.finetune.label_loss import Problem


def test_probabilities_are_those_of_predict(
    classifier: SequenceClassifier, save: Callable[[SequenceClassifier], Path]
) -> None:
    directory = save(classifier)
    # 文本里的 [SEP] 在两处都只是文字
    text = "the old [SEP] man ."
    (told,) = TaskPredictor.load(directory, "cpu").predict_texts([text])
    found = Inspector.load(directory, "cpu").inspect(text).classification
    assert found is not None
    chances = {one.label: one.probability for one in found.classes}
    assert chances == pytest.approx(told["probabilities"], abs=1e-6)
    assert found.attribution.label == told["label"]


def test_another_class_is_explained_when_asked_for(
    classifier: SequenceClassifier, tokenizer: WordPieceTokenizer
) -> None:
    encoding = tokenizer.encode("the old man")
    likeliest = classify(classifier, tokenizer, encoding)
    for label in classifier.labels:
        found = classify(classifier, tokenizer, encoding, label)
        assert found.attribution.label == label
        assert found.classes == likeliest.classes
        score = next(c.logit for c in found.classes if c.label == label)
        assert found.attribution.logit == pytest.approx(score, abs=1e-5)


def test_an_unknown_class_is_refused_with_the_known_ones(
    classifier: SequenceClassifier, tokenizer: WordPieceTokenizer
) -> None:
    with pytest.raises(BertError, match=r"no class 'ugly'.*'fair'"):
        classify(classifier, tokenizer, tokenizer.encode("man"), "ugly")


@pytest.mark.parametrize(
    ("problem", "labels"),
    [
        ("multi_label_classification", ("old", "lonely")),
        ("regression", ("score",)),
    ],
)
def test_other_problems_have_their_own_probabilities(
    config: BertConfig,
    tokenizer: WordPieceTokenizer,
    problem: Problem,
    labels: tuple[str, ...],
) -> None:
    model = SequenceClassifier(config, labels, problem).eval()
    found = classify(model, tokenizer, tokenizer.encode("the old man"))
    assert found.problem == problem
    for one in found.classes:
        if problem == "regression":
            assert one.probability is None
        else:
            from math import exp

            assert one.probability == pytest.approx(1 / (1 + exp(-one.logit)))
