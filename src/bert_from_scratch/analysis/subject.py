"""What is looked into: a BERT with the head that its directory holds."""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import torch

from bert_from_scratch.config import read_json
from bert_from_scratch.errors import BertError
from bert_from_scratch.finetune.sequence_classifier import SequenceClassifier
from bert_from_scratch.model.bert import BertModel
from bert_from_scratch.model.device import choose_device
from bert_from_scratch.model.directory import find
from bert_from_scratch.objectives.pretraining import BertForPreTraining
from bert_from_scratch.tokenizer import Encoding, WordPieceTokenizer

MLM_ARCHITECTURES = ("BertForPreTraining", "BertForMaskedLM")

Model = BertModel | BertForPreTraining | SequenceClassifier


@dataclass(frozen=True)
class Subject:
    """A model, its tokenizer, and what they are called.

    Attributes:
        name: What people call the model: the name of its folder.
        architecture: Hugging Face's name of the class on disk.
        model: With its MLM head or its classifier; the encoder alone where
            the directory holds neither.
        tokenizer: Of the model.
    """

    name: str
    architecture: str
    model: Model
    tokenizer: WordPieceTokenizer

    @classmethod
    def load(cls, directory: str | Path, device: str = "auto") -> Self:
        """Loads model and tokenizer from one directory.

        Args:
            directory: Any BERT directory, or a run.
            device: Where to compute.
        """
        model_dir = find(Path(directory))
        values = read_json(model_dir / "config.json")
        architecture = next(iter(values.get("architectures") or ["BertModel"]))
        model = _load_model(model_dir, architecture)
        _check_finite(model, model_dir)
        return cls(
            name=_name(model_dir),
            architecture=architecture,
            model=model.to(choose_device(device)).eval(),
            tokenizer=WordPieceTokenizer.load(model_dir),
        )

    @property
    def bert(self) -> BertModel:
        """The encoder."""
        if isinstance(self.model, BertModel):
            return self.model
        return self.model.bert

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return self.bert.embedding.token.weight.device

    def encode(self, text: str, pair: str | None) -> Encoding:
        """Encodes a text whole; one that is too long is an error."""
        # 分类器训练时把文本里的 [SEP] 当普通文字，这里与 bert predict 一致
        encoding = self.tokenizer.encode(
            text,
            pair,
            max_length=sys.maxsize,
            specials_are_text=isinstance(self.model, SequenceClassifier),
        )
        longest = self.bert.config.max_position_embeddings
        if len(encoding) > longest:
            raise BertError(
                f"The text has {len(encoding)} tokens, over the maximum of "
                f"{longest} (max_position_embeddings).",
                hint=f"shorten it by {len(encoding) - longest} tokens",
            )
        return encoding


def _load_model(model_dir: Path, architecture: str) -> Model:
    if architecture in MLM_ARCHITECTURES:
        return BertForPreTraining.from_pretrained(
            model_dir, required_parts=("mlm_head",)
        )
    if architecture == SequenceClassifier.architecture:
        # 没有 pooler 的分类器算不出分数，随机补上的更不能拿来解释
        return SequenceClassifier.from_pretrained(
            model_dir, required_parts=("bert.pooler",)
        )
    return BertModel.from_pretrained(model_dir, required_parts=())


def _check_finite(model: Model, model_dir: Path) -> None:
    for name, parameter in model.named_parameters():
        if not bool(parameter.isfinite().all()):
            raise BertError(
                f"{model_dir}: {name} holds numbers that are not finite.",
                hint="its weights are damaged; did its training diverge?",
            )


def _name(model_dir: Path) -> str:
    resolved = model_dir.resolve()
    is_inner = resolved.name == "model" and resolved.parent.name
    return resolved.parent.name if is_inner else resolved.name
