"""Losses of whole sequences: one label, several labels, or a number.

Letters: B sequences, C classes.
"""

from typing import Literal

import torch.nn.functional as F
from torch import Tensor

from bert_from_scratch.finetune.labels import classification_loss, weigh_labels
from bert_from_scratch.objectives.output import Part

# 三种问题共用一个头，写进 config.json 的名字沿用 Hugging Face
Problem = Literal[
    "single_label_classification", "multi_label_classification", "regression"
]


def sequence_loss(
    problem: Problem,
    logits: Tensor,
    labels: Tensor,
    class_weights: Tensor | None,
) -> Part:
    """Sums the loss over labelled sequences.

    Args:
        problem: What the scores mean.
        logits: Scores, float [B, C]; of a regression, [B, 1].
        labels: As in `Batch.labels`.
        class_weights: Weight of each class, float [C], or None.
    """
    if problem == "single_label_classification":
        return classification_loss(logits, labels, class_weights)
    if problem == "multi_label_classification":
        return _multi_label_loss(logits, labels)
    return _regression_loss(logits[:, 0], labels)


def count_sequence_labels(
    problem: Problem, labels: Tensor, class_weights: Tensor | None
) -> Tensor:
    """Counts what the loss is averaged over, a scalar."""
    if problem == "single_label_classification":
        return weigh_labels(labels, class_weights)
    return labels.isfinite().sum()


def _multi_label_loss(logits: Tensor, labels: Tensor) -> Part:
    """Sums the binary cross-entropy over all classes of labelled rows."""
    is_labelled = labels.isfinite()
    targets = labels.nan_to_num()
    losses = F.binary_cross_entropy_with_logits(
        logits, targets, reduction="none"
    )
    is_right = ((logits > 0) == (targets > 0.5)) & is_labelled
    return Part(
        losses.mul(is_labelled).sum(), is_labelled.sum(), is_right.sum()
    )


def _regression_loss(scores: Tensor, targets: Tensor) -> Part:
    """Sums the squared errors; NaN marks what is not asked for."""
    is_labelled = targets.isfinite()
    errors = (scores - targets.nan_to_num()).mul(is_labelled)
    is_right = (errors.abs() < 0.5) & is_labelled
    return Part(errors.square().sum(), is_labelled.sum(), is_right.sum())
