"""The loop: one big batch in any number of parts, and an exact resume."""

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from bert_from_scratch import BertConfig, BertForPreTraining
from bert_from_scratch.data.masking import MaskingRule
from bert_from_scratch.data.pretraining import BatchShape, PretrainingData
from bert_from_scratch.data.steps import Position
from bert_from_scratch.kernels import dense
from bert_from_scratch.train.checkpoint import (
    load_checkpoint,
    newest_checkpoint,
    remove_old_checkpoints,
    save_checkpoint,
)
from bert_from_scratch.train.settings import TrainingSettings
from bert_from_scratch.train.step_result import (
    NonFiniteLossError,
    StepResult,
)
from bert_from_scratch.train.trainer import BertTrainer

from ..data.conftest import VOCAB_SIZE, MakeShards, make_shards, make_tokenizer

__all__ = ["make_shards"]

RULE = MaskingRule(4, (0, 1, 2, 3, 4), VOCAB_SIZE)
CONFIG = BertConfig(
    vocab_size=VOCAB_SIZE,
    hidden_size=32,
    num_hidden_layers=2,
    num_attention_heads=2,
    intermediate_size=64,
    max_position_embeddings=64,
)


def make_trainer(
    make_shards: MakeShards,
    *,
    dropout: float = 0.0,
    num_accumulated: int = 1,
    dtype: torch.dtype = torch.float32,
    **settings: Any,
) -> BertTrainer:
    generator = np.random.default_rng(1)
    shards = make_shards(
        [
            generator.integers(1, 30, generator.integers(2, 9)).tolist()
            for _ in range(60)
        ]
    )
    shape = BatchShape.plan(1024, 32, num_accumulated)
    data = PretrainingData(shards, make_tokenizer(), shape, RULE, seed=0)
    torch.manual_seed(0)
    config = replace(
        CONFIG,
        hidden_dropout_prob=dropout,
        attention_probs_dropout_prob=dropout,
    )
    model = BertForPreTraining(config).to(dtype)
    return BertTrainer(
        model,
        data,
        TrainingSettings(
            **{
                "steps": 8,
                "learning_rate": 1e-3,
                "num_accumulated": num_accumulated,
                **settings,
            }
        ),
    )


def run(trainer: BertTrainer) -> list[StepResult]:
    results: list[StepResult] = []

    def keep(result: StepResult) -> bool:
        results.append(result)
        return False

    trainer.fit(keep)
    return results


def test_an_epoch_whose_last_step_has_micro_batches_without_words(
    make_shards: MakeShards, monkeypatch: pytest.MonkeyPatch
) -> None:
    # oneDNN 不收空的乘法：末步多出的微批一个词也不遮
    monkeypatch.setattr(dense, "onednn_is_faster", lambda: True)
    trainer = make_trainer(make_shards, num_accumulated=4, steps=None, epochs=1)
    sizes = [
        [len(batch.input_ids) for batch in data.micro_batches]
        for data, _ in zip(
            trainer.source.steps(Position()),
            range(trainer.source.num_steps(0)),
            strict=False,
        )
    ]
    assert sizes[-1][-1] < 5
    assert len(run(trainer)) == len(sizes)


@pytest.mark.parametrize(
    ("dtype", "tolerance"), [(torch.float32, 1e-6), (torch.float64, 1e-12)]
)
def test_accumulation_gives_the_loss_and_gradient_of_one_batch(
    make_shards: MakeShards, dtype: torch.dtype, tolerance: float
) -> None:
    whole = make_trainer(make_shards, dtype=dtype)
    parts = make_trainer(make_shards, dtype=dtype, num_accumulated=4)
    first = whole.train_batch(next(whole.source.steps(Position())))
    second = parts.train_batch(next(parts.source.steps(Position())))
    assert second.loss == pytest.approx(first.loss, rel=tolerance)
    assert second.gradient_norm == pytest.approx(
        first.gradient_norm, rel=10 * tolerance
    )
    for name, part in first.parts.items():
        assert second.parts[name].loss == pytest.approx(
            part.loss, rel=tolerance
        )
        assert second.parts[name].accuracy == part.accuracy


def test_the_loss_begins_at_chance_and_epochs_are_counted(
    make_shards: MakeShards,
) -> None:
    trainer = make_trainer(make_shards, epochs=3, steps=None)
    results = run(trainer)
    assert results[0].parts["mlm"].loss == pytest.approx(
        math.log(VOCAB_SIZE), abs=0.1
    )
    assert results[0].parts["nsp"].loss == pytest.approx(math.log(2), abs=0.05)
    assert trainer.state.position == Position(3, 0)


def test_stop_and_resume_is_bit_identical(
    make_shards: MakeShards, tmp_path: Path
) -> None:
    unbroken = make_trainer(make_shards, dropout=0.1)
    expected = run(unbroken)
    broken = make_trainer(make_shards, dropout=0.1)
    before: list[StepResult] = []

    def stop_at_3(result: StepResult) -> bool:
        before.append(result)
        return result.step == 3

    assert not broken.fit(stop_at_3)
    path = save_checkpoint(
        tmp_path, broken.model, broken.optimizer, broken.state
    )
    torch.manual_seed(99)
    resumed = make_trainer(make_shards, dropout=0.1)
    with torch.no_grad():
        for parameter in resumed.model.parameters():
            parameter.zero_()
    state = load_checkpoint(path, resumed.model, resumed.optimizer)
    resumed.restore(state)
    assert [*before, *run(resumed)] == expected
    for a, b in zip(
        unbroken.model.parameters(), resumed.model.parameters(), strict=True
    ):
        assert torch.equal(a, b)


def test_a_non_finite_loss_stops_before_the_step(
    make_shards: MakeShards,
) -> None:
    trainer = make_trainer(make_shards)
    with torch.no_grad():
        trainer.model.get_parameter("mlm_head.bias")[7] = math.inf
    before = [p.clone() for p in trainer.model.parameters()]
    with pytest.raises(NonFiniteLossError, match="at step 1"):
        run(trainer)
    for a, b in zip(before, trainer.model.parameters(), strict=True):
        assert torch.equal(a, b)
    assert trainer.state.step == 0


def test_the_rate_warms_up_and_falls_to_nearly_nothing(
    make_shards: MakeShards,
) -> None:
    results = run(make_trainer(make_shards, steps=20, warmup_steps=4))
    rates = [result.learning_rate for result in results]
    assert rates[:4] == pytest.approx([2.5e-4, 5e-4, 7.5e-4, 1e-3])
    assert rates[4:] == sorted(rates[4:], reverse=True)
    assert rates[-1] == pytest.approx(1e-3 / 16)


def test_evaluation_changes_nothing(make_shards: MakeShards) -> None:
    trainer = make_trainer(make_shards, dropout=0.5)
    data = next(trainer.source.steps(Position()))
    batches = [trainer.source.finish(b, 0) for b in data.micro_batches]
    first = trainer.evaluate(batches)
    assert trainer.evaluate(batches) == first
    assert first["mlm"].loss == pytest.approx(math.log(VOCAB_SIZE), abs=0.1)
    assert 0.2 < first["nsp"].accuracy < 0.8


def test_one_batch_can_be_learned_by_heart(make_shards: MakeShards) -> None:
    trainer = make_trainer(make_shards, steps=300, learning_rate=5e-3)
    data = next(trainer.source.steps(Position()))
    batches = [trainer.source.finish(b, 0) for b in data.micro_batches]

    class OneBatch:
        def steps(self, position: Position) -> object:
            while True:
                yield replace(data, micro_batches=batches)

        def num_steps(self, epoch: int) -> int:
            return 1

        def advance(self, position: Position, progress: float) -> Position:
            return position

        def finish(self, batch: object, step: int, phase: int = 0) -> object:
            return batch

    trainer.source = OneBatch()  # type: ignore[assignment]
    results = run(trainer)
    assert results[-1].loss < 0.05


def test_only_the_newest_checkpoints_and_the_best_are_kept(
    make_shards: MakeShards, tmp_path: Path
) -> None:
    trainer = make_trainer(make_shards)
    folder = tmp_path / "checkpoints"
    paths = []
    for step in range(1, 6):
        state = replace(trainer.state, step=step)
        paths.append(
            save_checkpoint(folder, trainer.model, trainer.optimizer, state)
        )
    remove_old_checkpoints(folder, keep=2, best=paths[1])
    assert sorted(folder.iterdir()) == [paths[1], paths[3], paths[4]]
    assert newest_checkpoint(folder) == paths[4]
