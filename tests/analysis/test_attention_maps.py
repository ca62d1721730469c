"""What is kept of attention: exact forms agree, rounding has its bound."""

import json

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from bert_from_scratch.analysis.attention_maps import (
    COARSE_BYTES,
    ExactMap,
    bits_for,
    round_to_levels,
    unpack,
)


def draw_weights(
    num_heads: int, length: int, sharpness: float, seed: int = 0
) -> tuple[NDArray[np.float32], ExactMap]:
    """Draws queries and keys and attends in double precision."""
    generator = torch.Generator().manual_seed(seed)
    shape = (2, num_heads, length, 8)
    queries, keys = sharpness * torch.randn(shape, generator=generator)
    scores = queries.double() @ keys.double().transpose(1, 2) / 8**0.5
    weights = scores.softmax(-1).float().numpy()
    return weights, ExactMap(weights, queries.numpy(), keys.numpy())


def test_a_short_text_is_packed_as_the_weights_themselves() -> None:
    weights, exact = draw_weights(3, 10, 1.0)
    packed = json.loads(json.dumps(exact.pack()))
    assert packed["form"] == "weights"
    assert np.array_equal(unpack(packed, 3), weights)


def test_a_long_text_is_packed_as_queries_and_keys_and_stays_exact() -> None:
    weights, exact = draw_weights(2, 200, 2.0)
    packed = json.loads(json.dumps(exact.pack()))
    assert packed["form"] == "queries_keys"
    assert len(packed["data"]) < weights.nbytes / 4
    np.testing.assert_allclose(unpack(packed, 2), weights, atol=1e-6)


@given(
    sharpness=st.floats(0, 20),
    length=st.integers(1, 40),
    max_bits=st.floats(0, 10),
    seed=st.integers(0, 999),
)
def test_rounded_weights_are_off_by_half_a_step_at_most(
    sharpness: float, length: int, max_bits: float, seed: int
) -> None:
    weights, _ = draw_weights(2, length, sharpness, seed)
    coarse = round_to_levels(weights, max_bits)
    errors = np.abs(coarse.weights - weights)
    assert coarse.levels.dtype == np.uint8
    assert coarse.steps.max() <= np.float32(1 / 255)
    bounds = coarse.steps[:, None, None] * 0.5001
    assert (errors <= bounds).all()
    assert np.array_equal(unpack(coarse.pack(), 2), coarse.weights)


def test_broad_heads_get_finer_steps_where_there_is_room() -> None:
    weights, _ = draw_weights(1, 100, 0.3)
    fine = round_to_levels(weights, max_bits=8)
    assert fine.steps[0] == pytest.approx(weights.max() / 255)
    assert fine.levels.max() == 255
    coarse = round_to_levels(weights, max_bits=2)
    ratio = coarse.steps[0] / fine.steps[0]
    assert coarse.steps[0] <= 1 / 255
    # 每次只加粗一倍：正好够小的那一步
    assert ratio in (2, 4, 8, 16, 32, 64)
    halved = np.rint(weights / (coarse.steps[0] / 2)).astype(int)
    counts = np.bincount(halved.ravel()) / halved.size
    entropy = -sum(share * np.log2(share) for share in counts if share)
    assert entropy > 2
    assert len(coarse.pack()["data"]) < len(fine.pack()["data"])


def test_all_levels_of_a_long_base_text_fit_their_room() -> None:
    num_weights = 144 * 512 * 512
    weights, _ = draw_weights(1, 512, 0.6)
    coarse = round_to_levels(weights, bits_for(num_weights))
    in_all = 144 * len(coarse.pack()["data"])
    # base64 多占三分之一，压缩与熵之间再留一成半
    assert in_all < 1.15 * COARSE_BYTES * 4 / 3 < 10e6
