"""TokenClassifier: one tag a token.

Letters: T tokens in all, S tokens of one sequence, C classes, H width of a
hidden state.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Self

from torch import Tensor, nn

from bert_from_scratch.config import BertConfig
from bert_from_scratch.data.batch import Batch
from bert_from_scratch.embeddings.dropout import Dropout
from bert_from_scratch.finetune.label_loss import LabelLoss
from bert_from_scratch.finetune.labels import (
    PART,
    labels_config,
    read_labels,
)
from bert_from_scratch.model.bert import BertModel
from bert_from_scratch.model.directory import StoredModel
from bert_from_scratch.model.initialise import initialise
from bert_from_scratch.objectives.output import StepOutput


class TokenClassifier(StoredModel):
    """BERT with a dense layer on every hidden state (paper, 5.3).

    Labels are long [T], IGNORE_INDEX at all tokens but the first of each word.
    """

    architecture = "BertForTokenClassification"

    def __init__(
        self,
        config: BertConfig,
        labels: Sequence[str],
        class_weights: Sequence[float] | None = None,
    ) -> None:
        """Builds a model with fresh weights.

        Args:
            config: Shape of the encoder.
            labels: Names of the classes.
            class_weights: How much a word of each class counts in the loss;
                None: all the same.
        """
        super().__init__(config)
        self.labels = tuple(labels)
        # 只看每个词的向量，用不到 [CLS] 的池化层
        self.bert = BertModel(config, with_pooler=False)
        self.dropout = Dropout(config.hidden_dropout_prob)
        self.classifier = nn.Linear(config.hidden_size, len(labels))
        initialise(self.classifier, config.initializer_range)
        self.loss = LabelLoss(class_weights=class_weights)

    @classmethod
    def from_config(cls, config: BertConfig, values: Mapping[str, Any]) -> Self:
        """Builds the model of a Hugging Face `config.json`."""
        return cls(config, read_labels(values))

    def head_config(self) -> dict[str, Any]:
        """Returns the labels, under Hugging Face's names."""
        return labels_config(self.labels)

    def logits(self, batch: Batch) -> Tensor:
        """Scores the classes of every token of a packed batch, float [T, C]."""
        hidden_state = self.bert(**batch.inputs()).hidden_state
        return self.classifier(self.dropout(hidden_state))

    def forward(self, batch: Batch) -> StepOutput:
        """Computes the loss of a labelled batch."""
        assert batch.labels is not None
        part = self.loss(self.logits(batch), batch.labels)
        return StepOutput({PART: part})

    def count_labels(self, batch: Batch) -> dict[str, Tensor]:
        """Counts what the loss is averaged over, a scalar."""
        assert batch.labels is not None
        return {PART: self.loss.count(batch.labels)}
