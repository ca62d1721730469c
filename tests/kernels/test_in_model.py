"""A model whose attention is the kernels', against one without them."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from bert_from_scratch import BertConfig, BertModel
from bert_from_scratch.model import attention as room

from .conftest import DEVICE, HAS_GPU

CONFIG = BertConfig(
    vocab_size=50,
    hidden_size=64,
    num_hidden_layers=2,
    num_attention_heads=2,
    intermediate_size=64,
    max_position_embeddings=160,
    hidden_dropout_prob=0.0,
    attention_probs_dropout_prob=0.0,
)
STARTS = torch.tensor([0, 150, 159, 160, 160], dtype=torch.int32)
# 乱序、重复、指向末尾的，都要经得起
PLACES = torch.tensor([9, 3, 155, 80, 0, 0, 159])


@pytest.fixture
def take_kernels(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Lets every model take the kernels from then on."""
    from bert_from_scratch.kernels import attention

    def take() -> None:
        for name in ("attend", "attend_from"):
            monkeypatch.setattr(
                room, name, getattr(attention, name), raising=False
            )
        monkeypatch.setattr(
            room.MultiHeadSelfAttention, "_suits_kernel", lambda *_: True
        )

    return take


@pytest.mark.skipif(HAS_GPU, reason="a GPU takes the kernels by itself")
@pytest.mark.parametrize("places", [None, PLACES], ids=["all", "some"])
def test_dropout_of_attention_reaches_the_kernels(
    places: Tensor | None, take_kernels: Callable[[], None]
) -> None:
    take_kernels()
    config = replace(CONFIG, attention_probs_dropout_prob=0.5)
    model = BertModel(config).train()
    ids = torch.randint(50, (160,))

    def run(seed: int) -> Tensor:
        torch.manual_seed(seed)
        output = model(ids, cu_seqlens=STARTS, max_seqlen=150, places=places)
        states: Tensor = output.hidden_state
        return states

    assert torch.equal(run(0), run(0))
    assert not torch.allclose(run(0), run(1), atol=1e-3)
    model.eval()
    assert torch.equal(run(0), run(1))


@pytest.mark.skipif(HAS_GPU, reason="a GPU takes the kernels by itself")
@pytest.mark.parametrize("places", [None, PLACES], ids=["all", "some"])
@pytest.mark.parametrize("is_compiled", [False, True])
def test_states_and_gradients_are_those_without_kernels(
    places: Tensor | None, is_compiled: bool, take_kernels: Callable[[], None]
) -> None:
    torch.manual_seed(0)
    model = BertModel(CONFIG).to(DEVICE).train()
    ids = torch.randint(50, (160,))
    weights = torch.randn(160 if places is None else len(places), 64)
    results: list[list[Tensor]] = []
    for has_kernels in (False, True):
        if has_kernels:
            take_kernels()
        model.zero_grad()
        runner: Any = model
        if has_kernels and is_compiled:
            runner = torch.compile(model, backend="aot_eager")
        output = runner(ids, cu_seqlens=STARTS, max_seqlen=150, places=places)
        states = output.hidden_state
        ((states * weights).sum() + output.pooled.square().sum()).backward()
        gradients = [p.grad for p in model.parameters() if p.grad is not None]
        results.append([states.detach(), output.pooled.detach(), *gradients])
    assert len(results[0]) == 2 + len(list(model.parameters()))
    for plain, fast in zip(*results, strict=True):
        torch.testing.assert_close(fast, plain, atol=2e-5, rtol=1e-4)
