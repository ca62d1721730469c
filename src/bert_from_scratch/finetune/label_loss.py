"""LabelLoss: one label, several labels, or a number.

Letters: N rows (sequences or tokens), C classes.
"""

from collections.abc import Sequence
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from bert_from_scratch.data.batch import IGNORE_INDEX
from bert_from_scratch.objectives.output import Part

# 三种问题共用一个头，写进 config.json 的名字沿用 Hugging Face
Problem = Literal[
    "single_label_classification", "multi_label_classification", "regression"
]


class LabelLoss(nn.Module):
    """The loss of rows that have labels, as in `Batch.labels`."""

    class_weights: Tensor | None

    def __init__(
        self,
        problem: Problem = "single_label_classification",
        class_weights: Sequence[float] | None = None,
    ) -> None:
        """Makes a loss.

        Args:
            problem: What the scores mean.
            class_weights: How much a row of each class counts; None: all
                the same.
        """
        super().__init__()
        self.problem = problem
        weights = (
            None
            if class_weights is None
            else torch.tensor(class_weights, dtype=torch.float32)
        )
        # 只影响训练：不写进磁盘上的权重
        self.register_buffer("class_weights", weights, persistent=False)

    def forward(self, logits: Tensor, labels: Tensor) -> Part:
        """Sums the loss over labelled rows.

        Args:
            logits: Scores, float [N, C]; of a regression, [N, 1].
            labels: Classes, long [N]; several classes, float [N, C];
                numbers, float [N].
        """
        # 半精度下算 softmax 与平方会丢掉有效位
        logits = logits.float()
        if self.problem == "single_label_classification":
            return self._classification(logits, labels)
        if self.problem == "multi_label_classification":
            return _multi_label(logits, labels)
        return _regression(logits[:, 0], labels)

    def count(self, labels: Tensor) -> Tensor:
        """Counts what the loss is averaged over, a scalar."""
        if self.problem != "single_label_classification":
            return labels.isfinite().sum()
        is_labelled = labels != IGNORE_INDEX
        if self.class_weights is None:
            return is_labelled.sum()
        # 加权平均的分母是权重之和，与 PyTorch 的 cross_entropy 一致
        weights = self.class_weights[labels.clamp(min=0)]
        return weights.mul(is_labelled).sum()

    def _classification(self, logits: Tensor, labels: Tensor) -> Part:
        total = F.cross_entropy(
            logits,
            labels,
            self.class_weights,
            ignore_index=IGNORE_INDEX,
            reduction="sum",
        )
        is_right = (logits.argmax(-1) == labels) & (labels != IGNORE_INDEX)
        right_labels = labels.masked_fill(~is_right, IGNORE_INDEX)
        return Part(total, self.count(labels), self.count(right_labels))


def _multi_label(logits: Tensor, labels: Tensor) -> Part:
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


def _regression(scores: Tensor, targets: Tensor) -> Part:
    """Sums the squared errors; NaN marks what is not asked for."""
    is_labelled = targets.isfinite()
    errors = (scores - targets.nan_to_num()).mul(is_labelled)
    is_right = (errors.abs() < 0.5) & is_labelled
    return Part(errors.square().sum(), is_labelled.sum(), is_right.sum())
