"""BertForPreTraining: the encoder with both heads, and the sum of losses."""

from torch import Tensor

from bert_from_scratch.config import BertConfig
from bert_from_scratch.data.batch import Batch
from bert_from_scratch.errors import BertError
from bert_from_scratch.model.bert import BertModel
from bert_from_scratch.model.directory import StoredModel
from bert_from_scratch.model.initialise import initialise
from bert_from_scratch.model.layout import select
from bert_from_scratch.objectives.mlm import MaskedLMHead, MaskedLMLoss
from bert_from_scratch.objectives.nsp import NSPHead, NSPLoss
from bert_from_scratch.objectives.output import Part, StepOutput, count_labels


class BertForPreTraining(StoredModel):
    """BERT with its masked-word and next-sentence heads.

    >>> model = BertForPreTraining(BertConfig.preset("tiny"))
    >>> model(batch).loss.backward()
    """

    architecture = "BertForPreTraining"
    optional_parts = ("bert.pooler", "mlm_head", "nsp_head")

    def __init__(self, config: BertConfig) -> None:
        super().__init__(config)
        self.bert = BertModel(config)
        self.mlm_head = MaskedLMHead(config)
        self.nsp_head = NSPHead(config)
        self.mlm_loss = MaskedLMLoss()
        self.nsp_loss = NSPLoss()
        initialise(self.mlm_head, config.initializer_range)
        initialise(self.nsp_head, config.initializer_range)

    def forward(self, batch: Batch) -> StepOutput:
        """Computes the losses that the batch has labels for.

        Loss = MLM + NSP, as in the paper; a batch without `nsp_labels` has
        the MLM part alone, and the reverse.
        """
        output = self.bert(**batch.inputs(), places=batch.mlm_positions)
        parts: dict[str, Part] = {}
        if batch.mlm_positions is not None and batch.mlm_labels is not None:
            words = self.bert.embedding.token.weight
            parts["mlm"] = self.mlm_head.loss(
                output.hidden_state, words, batch.mlm_labels, self.mlm_loss
            )
        if batch.nsp_labels is not None:
            logits = self.nsp_head(output.pooled)
            parts["nsp"] = self.nsp_loss(logits, batch.nsp_labels)
        if not parts:
            raise BertError("The batch has neither mlm_labels nor nsp_labels.")
        return StepOutput(parts)

    def count_labels(self, batch: Batch) -> dict[str, Tensor]:
        """Counts what each part of the loss is averaged over, scalars."""
        labels = {"mlm": batch.mlm_labels, "nsp": batch.nsp_labels}
        return {
            name: count_labels(values)
            for name, values in labels.items()
            if values is not None
        }

    def mlm_logits(self, hidden_state: Tensor, mlm_positions: Tensor) -> Tensor:
        """Scores the vocabulary at some positions only.

        Args:
            hidden_state: Float [B, S, H] or packed [T, H].
            mlm_positions: Where to predict, as places in the flattened
                batch (row * S + column when padded), long [P].

        Returns:
            Logits, float [P, V].
        """
        # 只在被遮盖处计算词表打分：全位置打分要多花约五分之一的算力
        chosen = select(hidden_state, mlm_positions)
        return self.mlm_head(chosen, self.bert.embedding.token.weight)
