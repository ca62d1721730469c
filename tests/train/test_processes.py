"""One process, several, and several that share the weights: one gradient."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.distributed as dist
from torch.multiprocessing.spawn import spawn

from bert_from_scratch import BertConfig, BertForPreTraining
from bert_from_scratch.data.masking import MaskingRule
from bert_from_scratch.data.pretraining import BatchShape, PretrainingData
from bert_from_scratch.data.shards import TokenShards
from bert_from_scratch.data.steps import Position, StepData
from bert_from_scratch.train.checkpoint import (
    load_checkpoint,
    save_checkpoint,
    whole_weights,
)
from bert_from_scratch.train.processes import Processes
from bert_from_scratch.train.settings import OptimizerName, TrainingSettings
from bert_from_scratch.train.trainer import BertTrainer

from ..data.conftest import VOCAB_SIZE, MakeShards, make_shards, make_tokenizer

__all__ = ["make_shards"]

CONFIG = BertConfig(
    vocab_size=VOCAB_SIZE,
    hidden_size=32,
    num_hidden_layers=2,
    num_attention_heads=2,
    intermediate_size=64,
    max_position_embeddings=64,
    hidden_dropout_prob=0.0,
    attention_probs_dropout_prob=0.0,
)
RULE = MaskingRule(4, (0, 1, 2, 3, 4), VOCAB_SIZE)
DTYPES = {"float32": torch.float32, "float64": torch.float64}


def make_trainer(
    shards: TokenShards, processes: Processes, dtype: str, **settings: Any
) -> BertTrainer:
    shape = BatchShape.plan(
        1024,
        32,
        settings.get("num_accumulated", 1),
        processes.rank,
        processes.count,
    )
    data = PretrainingData(shards, make_tokenizer(), shape, RULE, seed=0)
    torch.manual_seed(0)
    return BertTrainer(
        BertForPreTraining(CONFIG).to(DTYPES[dtype]),
        data,
        TrainingSettings(
            steps=8, learning_rate=1e-3, max_gradient_norm=1e9, **settings
        ),
        processes=processes,
    )


def take_step(trainer: BertTrainer) -> dict[str, torch.Tensor]:
    """Returns the losses and the whole gradient of the first step."""
    gradients: dict[str, torch.Tensor] = {}

    def keep(*_: object) -> None:
        for name, parameter in trainer.model.named_parameters():
            gradient = parameter.grad
            assert gradient is not None
            if hasattr(gradient, "full_tensor"):
                gradient = gradient.full_tensor()
            gradients[name] = gradient.detach().clone()

    trainer.optimizer.register_step_pre_hook(keep)
    result = trainer.train_batch(next(trainer.source.steps(Position())))
    losses = [part.loss for part in result.parts.values()]
    return {**gradients, "losses": torch.tensor(losses, dtype=torch.float64)}


def work(rank: int, count: int, shards_dir: Path, out: Path) -> None:
    """What each process does: the step in every way, then a checkpoint."""
    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo", init_method=f"file://{out}/meet", rank=rank, world_size=count
    )
    processes = Processes(rank, count)
    shards = TokenShards.open(shards_dir)
    for dtype in DTYPES:
        for name, settings in WAYS.items():
            trainer = make_trainer(shards, processes, dtype, **settings)
            found = take_step(trainer)
            if rank == 0:
                torch.save(found, out / f"{name}-{dtype}.pt")
    for optimizer in OPTIMIZERS:
        trainer = make_trainer(
            shards,
            processes,
            "float32",
            shards_weights=True,
            optimizer=optimizer,
        )
        weights = move(trainer)
        if rank == 0:
            torch.save(weights, out / f"{optimizer}.pt")
    check_checkpoints(shards, processes, out)
    dist.destroy_process_group()


WAYS: dict[str, dict[str, Any]] = {
    "ddp": {},
    "ddp-accumulated": {"num_accumulated": 2},
    "fsdp": {"shards_weights": True},
    "fsdp-accumulated": {"shards_weights": True, "num_accumulated": 2},
}
OPTIMIZERS: tuple[OptimizerName, ...] = ("adamw", "google", "muon")


def move(trainer: BertTrainer) -> dict[str, torch.Tensor]:
    """Takes two steps; returns the whole weights."""
    for _ in range(2):
        trainer.train_batch(next_step(trainer))
    return whole_weights(trainer.model)


def check_checkpoints(
    shards: TokenShards, processes: Processes, out: Path
) -> None:
    """Saves in shares, loads in shares and whole: the same weights."""
    trainer = make_trainer(shards, processes, "float32", shards_weights=True)
    take_step(trainer)
    path = save_checkpoint(
        out,
        trainer.model,
        trainer.optimizer,
        trainer.state,
        writes=processes.is_first,
    )
    dist.barrier()
    saved = whole_weights(trainer.model)
    expected = trainer.train_batch(next_step(trainer))
    for settings in ({"shards_weights": True}, {}):
        other = make_trainer(shards, processes, "float32", **settings)
        with torch.no_grad():
            for parameter in other.model.parameters():
                parameter.zero_()
        other.restore(load_checkpoint(path, other.model, other.optimizer))
        loaded = whole_weights(other.model)
        assert loaded.keys() == saved.keys()
        for name, tensor in loaded.items():
            assert torch.equal(tensor, saved[name]), name
        found = other.train_batch(next_step(other))
        assert found.loss == pytest.approx(expected.loss, rel=1e-6)
        # 走完一步的权重也相同：Adam 的均值也原样回来了
        moved = whole_weights(other.model)
        for name, tensor in whole_weights(trainer.model).items():
            torch.testing.assert_close(moved[name], tensor)


def next_step(trainer: BertTrainer) -> StepData:
    return next(trainer.source.steps(trainer.state.position))


@pytest.mark.slow
@pytest.mark.parametrize("count", [2, 4])
def test_any_number_of_processes_has_one_gradient(
    make_shards: MakeShards, tmp_path: Path, count: int
) -> None:
    generator = np.random.default_rng(1)
    shards = make_shards(
        [
            generator.integers(1, 30, generator.integers(2, 9)).tolist()
            for _ in range(60)
        ]
    )
    spawn(work, (count, shards.directory, tmp_path), count)
    for dtype, tolerance in (("float32", 1e-6), ("float64", 1e-12)):
        expected = take_step(make_trainer(shards, Processes(), dtype))
        for way in WAYS:
            found = torch.load(tmp_path / f"{way}-{dtype}.pt")
            assert found.keys() == expected.keys()
            losses = found.pop("losses")
            torch.testing.assert_close(
                losses, expected["losses"], rtol=tolerance, atol=0
            )
            whole = torch.cat([expected[name].flatten() for name in found])
            difference = torch.cat(
                [(found[name] - expected[name]).flatten() for name in found]
            )
            relative = difference.norm() / whole.norm()
            assert relative <= tolerance, (way, dtype)
    for optimizer in OPTIMIZERS:
        trainer = make_trainer(
            shards, Processes(), "float32", optimizer=optimizer
        )
        start = {n: w.clone() for n, w in whole_weights(trainer.model).items()}
        expected = move(trainer)
        found = torch.load(tmp_path / f"{optimizer}.pt")
        for name, tensor in expected.items():
            # 只比损失与梯度，看不出优化器根本没有动过切开的矩阵
            assert not torch.equal(tensor, start[name]), (optimizer, name)
            torch.testing.assert_close(
                found[name], tensor, rtol=1e-3, atol=2e-4
            )
