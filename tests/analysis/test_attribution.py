"""Integrated gradients: complete, and equal to a plain sum over the road."""

import copy

import pytest
import torch

from bert_from_scratch import SequenceClassifier, WordPieceTokenizer
from bert_from_scratch.analysis import attribution
from bert_from_scratch.analysis.attribution import Attribution, attribute
from bert_from_scratch.model.layout import Padded
from bert_from_scratch.tokenizer import Encoding

TEXT, PAIR = "the old man fed the birds .", "he was lonely"


@pytest.fixture(scope="module")
def encoding(tokenizer: WordPieceTokenizer) -> Encoding:
    return tokenizer.encode(TEXT, PAIR)


@pytest.fixture(scope="module")
def attributions(
    classifier: SequenceClassifier,
    tokenizer: WordPieceTokenizer,
    encoding: Encoding,
) -> list[Attribution]:
    return [attribute(classifier, tokenizer, encoding, c) for c in range(3)]


def score_ids(model: SequenceClassifier, encoding: Encoding) -> list[float]:
    """Scores a text by the model's own road, from ids."""
    with torch.no_grad():
        pooled = model.bert(
            torch.tensor([encoding.input_ids]),
            torch.tensor([encoding.token_type_ids]),
        ).pooled
        return model.classifier(pooled)[0].tolist()


def test_attributions_sum_to_the_difference_of_the_scores(
    classifier: SequenceClassifier,
    tokenizer: WordPieceTokenizer,
    encoding: Encoding,
    attributions: list[Attribution],
) -> None:
    kept = (tokenizer.cls_token_id, tokenizer.sep_token_id)
    empty = copy.copy(encoding)
    object.__setattr__(
        empty,
        "input_ids",
        [
            i if i in kept else tokenizer.pad_token_id
            for i in encoding.input_ids
        ],
    )
    logits = score_ids(classifier, encoding)
    baseline = score_ids(classifier, empty)
    for number, found in enumerate(attributions):
        difference = logits[number] - baseline[number]
        assert found.logit == pytest.approx(logits[number], abs=1e-5)
        assert found.baseline_logit == pytest.approx(baseline[number], abs=1e-5)
        assert abs(difference) > 0.01
        assert sum(found.scores) == pytest.approx(difference, rel=0.006)
        assert found.gap == pytest.approx(
            difference - sum(found.scores), abs=1e-5
        )


def test_cls_and_sep_get_nothing_and_words_something(
    encoding: Encoding, attributions: list[Attribution]
) -> None:
    for found in attributions:
        assert len(found.scores) == len(encoding)
        for token, score in zip(encoding.tokens, found.scores, strict=True):
            assert (score == 0) == (token in ("[CLS]", "[SEP]"))


def test_a_plain_sum_over_many_points_gives_the_same(
    classifier: SequenceClassifier,
    tokenizer: WordPieceTokenizer,
    encoding: Encoding,
    attributions: list[Attribution],
) -> None:
    bert = classifier.bert
    ids = torch.tensor(encoding.input_ids)
    is_word = (ids != tokenizer.cls_token_id) & (ids != tokenizer.sep_token_id)
    words = bert.embedding.token.weight.detach()
    start = words[torch.where(is_word, tokenizer.pad_token_id, ids)]
    rest = (
        bert.embedding.segment(torch.tensor(encoding.token_type_ids))
        + bert.embedding.position.weight[: len(ids)]
    ).detach()
    change = words[ids] - start
    total = torch.zeros(len(ids))
    num_points = 200
    for point in range(num_points):
        x = (start + (point + 0.5) / num_points * change).requires_grad_()
        state = bert.encoder(bert.embedding.norm(x + rest)[None], Padded())
        score = classifier.classifier(bert.pooler(state[:, 0]))[0, 2]
        (gradient,) = torch.autograd.grad(score, x)
        total += (gradient * change).sum(-1) / num_points
    torch.testing.assert_close(
        torch.tensor(attributions[2].scores), total, atol=2e-3, rtol=1e-2
    )


def test_twice_the_head_gives_twice_the_attributions(
    classifier: SequenceClassifier,
    tokenizer: WordPieceTokenizer,
    encoding: Encoding,
    attributions: list[Attribution],
) -> None:
    doubled = copy.deepcopy(classifier)
    with torch.no_grad():
        doubled.classifier.weight.mul_(2)
    found = attribute(doubled, tokenizer, encoding, 1)
    expected = [2 * score for score in attributions[1].scores]
    assert found.scores == pytest.approx(expected, rel=1e-3, abs=1e-5)
    assert found.label == "fair"


def test_a_head_that_ignores_the_text_gives_zeros(
    classifier: SequenceClassifier,
    tokenizer: WordPieceTokenizer,
    encoding: Encoding,
) -> None:
    deaf = copy.deepcopy(classifier)
    torch.nn.init.zeros_(deaf.classifier.weight)
    found = attribute(deaf, tokenizer, encoding, 0)
    assert set(found.scores) == {0.0}
    assert found.gap == 0
    assert found.num_points == 16


def test_points_are_doubled_until_the_sum_is_complete(
    classifier: SequenceClassifier,
    tokenizer: WordPieceTokenizer,
    encoding: Encoding,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(attribution, "FEWEST_POINTS", 1)
    found = attribute(classifier, tokenizer, encoding, 2)
    assert found.num_points in (2, 4, 8, 16)
    assert abs(found.gap) <= 0.005 * abs(found.logit - found.baseline_logit)
    monkeypatch.setattr(attribution, "TOLERANCE", 0.0)
    monkeypatch.setattr(attribution, "MOST_POINTS", 8)
    assert attribute(classifier, tokenizer, encoding, 2).num_points == 8


def test_no_gradient_is_left_in_the_model(
    classifier: SequenceClassifier, attributions: list[Attribution]
) -> None:
    assert attributions
    assert all(p.grad is None for p in classifier.parameters())
