"""A filled batch has the loss and the gradients of the batch itself."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from bert_from_scratch import (
    BertConfig,
    MultipleChoice,
    QuestionAnswerer,
    SequenceClassifier,
    TokenClassifier,
)
from bert_from_scratch.data.batch import IGNORE_INDEX, Batch, pack
from bert_from_scratch.data.filling import fill_up
from bert_from_scratch.objectives.output import StepOutput

CONFIG = BertConfig(
    vocab_size=50,
    hidden_size=32,
    num_hidden_layers=2,
    num_attention_heads=2,
    intermediate_size=64,
    max_position_embeddings=32,
    initializer_range=0.2,
)
NAMES = ("a", "b", "c")
LENGTHS = (9, 9, 5, 12)
NUM_TOKENS = sum(LENGTHS)


@dataclass(frozen=True)
class Sequence:
    input_ids: list[int]
    token_type_ids: list[int]


def tags() -> Tensor:
    labels = torch.arange(NUM_TOKENS) % 3
    labels[::4] = IGNORE_INDEX
    return labels


CASES: dict[str, tuple[Callable[[], nn.Module], dict[str, Any]]] = {
    "classes": (
        lambda: SequenceClassifier(CONFIG, NAMES, class_weights=(1, 2, 5)),
        {"labels": torch.tensor([0, 2, 1, 2])},
    ),
    "several classes": (
        lambda: SequenceClassifier(CONFIG, NAMES, "multi_label_classification"),
        {"labels": torch.eye(4)[:, :3]},
    ),
    "numbers": (
        lambda: SequenceClassifier(CONFIG, ("score",), "regression"),
        {"labels": torch.tensor([0.5, 2.0, 1.0, -1.0])},
    ),
    "choices": (
        lambda: MultipleChoice(CONFIG),
        {"labels": torch.tensor([1, 0])},
    ),
    "tags": (lambda: TokenClassifier(CONFIG, NAMES), {"labels": tags()}),
    "answers": (
        lambda: QuestionAnswerer(CONFIG),
        {
            "start_positions": torch.tensor([2, 0, 1, 8]),
            "end_positions": torch.tensor([3, 0, 4, 11]),
        },
    ),
}


def run(model: nn.Module, batch: Batch) -> tuple[StepOutput, list[Tensor]]:
    model.zero_grad()
    output: StepOutput = model(batch)
    output.loss.backward()
    return output, [
        torch.zeros(()) if p.grad is None else p.grad.clone()
        for p in model.parameters()
    ]


@pytest.mark.parametrize("case", CASES)
def test_loss_counts_and_gradients_stay_the_same(case: str) -> None:
    make_model, labels = CASES[case]
    generator = torch.Generator().manual_seed(0)
    ids = [torch.randint(5, 50, (n,), generator=generator) for n in LENGTHS]
    sequences = [Sequence(i.tolist(), [0] * len(i)) for i in ids]
    batch = replace(pack(sequences), **labels)
    filled = fill_up(batch, NUM_TOKENS + 11, 8, 16)
    torch.manual_seed(0)
    model = make_model().eval()
    expected, expected_gradients = run(model, batch)
    actual, gradients = run(model, filled)
    for name, part in expected.parts.items():
        other = actual.parts[name]
        torch.testing.assert_close(other.total, part.total)
        assert (other.count, other.correct) == (part.count, part.correct)
    torch.testing.assert_close(gradients, expected_gradients)
