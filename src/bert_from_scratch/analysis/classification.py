"""What a classifier says of one text, and which tokens made it say so."""

from dataclasses import dataclass

import torch

from bert_from_scratch.analysis.attribution import Attribution, attribute
from bert_from_scratch.data.batch import pack
from bert_from_scratch.errors import BertError
from bert_from_scratch.finetune.label_loss import Problem
from bert_from_scratch.finetune.labels import some
from bert_from_scratch.finetune.sequence_classifier import SequenceClassifier
from bert_from_scratch.tokenizer import Encoding, WordPieceTokenizer


@dataclass(frozen=True)
class ClassScore:
    """What is said of one class.

    Attributes:
        label: Its name.
        logit: Its score; the number itself, in a regression.
        probability: Of the class; None in a regression.
    """

    label: str
    logit: float
    probability: float | None


@dataclass(frozen=True)
class Classification:
    """The answer of a classifier.

    Attributes:
        problem: What the scores mean, in Hugging Face's words.
        classes: All of them, in the order of the model.
        attribution: Of the class that was asked for, or else the likeliest.
    """

    problem: Problem
    classes: tuple[ClassScore, ...]
    attribution: Attribution


def check_label(model: SequenceClassifier, label: str | None) -> None:
    """Refuses a class that the model does not have."""
    if label is not None and label not in model.labels:
        raise BertError(
            f"The model has no class {label!r}; it has {some(model.labels)}."
        )


def classify(
    model: SequenceClassifier,
    tokenizer: WordPieceTokenizer,
    encoding: Encoding,
    label: str | None = None,
) -> Classification:
    """Classifies a text and explains one class.

    Args:
        model: In evaluation mode.
        tokenizer: Of the model.
        encoding: One text or pair.
        label: The class to explain; None: the likeliest.
    """
    check_label(model, label)
    device = model.classifier.weight.device
    with torch.inference_mode():
        logits = model.logits(pack([encoding]).to(device))[0].float()
    if model.problem == "single_label_classification":
        probabilities = logits.softmax(-1).tolist()
    elif model.problem == "multi_label_classification":
        probabilities = logits.sigmoid().tolist()
    else:
        # 回归的分数就是答案，没有概率可言
        probabilities = [None] * len(logits)
    best = int(logits.argmax()) if label is None else model.labels.index(label)
    return Classification(
        problem=model.problem,
        classes=tuple(
            map(ClassScore, model.labels, logits.tolist(), probabilities)
        ),
        attribution=attribute(model, tokenizer, encoding, best),
    )
