"""Filled batches: few shapes, and nothing real is touched."""

from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from bert_from_scratch.data.batch import IGNORE_INDEX, Batch
from bert_from_scratch.data.filling import fill_up, round_up_tokens


def make_batch() -> Batch:
    return Batch(
        input_ids=torch.tensor([2, 7, 3, 2, 9, 8, 3]),
        token_type_ids=torch.tensor([0, 0, 0, 0, 0, 1, 1]),
        position_ids=torch.tensor([0, 1, 2, 0, 1, 2, 3]),
        cu_seqlens=torch.tensor([0, 3, 7], dtype=torch.int32),
        max_seqlen=4,
    )


def test_filler_is_a_sequence_of_its_own_and_the_rest_are_empty() -> None:
    filled = fill_up(make_batch(), num_tokens=12, num_sequences=5, max_length=8)
    assert filled.input_ids.tolist() == [2, 7, 3, 2, 9, 8, 3, 0, 0, 0, 0, 0]
    assert filled.token_type_ids.tolist()[7:] == [0] * 5
    assert filled.position_ids.tolist()[7:] == [0, 1, 2, 3, 4]
    assert filled.cu_seqlens is not None
    assert filled.cu_seqlens.tolist() == [0, 3, 7, 12, 12, 12]
    assert filled.cu_seqlens.dtype == torch.int32
    assert filled.max_seqlen == 8


def test_filler_asks_for_nothing() -> None:
    batch = replace(
        make_batch(),
        labels=torch.tensor([1.0, 2.0]),
        start_positions=torch.tensor([1, 2]),
        word_starts=torch.ones(7, dtype=torch.bool),
    )
    filled = fill_up(batch, 8, 4, 8)
    assert filled.labels is not None and filled.start_positions is not None
    assert filled.labels[:2].tolist() == [1, 2]
    assert filled.labels[2:].isnan().all()
    assert filled.start_positions.tolist() == [1, 2, IGNORE_INDEX, IGNORE_INDEX]
    assert filled.word_starts is not None
    assert filled.word_starts.tolist() == [True] * 7 + [False]
    tags = fill_up(replace(batch, labels=torch.arange(7)), 8, 4, 8).labels
    assert tags is not None
    assert tags.tolist() == [*range(7), IGNORE_INDEX]


@pytest.mark.parametrize(
    ("num_tokens", "num_sequences"), [(6, 3), (16, 3), (8, 2)]
)
def test_what_cannot_be_filled_is_refused(
    num_tokens: int, num_sequences: int
) -> None:
    with pytest.raises(ValueError, match="cannot fill 2 sequences of 7"):
        fill_up(make_batch(), num_tokens, num_sequences, max_length=8)


@given(st.integers(1, 100_000), st.integers(2, 512))
def test_little_is_added_and_one_filler_holds_it(
    num_tokens: int, max_length: int
) -> None:
    rounded = round_up_tokens(num_tokens, max_length)
    assert num_tokens <= rounded < num_tokens + max_length
    assert rounded - num_tokens < max(64, num_tokens / 16)
    assert round_up_tokens(rounded, max_length) == rounded


def test_all_batches_of_a_task_share_a_dozen_shapes() -> None:
    shapes = {round_up_tokens(n, 512) for n in range(6000, 9000)}
    assert len(shapes) <= 14
