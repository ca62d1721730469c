"""Which tokens speak for a class: integrated gradients on the embeddings.

On the straight road from a text without words to the text, the gradient of
the class's score is summed up (Sundararajan and others, 2017). The sums over
all tokens are then the difference of the scores at both ends: completeness,
which is measured here for every text.

Letters: S tokens, P points of the road, C classes, H width of a hidden state.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from bert_from_scratch.finetune.sequence_classifier import SequenceClassifier
from bert_from_scratch.model.layout import Padded
from bert_from_scratch.tokenizer import Encoding, WordPieceTokenizer

FEWEST_POINTS, MOST_POINTS = 16, 256
TOLERANCE = 0.005
TOKENS_AT_A_TIME = 4096


@dataclass(frozen=True)
class Attribution:
    """What each token adds to the score of one class.

    Attributes:
        label: The class; or the name of a number, in a regression.
        scores: One a token; positive: it speaks for the class. Exactly 0
            for [CLS] and [SEP], which both ends of the road share.
        logit: Score of the class for the text.
        baseline_logit: Score of the class without words.
        num_points: Points of the road at which gradients were taken.
    """

    label: str
    scores: tuple[float, ...]
    logit: float
    baseline_logit: float
    num_points: int

    @property
    def gap(self) -> float:
        """What the scores lack to be complete; 0: nothing."""
        return self.logit - self.baseline_logit - sum(self.scores)


def attribute(
    model: SequenceClassifier,
    tokenizer: WordPieceTokenizer,
    encoding: Encoding,
    class_index: int,
) -> Attribution:
    """Computes integrated gradients of one class's score.

    The number of points doubles until the gap is within 0.5 % of the
    difference of the scores, or 256 are reached.

    Args:
        model: In evaluation mode.
        tokenizer: Of the model.
        encoding: One text or pair.
        class_index: Which class.
    """
    text, baseline = _ends(model, tokenizer, encoding)
    with torch.no_grad():
        both = torch.stack([text, baseline])
        logit, baseline_logit = _score(model, both)[:, class_index].tolist()
    num_points = FEWEST_POINTS
    while True:
        slopes = _mean_gradient(model, text, baseline, class_index, num_points)
        scores = ((text - baseline) * slopes).sum(-1).double()
        result = Attribution(
            label=model.labels[class_index],
            scores=tuple(scores.tolist()),
            logit=logit,
            baseline_logit=baseline_logit,
            num_points=num_points,
        )
        allowed = TOLERANCE * max(abs(logit - baseline_logit), 0.01)
        if abs(result.gap) <= allowed or num_points >= MOST_POINTS:
            return result
        num_points *= 2


def _ends(
    model: SequenceClassifier,
    tokenizer: WordPieceTokenizer,
    encoding: Encoding,
) -> tuple[Tensor, Tensor]:
    """Returns the summed embeddings of text and baseline, [S, H] each."""
    embedding = model.bert.embedding
    device = embedding.token.weight.device
    ids = torch.tensor(encoding.input_ids, device=device)
    kept = torch.tensor(
        [tokenizer.cls_token_id, tokenizer.sep_token_id], device=device
    )
    # 基线只把词换成 [PAD]：位置、分段与 [CLS]、[SEP] 两端相同，不参与归因
    empty = torch.where(torch.isin(ids, kept), ids, tokenizer.pad_token_id)
    segments = torch.tensor(encoding.token_type_ids, device=device)
    places = torch.arange(len(ids), device=device)
    with torch.no_grad():
        rest = embedding.segment(segments) + embedding.position(places)
        return embedding.token(ids) + rest, embedding.token(empty) + rest


def _score(model: SequenceClassifier, sums: Tensor) -> Tensor:
    """Maps summed embeddings, float [B, S, H], to scores, [B, C]."""
    bert = model.bert
    layout = Padded()
    x = bert.encoder(bert.embedding.norm(sums), layout)
    return model.classifier(bert.pooler(layout.first_tokens(x)))


def _mean_gradient(
    model: SequenceClassifier,
    text: Tensor,
    baseline: Tensor,
    class_index: int,
    num_points: int,
) -> Tensor:
    """Integrates the gradient over the road, float [S, H]."""
    total = torch.zeros_like(text)
    for points, shares in _road(num_points, len(text)):
        alphas = torch.tensor(points, dtype=text.dtype, device=text.device)
        sums = baseline + alphas[:, None, None] * (text - baseline)
        sums.requires_grad_()
        score = _score(model, sums)[:, class_index]
        # 先乘权重再求和：一次反向就得到这批点的加权梯度
        weighted = score @ torch.tensor(
            shares, dtype=score.dtype, device=score.device
        )
        (gradient,) = torch.autograd.grad(weighted, sums)
        total += gradient.sum(0)
    return total


def _road(
    num_points: int, length: int
) -> Iterator[tuple[list[float], list[float]]]:
    """Yields points in (0, 1) and their shares, some at a time."""
    # 高斯–勒让德求积：光滑函数上，同样的点数比等距求和精确得多
    nodes, weights = np.polynomial.legendre.leggauss(num_points)
    points, shares = (nodes + 1) / 2, weights / 2
    at_a_time = max(1, TOKENS_AT_A_TIME // length)
    for start in range(0, num_points, at_a_time):
        part = slice(start, start + at_a_time)
        yield points[part].tolist(), shares[part].tolist()
