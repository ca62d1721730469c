"""QuestionAnswerer: where in a sequence the answer starts, and where it ends.

Letters: B sequences, S positions of a row, T tokens in all.
"""

import torch.nn.functional as F
from torch import Tensor, nn

from bert_from_scratch.config import BertConfig
from bert_from_scratch.data.batch import IGNORE_INDEX, Batch
from bert_from_scratch.finetune.labels import PART
from bert_from_scratch.model.bert import BertModel
from bert_from_scratch.model.directory import StoredModel
from bert_from_scratch.model.initialise import initialise
from bert_from_scratch.objectives.output import Part, StepOutput, count_labels


class QASpanHead(nn.Linear):
    """Two scores a token: the answer starts here, it ends here."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__(config.hidden_size, 2)


class QuestionAnswerer(StoredModel):
    """BERT with a start and an end score for every token (paper, 4.2)."""

    architecture = "BertForQuestionAnswering"

    def __init__(self, config: BertConfig) -> None:
        """Builds a model with fresh weights."""
        super().__init__(config)
        # 只看每个词的向量，[CLS] 的池化层用不上
        self.bert = BertModel(config, with_pooler=False)
        self.qa_outputs = QASpanHead(config)
        initialise(self.qa_outputs, config.initializer_range)

    def logits(self, batch: Batch) -> Tensor:
        """Scores starts and ends, float [B, S, 2] or packed [T, 2]."""
        return self.qa_outputs(self.bert(**batch.inputs()).hidden_state)

    def forward(self, batch: Batch) -> StepOutput:
        """Computes the loss of a labelled batch."""
        assert batch.start_positions is not None
        assert batch.end_positions is not None
        # 先转 float32：半精度下几百个位置的归一化误差太大
        rows = _to_rows(self.logits(batch).float(), batch)
        part = span_loss(rows, batch.start_positions, batch.end_positions)
        return StepOutput({PART: part})

    def count_labels(self, batch: Batch) -> dict[str, Tensor]:
        """Counts the labelled sequences, a scalar."""
        assert batch.start_positions is not None
        return {PART: count_labels(batch.start_positions)}


def _to_rows(logits: Tensor, batch: Batch) -> Tensor:
    """Gives every sequence a row, float [B, S, 2], -inf past its end."""
    if batch.cu_seqlens is None:
        if batch.attention_mask is None:
            return logits
        is_padding = ~batch.attention_mask.bool()
        return logits.masked_fill(is_padding[..., None], -float("inf"))
    # softmax 只在本序列内做：别的序列的词不是候选答案
    shape = (len(batch.cu_seqlens) - 1, batch.max_seqlen, 2)
    rows = logits.new_full(shape, -float("inf"))
    return rows.index_put((batch.token_owners(), batch.position_ids), logits)


def span_loss(
    logits: Tensor, start_positions: Tensor, end_positions: Tensor
) -> Part:
    """Sums over sequences the mean of start loss and end loss.

    Args:
        logits: Start and end scores, float [B, S, 2]; -inf where there is
            no token.
        start_positions: First token of the answer, IGNORE_INDEX where none
            is asked for, long [B].
        end_positions: Its last token, long [B].
    """
    positions = (start_positions, end_positions)
    total = sum(
        (
            F.cross_entropy(
                scores,
                labels,
                ignore_index=IGNORE_INDEX,
                reduction="sum",
            )
            for scores, labels in zip(logits.unbind(-1), positions, strict=True)
        ),
        start=logits.new_zeros(()),
    )
    starts, ends = logits.argmax(1).unbind(-1)
    # 起点终点都对才算对；未标注的序列永远对不上
    is_right = (starts == start_positions) & (ends == end_positions)
    return Part(total / 2, count_labels(start_positions), is_right.sum())
