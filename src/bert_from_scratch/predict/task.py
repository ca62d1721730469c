"""A fine-tuned model at work: examples in, answers out, in their order."""

import logging
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Self

import torch
from torch import nn

from bert_from_scratch.data.prefetch import prefetch
from bert_from_scratch.finetune.inference import run_model
from bert_from_scratch.finetune.items import Item
from bert_from_scratch.finetune.tagging import TaggingTask, example_of_text
from bert_from_scratch.finetune.task import Task
from bert_from_scratch.finetune.tasks import load_task
from bert_from_scratch.model.bert import BertModel
from bert_from_scratch.model.device import choose_device
from bert_from_scratch.model.directory import find
from bert_from_scratch.model.inference import (
    Precision,
    choose_precision,
    for_inference,
)
from bert_from_scratch.predict.inputs import from_arguments, from_line

logger = logging.getLogger(__name__)

EXAMPLES_AT_A_TIME = 1024


@dataclass(frozen=True)
class _Encoded:
    """Examples that are ready for the model.

    Attributes:
        examples: As the task reads them.
        items: Made of them.
        details: What `Task.describe` is told of each besides.
    """

    examples: Sequence[Any]
    items: list[Item]
    details: Sequence[tuple[Any, ...]]


class TaskPredictor:
    """A fine-tuned model, warm: loaded once, asked often.

    >>> predictor = TaskPredictor.load("my-classifier")
    >>> predictor.predict_texts(["What a film!"])
    [{'text': 'What a film!', 'label': 'pos', 'probabilities': {...}}]
    """

    def __init__(
        self,
        task: Task[Any, Any],
        model: nn.Module,
        device: torch.device | str = "cpu",
        precision: str = "auto",
    ) -> None:
        """Takes a model over: it is moved, and laid out for prediction.

        Args:
            task: Of the model.
            model: Fine-tuned; its weights stay float32.
            device: Where to compute.
            precision: "auto", "fp32" or "bf16", see `choose_precision`;
                what is no BERT stays in fp32.
        """
        self.task = task
        self.device = torch.device(device)
        self.precision = _choose_precision(precision, self.device, model)
        self.model = for_inference(model.to(self.device))

    @classmethod
    def load(
        cls,
        directory: str | Path,
        device: str = "auto",
        precision: str = "auto",
    ) -> Self:
        """Loads task, tokenizer and model from one directory."""
        directory = find(Path(directory))
        task = load_task(directory)
        model = task.load_model(directory)
        return cls(task, model, choose_device(device), precision)

    def predict_texts(self, words: Sequence[str]) -> list[dict[str, Any]]:
        """Answers what was typed; see `predict.inputs.from_arguments`."""
        return self.predict(from_arguments(self.task.name, words))

    def predict(
        self,
        examples: Sequence[Any],
        *,
        batch_tokens: int | None = None,
        progress: Callable[[int], None] | None = None,
    ) -> list[dict[str, Any]]:
        """Predicts for examples of this task.

        Args:
            examples: From `data.tasks.examples`, labelled or not.
            batch_tokens: Tokens that go through at once; None: 65,536 on a
                GPU, else 8,192.
            progress: Told the number of sequences done.

        Returns:
            One description an example, in their order, ready for JSON.
        """
        return self._answer(self._encode(examples), batch_tokens, progress)

    def predict_lines(
        self,
        lines: Iterable[str],
        name: str,
        *,
        batch_tokens: int | None = None,
        reads_ahead: bool = False,
    ) -> Generator[dict[str, Any]]:
        """Predicts line by line, as they come, many at a time.

        Args:
            lines: Plain text, or JSON objects; blank ones are passed over,
                and counted in a log line.
            name: Of the file, for messages.
            batch_tokens: As in `predict`.
            reads_ahead: Whether the next lines are read and encoded in a
                thread meanwhile. Not for lines that someone may keep us
                waiting for: who stops early would wait for them too.
        """
        blank: list[int] = []
        encoded = self._encode_lines(lines, name, blank)
        if reads_ahead:
            encoded = prefetch(encoded, depth=1)
        with closing(encoded):
            for some in encoded:
                yield from self._answer(some, batch_tokens)
        if blank:
            logger.warning(
                "%s: %d blank lines were passed over, the first is line %d.",
                name,
                len(blank),
                blank[0],
            )

    def _encode_lines(
        self, lines: Iterable[str], name: str, blank: list[int]
    ) -> Generator[_Encoded]:
        numbered = _without_blanks(lines, blank)
        while some := list(islice(numbered, EXAMPLES_AT_A_TIME)):
            yield self._encode(
                [
                    from_line(self.task.name, line, f"{name}, line {number}")
                    for number, line in some
                ]
            )

    def _encode(self, examples: Sequence[Any]) -> _Encoded:
        details: Sequence[tuple[Any, ...]] = [()] * len(examples)
        if isinstance(self.task, TaggingTask):
            # 每段文字自成一篇：互不为上下文；实体还要知道自己在原文的位置
            tokenizer, texts = self.task.tokenizer, examples
            divided = [
                example_of_text(tokenizer, text.text, number)
                for number, text in enumerate(texts)
            ]
            examples = [example for example, _ in divided]
            details = [
                (text.text, spans)
                for text, (_, spans) in zip(texts, divided, strict=True)
            ]
        return _Encoded(examples, self.task.items(examples), details)

    def _answer(
        self,
        encoded: _Encoded,
        batch_tokens: int | None,
        progress: Callable[[int], None] | None = None,
    ) -> list[dict[str, Any]]:
        outputs = run_model(
            self.task,
            self.model,
            encoded.items,
            self.device,
            batch_tokens=batch_tokens,
            half=self.precision == "bf16",
            progress=progress,
        )
        examples = encoded.examples
        found = self.task.decode(examples, encoded.items, outputs)
        describe: Callable[..., dict[str, Any]] = self.task.describe
        return [
            describe(example, prediction, *detail)
            for example, prediction, detail in zip(
                examples, found, encoded.details, strict=True
            )
        ]


def _choose_precision(
    name: str, device: torch.device, model: nn.Module
) -> Precision:
    chosen = choose_precision(name, device)
    if any(isinstance(part, BertModel) for part in model.modules()):
        return chosen
    # 词袋、LSTM 等小模型用不上半精度，有的处理器上还没有它们的内核
    if name == "bf16":
        logger.warning("The precision bf16 has no effect: this is no BERT.")
    return "fp32"


def _without_blanks(
    lines: Iterable[str], blank: list[int]
) -> Iterator[tuple[int, str]]:
    """Yields numbered lines; notes the numbers of the blank ones."""
    for number, line in enumerate(lines, 1):
        if line.strip():
            yield number, line
        else:
            blank.append(number)
