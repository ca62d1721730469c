"""Rows are full, and nothing is lost."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bert_from_scratch.data.packing import pack_rows


@given(
    lengths=st.lists(st.integers(1, 100), min_size=1, max_size=300),
    row_tokens=st.integers(100, 400),
)
def test_every_sequence_is_in_one_row_and_rows_hold(
    lengths: list[int], row_tokens: int
) -> None:
    rows = pack_rows(np.array(lengths), row_tokens)
    numbers = np.concatenate(rows)
    assert sorted(numbers.tolist()) == list(range(len(lengths)))
    assert all(sum(lengths[i] for i in row) <= row_tokens for row in rows)
    assert all(len(row) for row in rows)


@pytest.mark.parametrize(("longest", "row_tokens"), [(128, 512), (512, 4096)])
def test_rows_are_at_least_99_percent_full(
    longest: int, row_tokens: int
) -> None:
    generator = np.random.default_rng(0)
    full = np.full(20_000, longest)
    lengths = np.where(
        generator.random(20_000) < 0.6,
        full,
        generator.integers(5, longest, 20_000),
    )
    rows = pack_rows(lengths, row_tokens)
    # 最后一个窗口里挑选的余地变小，不计在内
    filled = [lengths[row].sum() / row_tokens for row in rows[:-500]]
    assert np.mean(filled) >= 0.99


def test_the_order_is_nearly_kept() -> None:
    generator = np.random.default_rng(0)
    rows = pack_rows(generator.integers(5, 128, 20_000), 4096)
    order = np.concatenate(rows)
    assert np.abs(order - np.arange(len(order))).max() < 3000
