"""The task `choose`: which of several continuations is right."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import torch
from torch import nn

from bert_from_scratch.data.batch import Batch, pack
from bert_from_scratch.data.tasks.examples import ChoiceExample
from bert_from_scratch.errors import BertError
from bert_from_scratch.finetune.encoding import encode_texts
from bert_from_scratch.finetune.head import put_on_encoder
from bert_from_scratch.finetune.items import Item
from bert_from_scratch.finetune.labels import softmax
from bert_from_scratch.finetune.multiple_choice import MultipleChoice
from bert_from_scratch.finetune.task import Output, Task
from bert_from_scratch.tokenizer import WordPieceTokenizer


@dataclass(frozen=True)
class ChoicePrediction:
    """What is said of one question.

    Attributes:
        probabilities: One a choice, in the order of the choices.
    """

    probabilities: tuple[float, ...]

    @property
    def ranking(self) -> tuple[int, ...]:
        """The numbers of the choices, the likeliest first."""
        numbers = range(len(self.probabilities))
        return tuple(sorted(numbers, key=lambda n: -self.probabilities[n]))

    @property
    def answer(self) -> int:
        """The number of the likeliest choice, from 0."""
        return self.ranking[0]


@dataclass(frozen=True)
class ChoosingTask(Task[ChoiceExample, ChoicePrediction]):
    """Prompts with their choices.

    Attributes:
        tokenizer: Of the model.
        num_choices: Choices of a prompt that is learnt from or judged;
            None: any number. Prediction takes any number always: a choice
            is scored by itself.
        max_length: Longest sequence in tokens.
        metric: What decides.
    """

    tokenizer: WordPieceTokenizer
    num_choices: int | None
    max_length: int = 128
    metric: str = "accuracy"
    name: ClassVar[str] = "choose"

    @classmethod
    def for_data(
        cls,
        tokenizer: WordPieceTokenizer,
        train: Sequence[ChoiceExample],
        others: Sequence[ChoiceExample],
        **settings: Any,
    ) -> Self:
        """Makes the task of some data; `train` says how many choices."""
        if not train:
            raise BertError("The training data has no examples.")
        if len(train[0].choices) < 2:
            raise BertError(
                f"{train[0].place}: there is nothing to choose, only "
                f"{len(train[0].choices)} choice.",
                hint="two choices at least are needed",
            )
        task = cls(tokenizer, len(train[0].choices), **settings)
        task.check([*train, *others])
        return task

    def check(self, examples: Sequence[ChoiceExample]) -> None:
        """Refuses other numbers of choices, and questions without answer."""
        for example in examples:
            self._check_number(example)
            _answer_of(example)

    def _check_number(self, example: ChoiceExample) -> None:
        if self.num_choices not in (None, len(example.choices)):
            raise BertError(
                f"{example.place}: {len(example.choices)} choices, but "
                f"{self.num_choices} are expected.",
                hint="all questions must have the same number of choices",
            )

    def items(self, examples: Sequence[ChoiceExample]) -> list[Item]:
        """Encodes every choice as the pair of prompt and choice."""
        choices = [choice for e in examples for choice in e.choices]
        prompts = [e.prompt for e in examples for _ in e.choices]
        sequences = encode_texts(
            self.tokenizer, prompts, choices, self.max_length
        )
        rest = iter(sequences)
        return [
            Item(
                tuple(islice(rest, len(example.choices))),
                None if example.answer is None else _answer_of(example),
                number,
            )
            for number, example in enumerate(examples)
        ]

    def collate(self, items: Sequence[Item]) -> Batch:
        """Packs questions, choice after choice; labels are long [Q]."""
        batch = pack([s for item in items for s in item.sequences])
        if any(item.labels is None for item in items):
            return batch
        answers = torch.tensor([item.labels for item in items])
        return replace(batch, labels=answers)

    def new_model(self, model_dir: Path) -> nn.Module:
        """Puts a fresh scorer on a pre-trained encoder."""
        return put_on_encoder(MultipleChoice, model_dir)

    def load_model(self, model_dir: Path) -> nn.Module:
        """Loads a scorer that was trained before."""
        return MultipleChoice.from_pretrained(model_dir, ("bert.pooler",))

    def decode(
        self,
        examples: Sequence[ChoiceExample],
        items: Sequence[Item],
        outputs: Sequence[Output],
    ) -> list[ChoicePrediction]:
        """Turns scores into probabilities over the choices."""
        del examples, items
        return [
            ChoicePrediction(tuple(softmax(scores.astype(np.float64)).tolist()))
            for scores in outputs
        ]

    def metrics(self) -> tuple[str, ...]:
        """Returns the scores that may decide."""
        return ("accuracy",)

    def score(
        self,
        examples: Sequence[ChoiceExample],
        predictions: Sequence[ChoicePrediction],
    ) -> dict[str, float]:
        """Computes how often the likeliest choice is right."""
        is_right = [
            _answer_of(example) == prediction.answer
            for example, prediction in zip(examples, predictions, strict=True)
        ]
        return {"accuracy": sum(is_right) / max(len(is_right), 1)}

    def gold(self, example: ChoiceExample) -> Any:
        """Returns the number of the right choice."""
        return _answer_of(example)

    def mistake(
        self, example: ChoiceExample, prediction: ChoicePrediction
    ) -> float:
        """Returns how sure the model was of what is wrong."""
        answer = _answer_of(example)
        if answer == prediction.answer:
            return 0.0
        return 1 - prediction.probabilities[answer]

    def describe(
        self, example: ChoiceExample, prediction: ChoicePrediction
    ) -> dict[str, Any]:
        """Returns prompt, answer and all choices by probability."""
        return {
            "prompt": example.prompt,
            "answer": prediction.answer,
            "choice": example.choices[prediction.answer],
            "ranking": [
                {
                    "choice": example.choices[number],
                    "number": number,
                    "probability": prediction.probabilities[number],
                }
                for number in prediction.ranking
            ],
        }

    def settings(self) -> dict[str, Any]:
        """Returns what prediction needs to know."""
        return {
            "num_choices": self.num_choices,
            "max_length": self.max_length,
            "metric": self.metric,
        }

    @classmethod
    def from_settings(
        cls, tokenizer: WordPieceTokenizer, values: dict[str, Any]
    ) -> Self:
        """Makes the task that `settings` described."""
        return cls(tokenizer, **values)


def _answer_of(example: ChoiceExample) -> int:
    if example.answer is None:
        raise BertError(
            f"{example.place}: there is no answer.",
            hint="every question needs the number of its right choice",
        )
    if not 0 <= example.answer < len(example.choices):
        raise BertError(
            f"{example.place}: the answer {example.answer} lies outside 0 ... "
            f"{len(example.choices) - 1}.",
            hint="choices are counted from 0",
        )
    return example.answer
