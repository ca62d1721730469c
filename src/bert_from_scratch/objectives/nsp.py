"""Next sentence prediction: does segment B follow segment A? (paper, 3.1)."""

import torch.nn.functional as F
from torch import Tensor, nn

from bert_from_scratch.config import BertConfig


class NSPHead(nn.Linear):
    """Two scores a pair from its pooled vector: follows, random."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__(config.hidden_size, 2)


class NSPLoss(nn.Module):
    """The mean cross-entropy over the pairs of a batch."""

    def forward(self, logits: Tensor, nsp_labels: Tensor) -> Tensor:
        """Computes the loss.

        Args:
            logits: Scores for (follows, random), float [B, 2].
            nsp_labels: 0 where B follows A, 1 where B is random, long [B].

        Returns:
            A scalar; 0 (not NaN) for an empty batch.
        """
        # 两个类别都是真标签：不与 MLM 共用 ignore_index，否则会丢掉一半样本
        total = F.cross_entropy(logits, nsp_labels, reduction="sum")
        return total / max(len(nsp_labels), 1)
