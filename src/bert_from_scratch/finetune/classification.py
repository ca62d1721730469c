"""The task `classify`: one label, or any number of labels, for a text."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from bert_from_scratch.config import BertConfig
from bert_from_scratch.data.batch import Batch, pack
from bert_from_scratch.data.tasks.examples import TextExample
from bert_from_scratch.errors import BertError
from bert_from_scratch.finetune.encoding import TextTokenizer, encode_texts
from bert_from_scratch.finetune.head import put_on_encoder
from bert_from_scratch.finetune.items import Item
from bert_from_scratch.finetune.label_loss import Problem
from bert_from_scratch.finetune.labels import (
    check_weights,
    collect_labels,
    softmax,
    some,
)
from bert_from_scratch.finetune.metrics.labels import (
    classification_scores,
    confusion_matrix,
    multi_label_scores,
)
from bert_from_scratch.finetune.sequence_classifier import (
    SequenceClassifier,
)
from bert_from_scratch.finetune.task import Output, Task


@dataclass(frozen=True)
class LabelPrediction:
    """What is said of one text.

    Attributes:
        labels: The likeliest label; of several, all above one half.
        probabilities: One a class, in the order of the classes.
    """

    labels: tuple[str, ...]
    probabilities: tuple[float, ...]


@dataclass(frozen=True)
class ClassificationTask(Task[TextExample, LabelPrediction]):
    """Texts or pairs, and classes.

    Attributes:
        tokenizer: Of the model.
        labels: The classes, in order.
        max_length: Longest sequence in tokens.
        is_multi_label: Whether a text may have any number of labels.
        label_separator: What stands between several labels in a file.
        metric: What decides.
        class_weights: How much each class counts in the loss, or None.
        has_pairs: Whether the model was trained on pairs; None: not known.
    """

    tokenizer: TextTokenizer
    labels: tuple[str, ...]
    max_length: int = 128
    is_multi_label: bool = False
    label_separator: str = "|"
    metric: str = "accuracy"
    class_weights: tuple[float, ...] | None = None
    has_pairs: bool | None = None
    name: ClassVar[str] = "classify"

    @classmethod
    def for_data(
        cls,
        tokenizer: TextTokenizer,
        train: Sequence[TextExample],
        others: Sequence[TextExample],
        **settings: Any,
    ) -> Self:
        """Makes the task of some data; its label set comes from `train`."""
        labels = collect_labels(_labels_of(train), _labels_of(others))
        has_pairs = pairs_of(train) is not None
        task = cls(tokenizer, labels, has_pairs=has_pairs, **settings)
        if not task.is_multi_label:
            _check_single([*train, *others])
        return task

    def with_balanced_classes(self, train: Sequence[TextExample]) -> Self:
        """Returns the task with classes weighted against their frequency."""
        counts = dict.fromkeys(self.labels, 0)
        for label, _ in _labels_of(train):
            counts[label] += 1
        total = sum(counts.values())
        weights = (total / (len(counts) * n) for n in counts.values())
        return replace(self, class_weights=tuple(weights))

    def with_class_weights(self, weights: Sequence[float]) -> Self:
        """Returns the task with these weights, one a class in order."""
        check_weights(weights, self.labels)
        return replace(self, class_weights=tuple(weights))

    @property
    def problem(self) -> Problem:
        """The kind of problem, under Hugging Face's name."""
        if self.is_multi_label:
            return "multi_label_classification"
        return "single_label_classification"

    def items(self, examples: Sequence[TextExample]) -> list[Item]:
        """Encodes texts and pairs; labels become numbers."""
        sequences = encode_texts(
            self.tokenizer,
            [example.text for example in examples],
            pairs_of(examples, self.has_pairs),
            self.max_length,
        )
        return [
            Item((sequence,), self._label_numbers(example), number)
            for number, (sequence, example) in enumerate(
                zip(sequences, examples, strict=True)
            )
        ]

    def _label_numbers(self, example: TextExample) -> list[int] | None:
        if example.labels is None:
            return None
        return [self.labels.index(label) for label in example.labels]

    def collate(self, items: Sequence[Item]) -> Batch:
        """Packs texts; labels are long [B], or float [B, C]."""
        batch = pack([item.sequences[0] for item in items])
        if any(item.labels is None for item in items):
            return batch
        if not self.is_multi_label:
            numbers = torch.tensor([item.labels[0] for item in items])
            return replace(batch, labels=numbers)
        targets = torch.zeros(len(items), len(self.labels))
        for row, item in enumerate(items):
            targets[row, item.labels] = 1
        return replace(batch, labels=targets)

    def new_model(self, model_dir: Path) -> nn.Module:
        """Puts a fresh classifier on a pre-trained encoder."""

        def build(config: BertConfig) -> SequenceClassifier:
            return SequenceClassifier(
                config, self.labels, self.problem, self.class_weights
            )

        return put_on_encoder(build, model_dir)

    def load_model(self, model_dir: Path) -> nn.Module:
        """Loads a classifier that was trained before."""
        return SequenceClassifier.from_pretrained(model_dir, ("bert.pooler",))

    def decode(
        self,
        examples: Sequence[TextExample],
        items: Sequence[Item],
        outputs: Sequence[Output],
    ) -> list[LabelPrediction]:
        """Turns scores into labels with probabilities."""
        del examples, items
        return [self._decode(scores) for scores in outputs]

    def _decode(self, scores: Output) -> LabelPrediction:
        if self.is_multi_label:
            chances = np.reciprocal(1 + np.exp(-scores))
            chosen = np.flatnonzero(chances > 0.5)
        else:
            chances = softmax(scores)
            chosen = np.array([chances.argmax()])
        labels = tuple(self.labels[number] for number in chosen)
        return LabelPrediction(labels, tuple(chances.tolist()))

    def metrics(self) -> tuple[str, ...]:
        """Returns the scores that may decide."""
        if self.is_multi_label:
            return ("accuracy", "f1_micro", "f1_macro")
        binary = ("f1",) if len(self.labels) == 2 else ()
        return ("accuracy", *binary, "f1_macro", "f1_micro", "matthews")

    def score(
        self,
        examples: Sequence[TextExample],
        predictions: Sequence[LabelPrediction],
    ) -> dict[str, float]:
        """Computes accuracy, F1 and Matthews' correlation."""
        gold = [self._label_numbers(example) or [] for example in examples]
        found = [[self.labels.index(x) for x in p.labels] for p in predictions]
        num_labels = len(self.labels)
        if self.is_multi_label:
            return multi_label_scores(
                _multi_hot(gold, num_labels), _multi_hot(found, num_labels)
            )
        return classification_scores(
            [numbers[0] for numbers in gold],
            [numbers[0] for numbers in found],
            num_labels,
        )

    def confusion(
        self,
        examples: Sequence[TextExample],
        predictions: Sequence[LabelPrediction],
    ) -> tuple[tuple[str, ...], NDArray[np.int64]] | None:
        """Counts which class was taken for which."""
        if self.is_multi_label:
            return None
        gold = [self.labels.index((e.labels or ("",))[0]) for e in examples]
        found = [self.labels.index(p.labels[0]) for p in predictions]
        return self.labels, confusion_matrix(gold, found, len(self.labels))

    def check(self, examples: Sequence[TextExample]) -> None:
        """Refuses unlabelled texts, and labels that the model cannot give."""
        for label, place in _labels_of(examples):
            if label not in self.labels:
                raise BertError(
                    f"{place}: the model does not know the label {label!r}; "
                    f"it knows {some(self.labels)}."
                )
        if not self.is_multi_label:
            _check_single(examples)

    def gold(self, example: TextExample) -> Any:
        """Returns the right label, or labels."""
        labels = list(example.labels or ())
        return labels if self.is_multi_label else labels[0]

    def mistake(
        self, example: TextExample, prediction: LabelPrediction
    ) -> float:
        """Returns how sure the model was of what is wrong."""
        gold = set(example.labels or ())
        chances = dict(zip(self.labels, prediction.probabilities, strict=True))
        wrong = [chances[x] for x in prediction.labels if x not in gold]
        missed = [1 - chances[x] for x in gold - set(prediction.labels)]
        return max([*wrong, *missed], default=0.0)

    def describe(
        self, example: TextExample, prediction: LabelPrediction
    ) -> dict[str, Any]:
        """Returns text, label and probabilities."""
        labels = list(prediction.labels)
        pair = {} if example.pair is None else {"pair": example.pair}
        told: dict[str, Any] = {"text": example.text, **pair}
        if self.is_multi_label:
            told["labels"] = labels
        else:
            told["label"] = labels[0]
        told["probabilities"] = dict(
            zip(self.labels, prediction.probabilities, strict=True)
        )
        return told

    def settings(self) -> dict[str, Any]:
        """Returns what prediction needs to know."""
        return {
            "labels": list(self.labels),
            "max_length": self.max_length,
            "is_multi_label": self.is_multi_label,
            "label_separator": self.label_separator,
            "metric": self.metric,
            "has_pairs": self.has_pairs,
        }

    @classmethod
    def from_settings(
        cls, tokenizer: TextTokenizer, values: dict[str, Any]
    ) -> Self:
        """Makes the task that `settings` described."""
        return cls(tokenizer, **{**values, "labels": tuple(values["labels"])})


def pairs_of(
    examples: Sequence[TextExample], expected: bool | None = None
) -> list[str] | None:
    """Returns all second segments; None where examples have none.

    Args:
        examples: All pairs, or none of them.
        expected: Which of the two; None: either.
    """
    pairs = [example.pair for example in examples if example.pair is not None]
    if expected is False and pairs:
        paired = next(e for e in examples if e.pair is not None)
        raise BertError(
            f"{paired.place}: this is a pair, but the model was trained on "
            "single texts."
        )
    if len(pairs) < len(examples) and (pairs or expected):
        alone = next(e for e in examples if e.pair is None)
        raise BertError(
            f"{alone.place}: the second text of a pair is missing.",
            hint='on a line, a tab stands between the two; or {"text": ..., '
            '"pair": ...}',
        )
    return pairs or None


def _labels_of(examples: Sequence[TextExample]) -> Iterator[tuple[str, str]]:
    for example in examples:
        if example.labels is None:
            raise BertError(
                f"{example.place}: there is no label.",
                hint="name its column: --label-column NAME_OR_NUMBER",
            )
        for label in example.labels:
            yield label, example.place


def _check_single(examples: Sequence[TextExample]) -> None:
    for example in examples:
        if len(example.labels or ()) != 1:
            raise BertError(
                f"{example.place}: one label is expected, got "
                f"{list(example.labels or ())}.",
                hint="several labels at once need --multi-label",
            )


def _multi_hot(rows: list[list[int]], width: int) -> np.ndarray[Any, Any]:
    table = np.zeros((len(rows), width), bool)
    for row, numbers in enumerate(rows):
        table[row, numbers] = True
    return table
