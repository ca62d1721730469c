"""The kernel of a sum and its LayerNorm, and the way of a model to it."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from bert_from_scratch import BertConfig, BertModel
from bert_from_scratch.embeddings import layer_norm as room
from bert_from_scratch.embeddings.layer_norm import LayerNorm

from .conftest import DEVICE, DTYPE, HAS_GPU, TOLERANCE
from .test_attention import distance

EPS = 1e-12
CONFIG = BertConfig.preset("tiny", vocab_size=50)
STARTS = torch.tensor([0, 5, 14], dtype=torch.int32)


def make(*shape: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Returns two things to add, a weight and a bias."""
    torch.manual_seed(0)
    x, change = torch.randn(2, *shape).to(DEVICE, DTYPE)
    weight, bias = torch.randn(2, shape[-1]).to(DEVICE, DTYPE)
    return x, change, weight, bias


def normalise(x: Tensor, change: Tensor, *parts: Tensor) -> Tensor:
    """Does what the kernel does, in float64 from the sum on."""
    weight, bias = (part.double() for part in parts)
    total = x.double() + change.double()
    return F.layer_norm(total, total.shape[-1:], weight, bias, EPS)


@pytest.mark.parametrize("width", [1, 8, 300, 768, 1024, 5000])
@pytest.mark.parametrize("num_rows", [1, 7, 130])
def test_sums_are_normalised_as_by_pytorch(num_rows: int, width: int) -> None:
    from bert_from_scratch.kernels.add_norm import add_norm

    made = make(num_rows, width)
    found = add_norm(*made, EPS)
    assert found.dtype == DTYPE
    assert distance(found, normalise(*made)) < TOLERANCE


def test_any_shape_and_order_in_memory_will_do() -> None:
    from bert_from_scratch.kernels.add_norm import add_norm

    x, change, weight, bias = make(3, 5, 48)
    x = x.transpose(0, 1)
    change = change.view(5, 3, 48)
    found = add_norm(x, change, weight, bias, EPS)
    assert found.shape == (5, 3, 48)
    assert distance(found, normalise(x, change, weight, bias)) < TOLERANCE


def test_no_rows_at_all_are_no_trouble() -> None:
    from bert_from_scratch.kernels.add_norm import add_norm

    assert add_norm(*make(0, 32), EPS).shape == (0, 32)


def test_nothing_is_written_past_the_last_row() -> None:
    from bert_from_scratch.kernels.add_norm import _add_norm_kernel

    x, change, weight, bias = make(8, 48)
    out = torch.full_like(x, 77)
    _add_norm_kernel[(1,)](
        *(x, change, bias, weight, bias, out, x, 5, 48, EPS, 0.0),
        ROWS=8,
        COLUMNS=64,
        HAS_BIAS=False,
        DROPS=False,
    )
    assert (out[5:] == 77).all()
    assert (out[:5] != 77).all()


def test_a_large_mean_costs_no_digits() -> None:
    from bert_from_scratch.kernels.add_norm import add_norm

    x, change, weight, bias = make(7, 768)
    x = x + 1000
    found = add_norm(x, change, weight, bias, EPS)
    expected = normalise(x, change, weight, bias)
    # float32 在一千附近的步长是六万分之一，只有和本身的舍入
    assert distance(found, expected) < max(TOLERANCE, 3e-5)


def test_the_size_of_eps_counts() -> None:
    from bert_from_scratch.kernels.add_norm import add_norm

    x = torch.tensor([[1.0, -1.0]], device=DEVICE, dtype=DTYPE)
    nothing, one = torch.zeros_like(x), torch.ones_like(x[0])
    # 方差是 1：1 / sqrt(1 + 3) = 0.5
    found = add_norm(x, nothing, one, nothing[0], 3.0)
    assert found.tolist() == [[0.5, -0.5]]


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32])
def test_half_precision_rounds_the_result_and_not_the_sum(
    dtype: torch.dtype,
) -> None:
    from bert_from_scratch.kernels.add_norm import add_norm

    _, change, *parts = (part.half() for part in make(7, 768))
    # 半精度在 2048 附近的步长是 2：先舍入和，就什么也不剩
    x = torch.full_like(change, 2048)
    weight, bias = (part.to(dtype) for part in parts)
    found = add_norm(x, change, weight, bias, EPS)
    assert found.dtype == torch.float16
    assert distance(found, normalise(x, change, weight, bias)) < 1e-3


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[Tensor]:
    """Lets every LayerNorm take the kernel, and notes what it is given."""
    from bert_from_scratch.kernels.add_norm import add_norm

    seen: list[Tensor] = []

    def note(x: Tensor, *rest: Any) -> Tensor:
        seen.append(x)
        return add_norm(x, *rest)

    monkeypatch.setattr(room, "add_norm", note, raising=False)
    # 只换这一个房间的：注意力与 GELU 仍走平常的路
    always = SimpleNamespace(usable=lambda _: True)
    monkeypatch.setattr(room, "kernels", always)
    return seen


def run(model: nn.Module, **inputs: Any) -> Tensor:
    ids = torch.arange(14, device=DEVICE)
    given = {"cu_seqlens": STARTS.to(DEVICE), "max_seqlen": 9, **inputs}
    state: Tensor = model(ids, **given).hidden_state
    return state


@pytest.mark.parametrize("places", [None, [2, 5, 13]], ids=["all", "some"])
def test_a_model_that_predicts_takes_it_and_says_the_same(
    request: pytest.FixtureRequest, places: list[int] | None
) -> None:
    torch.manual_seed(0)
    model = BertModel(CONFIG).to(DEVICE).eval()
    for name, parameter in model.named_parameters():
        if "_norm" in name:
            # 不是一也不是零：换了权重与偏置，要看得出来
            nn.init.normal_(parameter)
    chosen = None if places is None else torch.tensor(places, device=DEVICE)
    with torch.inference_mode():
        expected = run(model, places=chosen)
        calls = request.getfixturevalue("calls")
        found = run(model, places=chosen)
    assert len(calls) == 2 * CONFIG.num_hidden_layers
    torch.testing.assert_close(found, expected, atol=2e-5, rtol=1e-4)


def test_a_model_that_learns_does_not_take_it(calls: list[Tensor]) -> None:
    torch.manual_seed(0)
    model = BertModel(CONFIG).to(DEVICE).eval()
    states = run(model)
    states.sum().backward()
    assert not calls
    with torch.no_grad():
        torch.testing.assert_close(run(model), states, atol=2e-5, rtol=1e-4)
    assert calls


def test_what_is_compiled_does_not_take_it(calls: list[Tensor]) -> None:
    torch.compiler.reset()
    norm = LayerNorm(48).to(DEVICE)
    x, change, *_ = make(7, 48)
    compiled = torch.compile(norm.of_sum, backend="eager", fullgraph=True)
    with torch.no_grad():
        found = compiled(x.float(), change.float())
        assert not calls
        assert torch.equal(found, norm(x.float() + change.float()))


@pytest.mark.skipif(HAS_GPU, reason="a GPU takes the kernel by itself")
def test_without_a_gpu_the_numbers_are_those_of_two_passes() -> None:
    norm = LayerNorm(48)
    x, change, *_ = make(7, 48)
    with torch.no_grad():
        assert torch.equal(norm.of_sum(x, change), norm(x + change))
