"""Recorded steps: replayed by the GPU, and equal to those that were not."""

from dataclasses import dataclass, replace

import pytest
import torch

from bert_from_scratch import BertConfig, SequenceClassifier
from bert_from_scratch.data.batch import pack
from bert_from_scratch.finetune.items import Item
from bert_from_scratch.finetune.source import ItemSource
from bert_from_scratch.train.recorded_step import RecordedStep
from bert_from_scratch.train.settings import TrainingSettings
from bert_from_scratch.train.step_result import StepResult
from bert_from_scratch.train.trainer import BertTrainer

CONFIG = BertConfig(
    vocab_size=100,
    hidden_size=64,
    num_hidden_layers=2,
    num_attention_heads=2,
    intermediate_size=128,
    max_position_embeddings=64,
)


@dataclass(frozen=True)
class Sequence:
    input_ids: list[int]
    token_type_ids: list[int]


def make_items() -> list[Item]:
    generator = torch.Generator().manual_seed(0)
    items = []
    for number in range(64):
        length = int(torch.randint(4, 64, (), generator=generator))
        ids = torch.randint(5, 100, (length,), generator=generator).tolist()
        items.append(Item((Sequence(ids, [0] * length),), number % 3))
    return items


def train(records_steps: bool, num_steps: int = 24) -> list[StepResult]:
    """Trains with dropout on batches of a few shapes."""
    torch.manual_seed(0)
    source = ItemSource(
        make_items(),
        lambda items: replace(
            pack([item.sequences[0] for item in items]),
            labels=torch.tensor([item.labels for item in items]),
        ),
        batch_size=8,
        batch_tokens=256,
        seed=0,
        has_few_shapes=True,
    )
    settings = TrainingSettings(
        steps=num_steps,
        learning_rate=1e-3,
        precision="bf16",
        records_steps=records_steps,
    )
    trainer = BertTrainer(
        SequenceClassifier(CONFIG, ("a", "b", "c")),
        source,
        settings,
        device="cuda",
    )
    results: list[StepResult] = []

    def note(result: StepResult) -> bool:
        results.append(result)
        return False

    trainer.fit(note)
    if records_steps:
        assert isinstance(trainer._run_step, RecordedStep)
        assert trainer._run_step._recordings
    return results


@pytest.mark.gpu
def test_replayed_steps_have_the_losses_of_steps_launched_one_by_one() -> None:
    if not torch.cuda.is_available():
        pytest.skip("needs a CUDA device")
    launched, replayed = train(records_steps=False), train(records_steps=True)
    assert len(launched) == 24
    # 原子加法的次序会差一点舍入；dropout 若不同，差的就不止这一点
    for one, other in zip(launched, replayed, strict=True):
        assert other.loss == pytest.approx(one.loss, rel=2e-3)
        assert other.gradient_norm == pytest.approx(one.gradient_norm, rel=0.02)
    assert launched[-1].loss < launched[0].loss
