"""The task `regress`: a number for a text or a pair."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Self

import torch
from torch import nn

from bert_from_scratch.config import BertConfig
from bert_from_scratch.data.batch import Batch, pack
from bert_from_scratch.data.tasks.examples import TextExample
from bert_from_scratch.errors import BertError
from bert_from_scratch.finetune.classification import pairs_of
from bert_from_scratch.finetune.encoding import encode_texts
from bert_from_scratch.finetune.head import put_on_encoder
from bert_from_scratch.finetune.items import Item
from bert_from_scratch.finetune.metrics.labels import correlation_scores
from bert_from_scratch.finetune.sequence_classifier import SequenceClassifier
from bert_from_scratch.finetune.task import Output, Task
from bert_from_scratch.tokenizer import WordPieceTokenizer

# transformers 给单一输出起的名字：它据此认出这是回归
LABELS = ("LABEL_0",)
# float32 装得下的最大的数
LARGEST = 3.4e38


@dataclass(frozen=True)
class RegressionTask(Task[TextExample, float]):
    """Texts or pairs, and a number for each.

    Attributes:
        tokenizer: Of the model.
        max_length: Longest sequence in tokens.
        metric: What decides.
        has_pairs: Whether the model was trained on pairs; None: not known.
    """

    tokenizer: WordPieceTokenizer
    max_length: int = 128
    metric: str = "spearman"
    has_pairs: bool | None = None
    name: ClassVar[str] = "regress"

    @classmethod
    def for_data(
        cls,
        tokenizer: WordPieceTokenizer,
        train: Sequence[TextExample],
        others: Sequence[TextExample],
        **settings: Any,
    ) -> Self:
        """Makes the task of some data; every example must have its number."""
        for example in (*train, *others):
            read_number(example)
        has_pairs = pairs_of(train) is not None
        return cls(tokenizer, has_pairs=has_pairs, **settings)

    def items(self, examples: Sequence[TextExample]) -> list[Item]:
        """Encodes texts and pairs; labels become floats."""
        sequences = encode_texts(
            self.tokenizer,
            [example.text for example in examples],
            pairs_of(examples, self.has_pairs),
            self.max_length,
        )
        return [
            Item(
                (sequence,),
                None if example.labels is None else read_number(example),
                number,
            )
            for number, (sequence, example) in enumerate(
                zip(sequences, examples, strict=True)
            )
        ]

    def collate(self, items: Sequence[Item]) -> Batch:
        """Packs texts; labels are float [B]."""
        batch = pack([item.sequences[0] for item in items])
        if any(item.labels is None for item in items):
            return batch
        numbers = torch.tensor([float(item.labels) for item in items])
        return replace(batch, labels=numbers)

    def new_model(self, model_dir: Path) -> nn.Module:
        """Puts a fresh dense layer with one output on an encoder."""

        def build(config: BertConfig) -> SequenceClassifier:
            return SequenceClassifier(config, LABELS, "regression")

        return put_on_encoder(build, model_dir)

    def load_model(self, model_dir: Path) -> nn.Module:
        """Loads a model that was trained before."""
        return SequenceClassifier.from_pretrained(model_dir, ("bert.pooler",))

    def decode(
        self,
        examples: Sequence[TextExample],
        items: Sequence[Item],
        outputs: Sequence[Output],
    ) -> list[float]:
        """Returns the numbers as they are."""
        del examples, items
        return [float(scores[0]) for scores in outputs]

    def metrics(self) -> tuple[str, ...]:
        """Returns the scores that may decide."""
        return ("spearman", "pearson")

    def score(
        self, examples: Sequence[TextExample], predictions: Sequence[float]
    ) -> dict[str, float]:
        """Computes correlations and errors."""
        return correlation_scores(
            [read_number(example) for example in examples], predictions
        )

    def check(self, examples: Sequence[TextExample]) -> None:
        """Refuses texts without a number."""
        for example in examples:
            read_number(example)

    def gold(self, example: TextExample) -> Any:
        """Returns the right number."""
        return read_number(example)

    def mistake(self, example: TextExample, prediction: float) -> float:
        """Returns how far off the number is."""
        return abs(prediction - read_number(example))

    def describe(
        self, example: TextExample, prediction: float
    ) -> dict[str, Any]:
        """Returns text and score."""
        pair = {} if example.pair is None else {"pair": example.pair}
        return {"text": example.text, **pair, "score": prediction}

    def settings(self) -> dict[str, Any]:
        """Returns what prediction needs to know."""
        return {
            "max_length": self.max_length,
            "metric": self.metric,
            "has_pairs": self.has_pairs,
        }

    @classmethod
    def from_settings(
        cls, tokenizer: WordPieceTokenizer, values: dict[str, Any]
    ) -> Self:
        """Makes the task that `settings` described."""
        return cls(tokenizer, **values)


def read_number(example: TextExample) -> float:
    """Reads the number that an example is labelled with."""
    if example.labels is None or len(example.labels) != 1:
        raise BertError(
            f"{example.place}: one number is expected, got "
            f"{list(example.labels or ())}.",
            hint="name its column: --label-column NAME_OR_NUMBER",
        )
    try:
        number = float(example.labels[0])
    except ValueError:
        number = math.nan
    # NaN 在损失里表示“没有标签”，混进来会被悄悄跳过
    if not abs(number) < LARGEST:
        raise BertError(
            f"{example.place}: {example.labels[0]!r} is not a finite number.",
            hint="for classes, use: bert finetune classify",
        )
    return number
