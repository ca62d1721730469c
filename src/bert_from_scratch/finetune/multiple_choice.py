"""MultipleChoice: one score a choice, from its [CLS].

Letters: B sequences, Q questions, C choices of each, H width of a hidden
state; B = Q * C.
"""

from torch import Tensor, nn

from bert_from_scratch.config import BertConfig
from bert_from_scratch.data.batch import Batch
from bert_from_scratch.embeddings.dropout import Dropout
from bert_from_scratch.finetune.label_loss import LabelLoss
from bert_from_scratch.finetune.labels import PART
from bert_from_scratch.model.bert import BertModel
from bert_from_scratch.model.directory import StoredModel
from bert_from_scratch.model.initialise import initialise
from bert_from_scratch.objectives.output import StepOutput


class MultipleChoice(StoredModel):
    """BERT that scores every choice by itself (paper, 4.4).

    All choices of a question follow each other in a batch.
    """

    architecture = "BertForMultipleChoice"
    optional_parts = ("bert.pooler",)

    def __init__(self, config: BertConfig) -> None:
        """Builds a model with fresh weights."""
        super().__init__(config)
        self.bert = BertModel(config)
        self.dropout = Dropout(config.hidden_dropout_prob)
        # 论文只引入一个向量：它与 [CLS] 的内积就是选项的分数
        self.classifier = nn.Linear(config.hidden_size, 1)
        initialise(self.classifier, config.initializer_range)
        self.loss = LabelLoss()

    def logits(self, batch: Batch) -> Tensor:
        """Scores the choices, float [B]."""
        pooled = self.bert(**batch.inputs()).pooled
        return self.classifier(self.dropout(pooled)).squeeze(-1)

    def forward(self, batch: Batch) -> StepOutput:
        """Computes the loss of a labelled batch."""
        assert batch.labels is not None
        # 同一题的选项相邻，排成一行才能在它们之间做 softmax
        scores = self.logits(batch).view(len(batch.labels), -1)
        return StepOutput({PART: self.loss(scores, batch.labels)})

    def count_labels(self, batch: Batch) -> dict[str, Tensor]:
        """Counts the labelled questions, a scalar."""
        assert batch.labels is not None
        return {PART: self.loss.count(batch.labels)}
