"""WordClassifier: a baseline encoder with a dense layer, and its directory."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn

from bert_from_scratch import atomic
from bert_from_scratch.config import read_json
from bert_from_scratch.data.batch import Batch
from bert_from_scratch.embeddings.dropout import Dropout
from bert_from_scratch.errors import BertError
from bert_from_scratch.finetune.baselines.encoders import (
    WordEncoder,
    WordEncoderConfig,
)
from bert_from_scratch.finetune.label_loss import LabelLoss, Problem
from bert_from_scratch.finetune.labels import PART
from bert_from_scratch.model.tensor_file import write_tensors
from bert_from_scratch.objectives.output import StepOutput

ARCHITECTURE = "WordClassifier"


class WordClassifier(nn.Module):
    """What came before BERT, with the same head and the same loss."""

    def __init__(
        self,
        config: WordEncoderConfig,
        labels: Sequence[str],
        problem: Problem = "single_label_classification",
        class_weights: Sequence[float] | None = None,
        word_vectors: NDArray[np.float32] | None = None,
    ) -> None:
        """Builds a classifier with fresh weights.

        Args:
            config: Shape of the encoder.
            labels: Names of the classes.
            problem: What the scores mean.
            class_weights: As in `SequenceClassifier`.
            word_vectors: Where the word vectors start, or None.
        """
        super().__init__()
        self.labels = tuple(labels)
        self.encoder = WordEncoder(config, word_vectors)
        self.dropout = Dropout(config.dropout)
        self.classifier = nn.Linear(self.encoder.output_size, len(labels))
        self.loss = LabelLoss(problem, class_weights)

    def logits(self, batch: Batch) -> Tensor:
        """Scores the classes, float [B, C]."""
        return self.classifier(self.dropout(self.encoder(batch)))

    def forward(self, batch: Batch) -> StepOutput:
        """Computes the loss of a labelled batch."""
        assert batch.labels is not None
        part = self.loss(self.logits(batch), batch.labels)
        return StepOutput({PART: part})

    def count_labels(self, batch: Batch) -> dict[str, Tensor]:
        """Counts what the loss is averaged over, a scalar."""
        assert batch.labels is not None
        return {PART: self.loss.count(batch.labels)}

    def save_pretrained(self, directory: str | Path) -> None:
        """Writes `config.json` and `model.safetensors`, in our own format."""
        values = {
            "architectures": [ARCHITECTURE],
            "model_type": "words",
            "encoder": self.encoder.config.to_dict(),
            "labels": list(self.labels),
            "problem": self.loss.problem,
        }
        tensors = {
            k: v.cpu().contiguous() for k, v in self.state_dict().items()
        }
        with atomic.replace_files(Path(directory)) as scratch_dir:
            write_tensors(scratch_dir / "model.safetensors", tensors)
            atomic.write_json(scratch_dir / "config.json", values)

    @classmethod
    def from_pretrained(cls, directory: str | Path) -> Self:
        """Loads what `save_pretrained` wrote."""
        directory = Path(directory)
        values = read_json(directory / "config.json")
        model = cls._from_config(values, directory)
        try:
            model.load_state_dict(load_file(directory / "model.safetensors"))
        except (SafetensorError, OSError, RuntimeError) as error:
            raise BertError(
                f"The weights in {directory} do not fit its config.json, or "
                f"are damaged: {str(error).split(chr(10))[0]}."
            ) from error
        return model.eval()

    @classmethod
    def _from_config(cls, values: Mapping[str, Any], directory: Path) -> Self:
        try:
            return cls(
                WordEncoderConfig.from_dict(values["encoder"]),
                values["labels"],
                values["problem"],
            )
        except KeyError as error:
            raise BertError(
                f"{directory / 'config.json'} lacks {error}."
            ) from error
