"""A model that learns by the kernels, against one without them."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from bert_from_scratch import BertConfig, BertModel
from bert_from_scratch.embeddings.linear import train_in_fp8
from bert_from_scratch.model import attention as room
from bert_from_scratch.model import block
from bert_from_scratch.model.layout import Packed, Padded

from .conftest import DEVICE, HAS_GPU
from .test_attention import distance

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


@pytest.fixture(params=[False, True], ids=["in steps", "as one"])
def take_kernels(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Callable[[], None]:
    """Lets every model take the kernels from then on.

    Either those of attention alone, which PyTorch differentiates around, or
    halves of a block as one operator, wherever all results are wanted.
    """
    from bert_from_scratch.kernels import (
        attention,
        attention_sublayer,
        feed_forward_sublayer,
    )

    def take() -> None:
        for name in ("attend", "attend_from"):
            monkeypatch.setattr(
                room, name, getattr(attention, name), raising=False
            )
        for module in (attention_sublayer, feed_forward_sublayer):
            name = module.__name__.rpartition(".")[2]
            monkeypatch.setattr(
                block, name, getattr(module, name), raising=False
            )
        monkeypatch.setattr(
            room.MultiHeadSelfAttention, "suits_kernel", lambda *_: True
        )
        if not request.param:
            monkeypatch.setattr(
                block.TransformerBlock, "_has_kernels", lambda *_: False
            )

    return take


@pytest.mark.skipif(HAS_GPU, reason="a GPU takes the kernels by itself")
@pytest.mark.parametrize("places", [None, PLACES % 24], ids=["all", "some"])
@pytest.mark.parametrize(
    "kind", ["attention_probs_dropout_prob", "hidden_dropout_prob"]
)
def test_dropout_is_that_of_the_config_and_of_training_alone(
    kind: str, places: Tensor | None, take_kernels: Callable[[], None]
) -> None:
    take_kernels()
    settings: dict[str, Any] = {kind: 0.5}
    config = replace(CONFIG, **settings)
    model = BertModel(config).train()
    # 短句就够：解释器按小块算，句子长一分就慢一分
    ids, starts = torch.randint(50, (24,)), torch.tensor([0, 15, 24]).int()

    def run(seed: int) -> Tensor:
        torch.manual_seed(seed)
        output = model(ids, cu_seqlens=starts, max_seqlen=15, places=places)
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


@pytest.mark.skipif(HAS_GPU, reason="a GPU takes the kernels by itself")
def test_in_bf16_the_kernels_are_as_near_to_float32_as_plain_bf16(
    take_kernels: Callable[[], None],
) -> None:
    torch.manual_seed(0)
    model = BertModel(CONFIG).train()
    ids = torch.randint(50, (160,))
    weights = torch.randn(160, 64)

    def run(is_half: bool) -> list[Tensor]:
        model.zero_grad()
        with torch.autocast("cpu", torch.bfloat16, is_half):
            output = model(ids, cu_seqlens=STARTS, max_seqlen=150)
        (output.hidden_state.float() * weights).sum().backward()
        gradients = [p.grad for p in model.parameters() if p.grad is not None]
        return [output.hidden_state.detach(), *gradients]

    exact, plain = run(False), run(True)
    take_kernels()
    fast = run(True)
    for expected, near, found in zip(exact, plain, fast, strict=True):
        # 键的偏置没有梯度：平常的反向留下的全是舍入，无从比较
        if expected.shape == (3 * 64,):
            expected, near, found = (
                x.view(3, 64)[::2] for x in (expected, near, found)
            )
        assert distance(found, expected) < 1.1 * distance(near, expected) + 1e-3


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ("nothing", True),
        ("no gradients", False),
        ("padded", False),
        ("another activation", False),
        ("fp8", True),
        ("fp8 in part", False),
        ("a hook inside", False),
        ("a hook on the block", True),
    ],
)
def test_halves_are_one_operator_only_where_that_is_the_same(
    change: str, expected: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        room.MultiHeadSelfAttention, "suits_kernel", lambda *_: True
    )
    hidden_act = "gelu_new" if change == "another activation" else "gelu"
    model = BertModel(replace(CONFIG, hidden_act=hidden_act))
    if change == "fp8":
        train_in_fp8(model.encoder)
    if change == "fp8 in part":
        train_in_fp8(model.encoder.blocks[0].get_submodule("feed_forward"))
    if change == "a hook inside":
        inside = model.encoder.blocks[0].get_submodule("feed_forward.contract")
        inside.register_forward_hook(lambda *_: None)
    if change == "a hook on the block":
        model.encoder.blocks[0].register_forward_pre_hook(lambda *_: None)
    layout = Padded() if change == "padded" else Packed(STARTS, 150)
    some_block: Any = model.encoder.blocks[0]
    with torch.set_grad_enabled(change != "no gradients"):
        found = some_block._has_kernels(torch.zeros(160, 64), layout)
    assert found == expected


@pytest.mark.parametrize("is_fp8", [False, True])
def test_halves_are_told_of_fp8(
    is_fp8: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = []

    def note(x: Tensor, *others: Any) -> Tensor:
        told.append(others[-1])
        return x

    for name in ("attention_sublayer", "feed_forward_sublayer"):
        monkeypatch.setattr(block, name, note, raising=False)
    monkeypatch.setattr(
        room.MultiHeadSelfAttention, "suits_kernel", lambda *_: True
    )
    model = BertModel(CONFIG)
    if is_fp8:
        train_in_fp8(model.encoder)
    model.encoder.blocks[0](torch.zeros(160, 64), Packed(STARTS, 150))
    assert told == [is_fp8, is_fp8]
