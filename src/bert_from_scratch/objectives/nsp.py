"""Next sentence prediction: does segment B follow segment A? (paper, 3.1)."""

import torch.nn.functional as F
from torch import Tensor, nn

from bert_from_scratch.config import BertConfig
from bert_from_scratch.data.batch import IGNORE_INDEX
from bert_from_scratch.objectives.output import Part, count_labels


class NSPHead(nn.Linear):
    """Two scores a pair from its pooled vector: follows, random."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__(config.hidden_size, 2)


class NSPLoss(nn.Module):
    """The cross-entropy over the pairs of a batch."""

    def forward(self, logits: Tensor, nsp_labels: Tensor) -> Part:
        """Sums the loss over the pairs.

        Args:
            logits: Scores for (follows, random), float [B, 2].
            nsp_labels: 0 where B follows A, 1 where B is random,
                IGNORE_INDEX for filler sequences, long [B].
        """
        # 0 和 1 都是真标签，都要计入；只有静态形状的填料序列不算
        total = F.cross_entropy(
            logits, nsp_labels, ignore_index=IGNORE_INDEX, reduction="sum"
        )
        correct = (logits.argmax(-1) == nsp_labels).sum()
        return Part(total, count_labels(nsp_labels), correct)
