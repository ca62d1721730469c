"""Muon against its definition, and as one optimiser among the others."""

from pathlib import Path

import pytest
import torch
from torch import nn

from bert_from_scratch import BertConfig, BertForPreTraining
from bert_from_scratch.train.checkpoint import (
    TrainingState,
    load_checkpoint,
    save_checkpoint,
)
from bert_from_scratch.train.muon import Muon, orthogonalise
from bert_from_scratch.train.optimizer import build_optimizer
from bert_from_scratch.train.settings import TrainingSettings

CONFIG = BertConfig(
    vocab_size=40,
    hidden_size=16,
    num_hidden_layers=2,
    num_attention_heads=2,
    intermediate_size=32,
    max_position_embeddings=8,
)
SETTINGS = TrainingSettings(steps=1, learning_rate=1e-2, optimizer="muon")


@pytest.mark.parametrize("shape", [(3, 16, 48), (2, 48, 16), (4, 16, 16)])
def test_singular_values_become_about_one(shape: tuple[int, ...]) -> None:
    torch.manual_seed(0)
    matrices = (
        torch.randn(shape) * torch.logspace(-3, 3, shape[0])[:, None, None]
    )
    found = orthogonalise(matrices)
    u, _, v = torch.linalg.svd(matrices, full_matrices=False)
    # 同样的方向：在原来的奇异向量里，结果是对角的
    inside = u.mT @ found @ v.mT
    values = inside.diagonal(dim1=1, dim2=2)
    assert values.min() > 0.3
    assert values.max() < 1.4
    rest = inside - torch.diag_embed(values)
    assert rest.abs().max() < 1e-3


def test_a_matrix_of_zeros_stays_one() -> None:
    assert not orthogonalise(torch.zeros(1, 4, 8)).any()


def test_one_step_is_that_of_pytorchs_muon() -> None:
    torch.manual_seed(0)
    start = torch.randn(12, 20)
    gradients = [torch.randn(12, 20) for _ in range(3)]
    ours, theirs = (nn.Parameter(start.clone()) for _ in range(2))
    other = nn.Parameter(torch.zeros(3))
    groups = [
        {"params": [ours], "num_parts": 1, "weight_decay": 0.1},
        {"params": [other], "num_parts": 0, "weight_decay": 0.0},
    ]
    optimizers = [
        Muon(groups, 0.01, (0.9, 0.999), 1e-6),
        torch.optim.Muon(
            [theirs],
            lr=0.01,
            weight_decay=0.1,
            momentum=0.95,
            adjust_lr_fn="match_rms_adamw",
        ),
    ]
    for gradient in gradients:
        ours.grad, theirs.grad = gradient.clone(), gradient.clone()
        for optimizer in optimizers:
            optimizer.step()
    # 它在 bfloat16 里迭代，我们在 CPU 上用 float32
    ours_moved, theirs_moved = (x.detach() - start for x in (ours, theirs))
    distance = (ours_moved - theirs_moved).norm() / theirs_moved.norm()
    assert float(distance) < 0.03
    assert float(ours_moved.norm() / theirs_moved.norm()) == pytest.approx(
        1, rel=0.01
    )


def test_queries_keys_and_values_are_three_matrices() -> None:
    torch.manual_seed(0)
    model = BertForPreTraining(CONFIG)
    optimizer = build_optimizer(model, SETTINGS)
    name = "bert.encoder.blocks.0.attention.qkv.weight"
    qkv = model.get_parameter(name)
    before = qkv.detach().clone()
    for parameter in model.parameters():
        parameter.grad = torch.zeros_like(parameter)
    width = CONFIG.hidden_size
    gradient = torch.zeros_like(qkv)
    # 查询的梯度大得多：若一起正交化，键的那一份就几乎不动
    gradient[:width] = 1000 * torch.randn(width, width)
    gradient[width : 2 * width] = torch.randn(width, width)
    qkv.grad = gradient
    optimizer.step()
    queries, keys, _ = (qkv.detach() - before).chunk(3)
    assert float(keys.norm() / queries.norm()) == pytest.approx(1, rel=0.2)


def test_embeddings_biases_and_heads_are_left_to_adamw() -> None:
    model = BertForPreTraining(CONFIG)
    optimizer = build_optimizer(model, SETTINGS)
    for parameter in model.parameters():
        parameter.grad = torch.ones_like(parameter)
    optimizer.step()
    names = {
        kind: {
            name
            for name, parameter in model.named_parameters()
            if kind in optimizer.state[parameter]
        }
        for kind in ("momentum", "exp_avg")
    }
    assert names["momentum"].isdisjoint(names["exp_avg"])
    assert len(names["momentum"]) == 4 * CONFIG.num_hidden_layers
    assert all(".blocks." in name for name in names["momentum"])
    everything = {name for name, _ in model.named_parameters()}
    assert names["momentum"] | names["exp_avg"] == everything


def test_a_checkpoint_goes_on_bit_by_bit(tmp_path: Path) -> None:
    def advance(model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
        generator = torch.Generator().manual_seed(1)
        for parameter in model.parameters():
            parameter.grad = torch.randn(parameter.shape, generator=generator)
        optimizer.step()

    torch.manual_seed(0)
    model = BertForPreTraining(CONFIG)
    optimizer = build_optimizer(model, SETTINGS)
    advance(model, optimizer)
    path = save_checkpoint(tmp_path, model, optimizer, TrainingState(step=1))
    other = BertForPreTraining(CONFIG)
    restored = build_optimizer(other, SETTINGS)
    load_checkpoint(path, other, restored)
    advance(model, optimizer)
    advance(other, restored)
    for left, right in zip(model.parameters(), other.parameters(), strict=True):
        assert torch.equal(left, right)


def test_a_step_that_is_lost_changes_nothing() -> None:
    model = BertForPreTraining(CONFIG)
    optimizer = build_optimizer(model, SETTINGS)
    assert isinstance(optimizer, Muon)
    for is_lost in (0.0, 1.0):
        before = [p.detach().clone() for p in model.parameters()]
        for parameter in model.parameters():
            value = float("nan") if is_lost else 1.0
            parameter.grad = torch.full_like(parameter, value)
        optimizer.found_inf = torch.tensor(is_lost)
        optimizer.step()
        now = list(model.parameters())
        same = [torch.equal(a, b) for a, b in zip(before, now, strict=True)]
        assert all(same) == bool(is_lost)
    for state in optimizer.state.values():
        assert all(value.isfinite().all() for value in state.values())


def test_the_learning_rate_reaches_both(tmp_path: Path) -> None:
    model = BertForPreTraining(CONFIG)
    optimizer = build_optimizer(model, SETTINGS)
    for group in optimizer.param_groups:
        group["lr"] = 0.0
    before = [p.detach().clone() for p in model.parameters()]
    for parameter in model.parameters():
        parameter.grad = torch.ones_like(parameter)
    optimizer.step()
    now = list(model.parameters())
    assert all(torch.equal(a, b) for a, b in zip(before, now, strict=True))
