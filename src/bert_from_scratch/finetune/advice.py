"""What a person should be told about a fine-tuning, before and after it."""

import logging
from collections.abc import Sequence
from typing import Any

import numpy as np

from bert_from_scratch.finetune.attempt import AttemptResult
from bert_from_scratch.finetune.items import Item
from bert_from_scratch.finetune.outcome import Judged
from bert_from_scratch.finetune.task import Task
from bert_from_scratch.tokenizer import WordPieceTokenizer

logger = logging.getLogger(__name__)

WILD_SPREAD = 0.05
FEW_STEPS = 50
MUCH_UNKNOWN = 0.05
MANY_LABELS = 20


def warn_of_few_steps(num_steps: int) -> None:
    """Warns where there is hardly any training."""
    if num_steps < FEW_STEPS:
        logger.warning(
            "Only %d steps of training: too few to learn much. Raise "
            "--epochs, lower --batch-size, or raise --lr.",
            num_steps,
        )


def warn_of_unknown_tokens(task: Task[Any, Any], items: Sequence[Item]) -> None:
    """Warns where the model's vocabulary does not know the texts."""
    tokenizer = getattr(task, "tokenizer", None)
    if not isinstance(tokenizer, WordPieceTokenizer):
        return
    sequences = [s.input_ids for item in items for s in item.sequences]
    tokens = np.concatenate([np.asarray(ids) for ids in sequences])
    share = float((tokens == tokenizer.unk_token_id).mean())
    if share > MUCH_UNKNOWN:
        logger.warning(
            "%.0f %% of the tokens are [UNK]: the model's vocabulary does "
            "not know these texts.",
            100 * share,
        )


def warn_of_many_labels(task: Task[Any, Any], train: Sequence[Any]) -> None:
    """Warns where nearly every text or word has a label of its own."""
    labels = getattr(task, "labels", ())
    count = sum(len(getattr(example, "words", "?")) for example in train)
    if len(labels) > max(MANY_LABELS, count / 4):
        logger.warning(
            "There are %d labels for %d %s: is this the right column?",
            len(labels),
            count,
            "words" if task.name == "tag" else "texts",
        )


def warn_of_one_label(judged: Judged) -> None:
    """Warns of a classifier that has learnt to say one thing only."""
    if judged.task.name != "classify" or len(judged.predictions) < 2:
        return
    said = {prediction.labels for prediction in judged.predictions}
    if len(said) == 1:
        logger.warning(
            "The model gives every example of dev the label %s: it has "
            "learnt nothing yet.",
            "|".join(said.pop()) or "(none)",
        )


def warn_of_spread(
    results: list[AttemptResult], best: AttemptResult, metric: str
) -> None:
    """Warns where seeds of one learning rate disagree wildly."""
    scores = [
        result.scores[metric]
        for result in results
        if result.learning_rate == best.learning_rate
    ]
    low, high = min(scores), max(scores)
    # 0.95 与 1.00 之差在浮点里略大于 0.05：留一点余地
    if high - low > WILD_SPREAD + 1e-9:
        logger.warning(
            "The seeds disagree: %s from %.4f to %.4f over %d seeds. Report "
            "the mean, not the best; more epochs or a lower --lr may help.",
            metric,
            low,
            high,
            len(scores),
        )
