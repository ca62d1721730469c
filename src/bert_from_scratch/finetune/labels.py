"""Classes: found in data, named on disk, told as probabilities."""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from bert_from_scratch.errors import BertError
from bert_from_scratch.finetune.task import Output

PART = "task"


def collect_labels(
    train: Iterable[tuple[str, str]], others: Iterable[tuple[str, str]]
) -> tuple[str, ...]:
    """Finds the classes of a task.

    Args:
        train: Label and place of everything that is trained on.
        others: Label and place of everything that is judged.

    Returns:
        The labels in order; numbers in the order of numbers.
    """
    train = list(train)
    _check_unicode(train)
    found = {label for label, _ in train}
    if len(found) < 2:
        raise BertError(
            f"The training data has one class only: {', '.join(found)!r}."
            if found
            else "The training data has no labels.",
            hint="check which column holds the labels",
        )
    for label, place in others:
        if label not in found:
            raise BertError(
                f"{place}: the label {label!r} does not occur in the training "
                f"data, which has {some(found)}.",
                hint="correct it, or add such examples to the training data",
            )
    return tuple(sorted(found, key=_label_order))


def _check_unicode(labels: Iterable[tuple[str, str]]) -> None:
    for label, place in labels:
        if any("\ud800" <= letter <= "\udfff" for letter in label):
            raise BertError(
                f"{place}: the label {label!r} is no valid Unicode."
            )


def check_weights(weights: Sequence[float], labels: Sequence[str]) -> None:
    """Refuses class weights that do not fit the classes."""
    are_sound = all(0 < weight < math.inf for weight in weights)
    if len(weights) != len(labels) or not are_sound:
        raise BertError(
            f"{len(labels)} positive class weights are needed, for "
            f"{some(labels)} in this order; got {list(weights)}.",
            hint="or use --class-weights balanced",
        )


def _label_order(label: str) -> tuple[float, str]:
    # 数字标签按数值排：否则 "10" 会排在 "2" 前面
    try:
        number = float(label)
    except ValueError:
        number = math.inf
    return number if math.isfinite(number) else math.inf, label


def some(labels: Iterable[str], limit: int = 8) -> str:
    """Lists labels for a message, not too many."""
    listed = sorted(labels, key=_label_order)
    more = len(listed) - limit
    text = ", ".join(map(repr, listed[:limit]))
    return f"{text} and {more} more" if more > 0 else text


def labels_config(labels: Sequence[str]) -> dict[str, Any]:
    """Returns the labels as Hugging Face keeps them in `config.json`."""
    return {
        "id2label": {str(i): label for i, label in enumerate(labels)},
        "label2id": {label: i for i, label in enumerate(labels)},
    }


def read_labels(values: Mapping[str, Any]) -> list[str]:
    """Reads the labels of a Hugging Face `config.json`, in id order."""
    found = values.get("id2label")
    if found is None:
        # transformers 的约定：没有写出标签时是两类
        return ["LABEL_0", "LABEL_1"]
    try:
        numbered = {int(number): str(label) for number, label in found.items()}
        labels = [numbered[number] for number in range(len(numbered))]
    except (AttributeError, KeyError, ValueError) as error:
        raise BertError(
            f"id2label in config.json is not a list of labels: {found!r}."
        ) from error
    if len(set(labels)) < len(labels):
        raise BertError(f"id2label in config.json has a name twice: {labels}.")
    return labels


def softmax(scores: Output) -> Output:
    """Turns scores into probabilities over the last axis."""
    powers = np.exp(scores - scores.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)
