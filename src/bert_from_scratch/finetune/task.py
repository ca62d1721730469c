"""What a task is: from examples to batches, from numbers to answers.

A task joins everything that only it knows. Training, prediction and evaluation
are the same for all tasks and see them through this interface alone.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar, Generic, Protocol, Self, TypeVar

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, nn

from bert_from_scratch.data.batch import Batch
from bert_from_scratch.finetune.items import Item
from bert_from_scratch.objectives.output import StepOutput

Example = TypeVar("Example")
Prediction = TypeVar("Prediction")
Output = NDArray[np.float32]


class TaskModel(Protocol):
    """A model with a head: trains by batches, answers by items."""

    def __call__(self, batch: Batch) -> StepOutput:
        """Computes the loss of a labelled batch."""

    def count_labels(self, batch: Batch) -> dict[str, Tensor]:
        """Counts what the loss is averaged over."""

    def logits(self, batch: Batch) -> Tensor:
        """Scores a packed batch: its B sequences, or its T tokens.

        Returns:
            Float [B], [B, C] or [T, C].
        """


class Task(ABC, Generic[Example, Prediction]):
    """One form of fine-tuning.

    Attributes:
        name: As typed after `bert finetune`.
        metric: The number that decides which model is best; more is better.
    """

    name: ClassVar[str]
    metric: str

    @property
    def is_recordable(self) -> bool:
        """Whether a step does the same work for all batches of one shape."""
        return True

    @abstractmethod
    def items(self, examples: Sequence[Example]) -> list[Item]:
        """Encodes examples; those with labels can be trained on."""

    @abstractmethod
    def collate(self, items: Sequence[Item]) -> Batch:
        """Packs items, without padding; labelled where all of them are."""

    @abstractmethod
    def new_model(self, model_dir: Path) -> nn.Module:
        """Puts a fresh head on a pre-trained encoder."""

    @abstractmethod
    def load_model(self, model_dir: Path) -> nn.Module:
        """Loads a model that was trained for this task."""

    @abstractmethod
    def decode(
        self,
        examples: Sequence[Example],
        items: Sequence[Item],
        outputs: Sequence[Output],
    ) -> list[Prediction]:
        """Turns a model's numbers into one prediction an example."""

    @abstractmethod
    def metrics(self) -> tuple[str, ...]:
        """Returns the scores that may decide: more is better."""

    @abstractmethod
    def score(
        self, examples: Sequence[Example], predictions: Sequence[Prediction]
    ) -> dict[str, float]:
        """Judges predictions by the task's metrics, 0 to 1."""

    def tune(
        self, examples: Sequence[Example], predictions: Sequence[Prediction]
    ) -> Self:
        """Returns the task with what is chosen on dev chosen."""
        del examples, predictions
        return self

    def confusion(
        self, examples: Sequence[Example], predictions: Sequence[Prediction]
    ) -> tuple[tuple[str, ...], NDArray[np.int64]] | None:
        """Returns classes and counts [gold, predicted]; None: no classes."""
        del examples, predictions
        return None

    @abstractmethod
    def check(self, examples: Sequence[Example]) -> None:
        """Refuses examples that cannot be judged: no label, or a strange one.

        Raises:
            BertError: With the place of the first of them.
        """

    @abstractmethod
    def gold(self, example: Example) -> Any:
        """Returns what is right, ready for JSON."""

    @abstractmethod
    def mistake(self, example: Example, prediction: Prediction) -> float:
        """Says how wrong a prediction is; 0: it is right."""

    @abstractmethod
    def describe(
        self, example: Example, prediction: Prediction
    ) -> dict[str, Any]:
        """Returns what is told of one prediction, ready for JSON."""

    @abstractmethod
    def settings(self) -> dict[str, Any]:
        """Returns what prediction needs to know, ready for JSON."""
