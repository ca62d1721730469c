"""Training MiniBert, by either route, and asking it questions."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from math import log
from typing import Protocol

import numpy as np

from bert_from_scratch.corpus.progress import ProgressReport, keep_quiet
from bert_from_scratch.learn.minibert_data import (
    MASK,
    Exercise,
    MaskedBatch,
    hide,
)
from bert_from_scratch.learn.minibert_layers import Floats, softmax
from bert_from_scratch.learn.minibert_numpy import NumpyMiniBert

QUESTIONS = (
    "the man eats the [MASK]",
    "the man reads the [MASK]",
    "the man [MASK] the book",
)
# 语料里每句都是“冠词、名词、动词……”，动词总在第三个位置
VERB_PLACE = 2

Guess = tuple[str, float]


class MiniBert(Protocol):
    """Either route to the same model."""

    def train_batch(self, batch: MaskedBatch) -> float:
        """Takes one step; returns the loss before it."""

    def logits(self, batch: MaskedBatch) -> Floats:
        """Returns the scores at the hidden places, [B, V]."""


@dataclass(frozen=True)
class TrainedMiniBert:
    """A MiniBert after its exercise.

    Attributes:
        exercise: What it was trained on.
        model: The trained model.
        losses: The mean loss of every epoch.
    """

    exercise: Exercise
    model: MiniBert
    losses: tuple[float, ...]

    def guess(self, question: str, top: int = 5) -> list[Guess]:
        """Returns the best words for the [MASK], with probabilities."""
        probabilities = self.probabilities(question)
        best = np.argsort(-probabilities, kind="stable")[:top]
        words = self.exercise.vocabulary.words
        return [(words[i], float(probabilities[i])) for i in best]

    def probabilities(self, question: str) -> Floats:
        """Returns the probability of every word at the [MASK], [V]."""
        ids = np.array([self.exercise.vocabulary.encode(question)])
        place = np.array([question.split().index(MASK)])
        logits = self.model.logits(MaskedBatch(ids, place, place, np.ones(1)))
        return softmax(logits)[0]

    def verb_shares(self) -> tuple[float, float]:
        """Asks for the verb of every sentence that never hid it at first.

        Returns:
            How often the best guess is any verb of the text, and how often
            it is the one that was there.
        """
        words = self.exercise.vocabulary.words
        verbs = {s.split()[VERB_PLACE] for s in self.exercise.sentences}
        kinds, rights = [], []
        first_epoch = next(self.exercise.epochs())
        for ids, seen in zip(
            self.exercise.by_length(), first_epoch, strict=True
        ):
            # 只问没有当过考题的：背下来的答案不算本事
            unseen = ids[seen.mlm_positions != VERB_PLACE]
            places = np.full(len(unseen), VERB_PLACE)
            batch = hide(unseen, places, len(words) - 1, np.ones(1))
            guesses = self.model.logits(batch).argmax(axis=-1)
            kinds += [words[guess] in verbs for guess in guesses]
            rights += list(guesses == batch.mlm_labels)
        return float(np.mean(kinds)), float(np.mean(rights))


def train(
    exercise: Exercise,
    model: MiniBert | None = None,
    progress: ProgressReport = keep_quiet,
    stage: str = "MiniBert",
) -> TrainedMiniBert:
    """Trains a model through all epochs of an exercise.

    Args:
        exercise: What to read.
        model: Either route; None: NumPy from the exercise's first weights.
        progress: Told the epochs done.
        stage: What to call the work there.
    """
    model = model or NumpyMiniBert(exercise.first_parameters())
    losses = []
    for batches in exercise.epochs():
        # 按句数加权：各批大小不同，均值的均值会偏
        total = sum(
            model.train_batch(batch) * len(batch.mlm_labels)
            for batch in batches
        )
        losses.append(total / len(exercise.sentences))
        progress(stage, len(losses), exercise.num_epochs)
    return TrainedMiniBert(exercise, model, tuple(losses))


def lowest_loss(batches: Iterable[MaskedBatch], *, ordered: bool) -> float:
    """Computes the least mean loss that any model can have.

    Where the same question has several answers, the best that a model can do
    is to know how often each is right.

    Args:
        batches: The questions and their answers.
        ordered: Whether the model sees the order of the words.
    """
    answers: Counter[tuple[object, ...]] = Counter()
    questions: Counter[tuple[object, ...]] = Counter()
    for batch in batches:
        for ids, label in zip(batch.input_ids, batch.mlm_labels, strict=True):
            words = tuple(ids) if ordered else tuple(sorted(ids))
            questions[words] += 1
            answers[(*words, label)] += 1
    # 每种问法下答案的经验分布就是最优预测，其熵就是下界
    total = sum(
        -count * log(count / questions[key[:-1]])
        for key, count in answers.items()
    )
    return total / questions.total()
