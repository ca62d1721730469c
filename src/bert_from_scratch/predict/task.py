"""A fine-tuned model at work: examples in, answers out, in their order."""

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, Self

import torch
from torch import nn

from bert_from_scratch.data.tasks.examples import TextExample
from bert_from_scratch.finetune.inference import BATCH_TOKENS, predict
from bert_from_scratch.finetune.tagging import TaggingTask, example_of_text
from bert_from_scratch.finetune.task import Task
from bert_from_scratch.finetune.tasks import load_task
from bert_from_scratch.model.device import choose_device
from bert_from_scratch.model.directory import find
from bert_from_scratch.model.inference import for_inference
from bert_from_scratch.predict.inputs import from_arguments, from_line

logger = logging.getLogger(__name__)

EXAMPLES_AT_A_TIME = 1024
Run = Callable[[Sequence[Any]], list[Any]]


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
    ) -> None:
        self.task = task
        self.device = torch.device(device)
        self.model = for_inference(model.to(self.device))

    @classmethod
    def load(cls, directory: str | Path, device: str = "auto") -> Self:
        """Loads task, tokenizer and model from one directory."""
        directory = find(Path(directory))
        task = load_task(directory)
        return cls(task, task.load_model(directory), choose_device(device))

    def predict_texts(self, words: Sequence[str]) -> list[dict[str, Any]]:
        """Answers what was typed; see `predict.inputs.from_arguments`."""
        return self.predict(from_arguments(self.task.name, words))

    def predict(
        self,
        examples: Sequence[Any],
        *,
        batch_tokens: int = BATCH_TOKENS,
        progress: Callable[[int], None] | None = None,
    ) -> list[dict[str, Any]]:
        """Predicts for examples of this task.

        Args:
            examples: From `data.tasks.examples`, labelled or not.
            batch_tokens: Tokens that go through at once.
            progress: Told the number of sequences done.

        Returns:
            One description an example, in their order, ready for JSON.
        """
        run = partial(
            predict,
            self.task,
            self.model,
            device=self.device,
            batch_tokens=batch_tokens,
            progress=progress,
        )
        if isinstance(self.task, TaggingTask):
            return _tag_texts(self.task, run, examples)
        return [
            self.task.describe(example, prediction)
            for example, prediction in zip(examples, run(examples), strict=True)
        ]

    def predict_lines(
        self,
        lines: Iterable[str],
        name: str,
        *,
        batch_tokens: int = BATCH_TOKENS,
    ) -> Iterator[dict[str, Any]]:
        """Predicts line by line, as they come, many at a time.

        Args:
            lines: Plain text, or JSON objects; blank ones are passed over,
                and counted in a log line.
            name: Of the file, for messages.
            batch_tokens: Tokens that go through at once.
        """
        blank: list[int] = []
        numbered = _without_blanks(lines, blank)
        while some := list(islice(numbered, EXAMPLES_AT_A_TIME)):
            yield from self.predict(
                [
                    from_line(self.task.name, line, f"{name}, line {number}")
                    for number, line in some
                ],
                batch_tokens=batch_tokens,
            )
        if blank:
            logger.warning(
                "%s: %d blank lines were passed over, the first is line %d.",
                name,
                len(blank),
                blank[0],
            )


def _without_blanks(
    lines: Iterable[str], blank: list[int]
) -> Iterator[tuple[int, str]]:
    """Yields numbered lines; notes the numbers of the blank ones."""
    for number, line in enumerate(lines, 1):
        if line.strip():
            yield number, line
        else:
            blank.append(number)


def _tag_texts(
    task: TaggingTask, run: Run, texts: Sequence[TextExample]
) -> list[dict[str, Any]]:
    """Tags free text; entities know their characters in it."""
    # 每段文字自成一篇：互不为上下文
    divided = [
        example_of_text(task.tokenizer, example.text, number)
        for number, example in enumerate(texts)
    ]
    found = run([example for example, _ in divided])
    return [
        task.describe(example, prediction, text.text, spans)
        for text, (example, spans), prediction in zip(
            texts, divided, found, strict=True
        )
    ]
