"""The task `answer`: find the answer to a question in a text."""

import logging
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, ClassVar, Self, cast

import torch
from torch import nn

from bert_from_scratch.data.batch import IGNORE_INDEX, Batch, pack
from bert_from_scratch.data.tasks.examples import QuestionExample
from bert_from_scratch.errors import BertError
from bert_from_scratch.finetune.head import put_on_encoder
from bert_from_scratch.finetune.items import Item
from bert_from_scratch.finetune.metrics.answers import (
    best_null_threshold,
    cmrc_scores,
    squad_scores,
)
from bert_from_scratch.finetune.qa_span import QuestionAnswerer
from bert_from_scratch.finetune.spans import Candidate, find_best_spans
from bert_from_scratch.finetune.task import Output, Task
from bert_from_scratch.finetune.windows import Window, make_windows
from bert_from_scratch.tokenizer import WordPieceTokenizer

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class AnswerPrediction:
    """What is answered to one question.

    Attributes:
        text: Exactly `context[start:end]`; "": there is no answer.
        start: Its first character in the context.
        end: One past its last character.
        score: Start score plus end score.
        probability: Its share among the candidates.
        null_difference: How far the score of "no answer" lies above that of
            the best span.
        candidates: The n-best list, best first.
    """

    text: str
    start: int
    end: int
    score: float
    probability: float
    null_difference: float
    candidates: tuple[Candidate, ...]


@dataclass(frozen=True)
class AnsweringTask(Task[QuestionExample, AnswerPrediction]):
    """Questions, and contexts that answer them (paper, 4.2 and 4.3).

    Attributes:
        tokenizer: Of the model.
        max_length: Longest window in tokens.
        stride: How far one window lies from the last one.
        max_question: Tokens of a question that are kept.
        n_best: How many candidates are told.
        max_answer: Longest answer in tokens.
        has_null: Whether "no answer" may be the answer.
        null_threshold: "No answer" must be better by more than this.
        metric: What decides.
        character_f1: Whether to judge as CMRC does, by characters, rather
            than as SQuAD does, by words.
    """

    tokenizer: WordPieceTokenizer
    max_length: int = 384
    stride: int = 128
    max_question: int = 64
    n_best: int = 20
    max_answer: int = 30
    has_null: bool = False
    null_threshold: float = 0.0
    metric: str = "f1"
    character_f1: bool = False
    name: ClassVar[str] = "answer"

    def __post_init__(self) -> None:
        if self.n_best < 1 or self.max_answer < 1:
            raise BertError(
                f"The number of candidates ({self.n_best}) and the longest "
                f"answer ({self.max_answer} tokens) must be 1 or more."
            )

    @classmethod
    def for_data(
        cls,
        tokenizer: WordPieceTokenizer,
        train: Sequence[QuestionExample],
        others: Sequence[QuestionExample],
        **settings: Any,
    ) -> Self:
        """Makes the task of some data; `train` says whether null occurs."""
        has_null = any(example.is_impossible for example in train)
        settings.setdefault("has_null", has_null)
        # 位置少的模型：问题只占四分之一，给上下文留地方
        length = settings.get("max_length", cls.max_length)
        settings.setdefault("max_question", min(64, length // 4))
        task = cls(tokenizer, **settings)
        task.check([*train, *others])
        return task

    def check(self, examples: Sequence[QuestionExample]) -> None:
        """Refuses questions without an answer that do not say so."""
        for example in examples:
            if not example.answers and not example.is_impossible:
                raise BertError(
                    f"{example.place}: the question has no answer.",
                    hint='give "answers", or mark it "is_impossible": true',
                )

    def items(self, examples: Sequence[QuestionExample]) -> list[Item]:
        """Makes one item a window.

        Those of a question whose answer is nowhere in the context have no
        labels; a warning counts such questions.
        """
        windows = make_windows(
            self.tokenizer,
            examples,
            self.max_length,
            self.stride,
            self.max_question,
        )
        unlabelled = {w.example for w in windows if w.labels is None}
        # 全都没有标签就是在预测，不必警告
        if 0 < len(unlabelled) < len(examples):
            logger.warning(
                "%d of %d questions have no answer that a window of their "
                "context holds, such as %s; training leaves them out.",
                len(unlabelled),
                len(examples),
                examples[min(unlabelled)].place,
            )
        return [
            Item((window,), window.labels, window.example) for window in windows
        ]

    def collate(self, items: Sequence[Item]) -> Batch:
        """Packs windows; windows without labels are not asked for any."""
        batch = pack([item.sequences[0] for item in items])
        if all(item.labels is None for item in items):
            return batch
        ignored = (IGNORE_INDEX, IGNORE_INDEX)
        labels = [ignored if i.labels is None else i.labels for i in items]
        starts, ends = torch.tensor(labels).unbind(-1)
        return replace(batch, start_positions=starts, end_positions=ends)

    def new_model(self, model_dir: Path) -> nn.Module:
        """Puts a fresh head on a pre-trained encoder."""
        return put_on_encoder(QuestionAnswerer, model_dir)

    def load_model(self, model_dir: Path) -> nn.Module:
        """Loads a model that was trained to answer."""
        return QuestionAnswerer.from_pretrained(model_dir)

    def decode(
        self,
        examples: Sequence[QuestionExample],
        items: Sequence[Item],
        outputs: Sequence[Output],
    ) -> list[AnswerPrediction]:
        """Finds the best answer over all windows of every question."""
        # 一个问题的几个窗口合在一起比较，而不是各自选出再比
        parts = defaultdict[int, list[tuple[Window, Output]]](list)
        for item, output in zip(items, outputs, strict=True):
            window = cast("Window", item.sequences[0])
            parts[item.example].append((window, output))
        return [
            self._decode(example, parts[number])
            for number, example in enumerate(examples)
        ]

    def _decode(
        self,
        example: QuestionExample,
        parts: Sequence[tuple[Window, Output]],
    ) -> AnswerPrediction:
        windows, outputs = zip(*parts, strict=True)
        found = find_best_spans(
            example.context, windows, outputs, self.n_best, self.max_answer
        )
        candidates = found.candidates(self.has_null)
        return self._choose(candidates, found.null_difference)

    def _choose(
        self, candidates: tuple[Candidate, ...], null_difference: float
    ) -> AnswerPrediction:
        is_null = self.has_null and null_difference > self.null_threshold
        # 没有任何片段可选时只剩“无答案”一个候选，照样作答
        chosen = next(
            (c for c in candidates if (c.text == "") == is_null), candidates[0]
        )
        return AnswerPrediction(
            **chosen._asdict(),
            null_difference=null_difference,
            candidates=candidates,
        )

    def choose_again(
        self, predictions: Sequence[AnswerPrediction]
    ) -> list[AnswerPrediction]:
        """Chooses by this task's threshold what another's had chosen."""
        return [
            self._choose(p.candidates, p.null_difference) for p in predictions
        ]

    def with_best_threshold(
        self,
        examples: Sequence[QuestionExample],
        predictions: Sequence[AnswerPrediction],
    ) -> Self:
        """Returns the task with the threshold that gives the best score.

        Args:
            examples: Labelled, such as the dev set.
            predictions: To each of them, made with any threshold.
        """
        if not self.has_null:
            raise ValueError("without has_null there is no threshold to find")
        best_spans = {
            str(number): next((c.text for c in p.candidates if c.text), "")
            for number, p in enumerate(predictions)
        }
        differences = {
            str(number): prediction.null_difference
            for number, prediction in enumerate(predictions)
        }
        found = best_null_threshold(
            _gold(examples),
            best_spans,
            differences,
            by="exact_match" if self.metric == "exact_match" else "f1",
            as_cmrc=self.character_f1,
        )
        return replace(self, null_threshold=found.threshold)

    def metrics(self) -> tuple[str, ...]:
        """Returns the scores that may decide."""
        return ("f1", "exact_match")

    def score(
        self,
        examples: Sequence[QuestionExample],
        predictions: Sequence[AnswerPrediction],
    ) -> dict[str, float]:
        """Computes exact match and F1, as the official scripts do."""
        texts = {str(number): p.text for number, p in enumerate(predictions)}
        judge = cmrc_scores if self.character_f1 else squad_scores
        return judge(_gold(examples), texts)

    def tune(
        self,
        examples: Sequence[QuestionExample],
        predictions: Sequence[AnswerPrediction],
    ) -> Self:
        """Searches the null threshold, where there is one."""
        if not self.has_null:
            return self
        return self.with_best_threshold(examples, predictions)

    def gold(self, example: QuestionExample) -> Any:
        """Returns all accepted answers; none: there is no answer."""
        return _gold([example])["0"]

    def mistake(
        self, example: QuestionExample, prediction: AnswerPrediction
    ) -> float:
        """Returns how much of the answer is wrong: 1 less its F1."""
        return 1 - self.score([example], [prediction])["f1"]

    def describe(
        self, example: QuestionExample, prediction: AnswerPrediction
    ) -> dict[str, Any]:
        """Returns the answer, where it is, and the n-best list."""
        told: dict[str, Any] = {
            "id": example.id,
            "question": example.question,
            "answer": prediction.text,
            "start": prediction.start,
            "end": prediction.end,
            "score": prediction.score,
            "probability": prediction.probability,
        }
        if self.has_null:
            told["null_difference"] = prediction.null_difference
        told["n_best"] = [c._asdict() for c in prediction.candidates]
        return told

    def settings(self) -> dict[str, Any]:
        """Returns what prediction needs to know."""
        return {
            field.name: getattr(self, field.name)
            for field in fields(self)
            if field.name != "tokenizer"
        }

    @classmethod
    def from_settings(
        cls, tokenizer: WordPieceTokenizer, values: dict[str, Any]
    ) -> Self:
        """Makes the task that `settings` described."""
        return cls(tokenizer, **values)


def _gold(examples: Sequence[QuestionExample]) -> dict[str, list[str]]:
    """Returns all accepted answers by number; none where there is none."""
    # 按序号而不按 id：文件里重复的 id 不会互相覆盖
    return {
        str(number): [
            answer.text
            for answer in example.answers
            if not example.is_impossible
        ]
        for number, example in enumerate(examples)
    }
