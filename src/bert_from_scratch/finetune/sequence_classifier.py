"""SequenceClassifier: one label, several labels, or a number, from [CLS].

Letters: B sequences, C classes, H width of a hidden state.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Self

from torch import Tensor, nn

from bert_from_scratch.config import BertConfig
from bert_from_scratch.data.batch import Batch
from bert_from_scratch.embeddings.dropout import Dropout
from bert_from_scratch.finetune.label_loss import LabelLoss, Problem
from bert_from_scratch.finetune.labels import PART, labels_config, read_labels
from bert_from_scratch.model.bert import BertModel
from bert_from_scratch.model.directory import StoredModel
from bert_from_scratch.model.initialise import initialise
from bert_from_scratch.objectives.output import StepOutput


class SequenceClassifier(StoredModel):
    """BERT with a dense layer on its pooled [CLS] (paper, 4.1)."""

    architecture = "BertForSequenceClassification"
    optional_parts = ("bert.pooler",)

    def __init__(
        self,
        config: BertConfig,
        labels: Sequence[str],
        problem: Problem = "single_label_classification",
        class_weights: Sequence[float] | None = None,
    ) -> None:
        """Builds a model with fresh weights.

        Args:
            config: Shape of the encoder.
            labels: Names of the classes; one name for a regression.
            problem: What the scores mean.
            class_weights: How much an example of each class counts in the
                loss; None: all the same.
        """
        super().__init__(config)
        self.labels = tuple(labels)
        self.bert = BertModel(config)
        self.dropout = Dropout(config.hidden_dropout_prob)
        self.classifier = nn.Linear(config.hidden_size, len(labels))
        self.loss = LabelLoss(problem, class_weights)
        initialise(self.classifier, config.initializer_range)

    @property
    def problem(self) -> Problem:
        """What the scores mean."""
        return self.loss.problem

    @classmethod
    def from_config(cls, config: BertConfig, values: Mapping[str, Any]) -> Self:
        """Builds the model of a Hugging Face `config.json`."""
        labels = read_labels(values)
        problem = values.get("problem_type")
        if problem is None and len(labels) == 1:
            problem = "regression"
        return cls(config, labels, problem or "single_label_classification")

    def head_config(self) -> dict[str, Any]:
        """Returns labels and kind of problem, under Hugging Face's names."""
        return {**labels_config(self.labels), "problem_type": self.problem}

    def logits(self, batch: Batch) -> Tensor:
        """Scores the classes, float [B, C]."""
        pooled = self.bert(**batch.inputs()).pooled
        return self.classifier(self.dropout(pooled))

    def forward(self, batch: Batch) -> StepOutput:
        """Computes the loss of a labelled batch."""
        assert batch.labels is not None
        part = self.loss(self.logits(batch), batch.labels)
        return StepOutput({PART: part})

    def count_labels(self, batch: Batch) -> dict[str, Tensor]:
        """Counts what the loss is averaged over, a scalar."""
        assert batch.labels is not None
        return {PART: self.loss.count(batch.labels)}
