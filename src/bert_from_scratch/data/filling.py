"""Packed batches of a few shapes instead of as many as there are batches.

A GPU can replay a recorded step, which saves it from waiting for Python; but
only for a shape it has seen. So batches are filled up with tokens that nobody
asks about.

Letters: B sequences, T tokens in all.
"""

from dataclasses import replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from bert_from_scratch.data.batch import IGNORE_INDEX, Batch

# 凑整的单位约为总长的三十二分之一：多算的不过百分之几，形状却只有十来种
SHARES = 32
MIN_STEP = 64


def round_up_tokens(num_tokens: int, max_length: int) -> int:
    """Returns a number of tokens that many batches share.

    Args:
        num_tokens: Of a batch.
        max_length: Most tokens that one filler sequence may have.
    """
    step = 1 << (num_tokens // SHARES).bit_length()
    # 单位保持为二的幂：再凑一次不会变
    step = min(max(step, MIN_STEP), 1 << (max_length.bit_length() - 1))
    return -(-num_tokens // step) * step


def fill_up(
    batch: Batch, num_tokens: int, num_sequences: int, max_length: int
) -> Batch:
    """Adds a sequence of padding and empty sequences, without labels.

    Args:
        batch: Packed, with the labels of a fine-tuning task.
        num_tokens: T afterwards; at most `max_length` more than before.
        num_sequences: B afterwards; more than before.
        max_length: What `max_seqlen` becomes.
    """
    assert batch.cu_seqlens is not None
    old_tokens, old_sequences = len(batch.input_ids), len(batch.cu_seqlens) - 1
    more_tokens = num_tokens - old_tokens
    if not 0 <= more_tokens <= max_length or num_sequences <= old_sequences:
        raise ValueError(
            f"cannot fill {old_sequences} sequences of {old_tokens} tokens up "
            f"to {num_sequences} of {num_tokens}"
        )
    # 填充的词元自成一条序列，不与真的互相看见；其余补空序列
    ends = batch.cu_seqlens.new_full(
        (num_sequences - old_sequences,), num_tokens
    )
    filled: dict[str, Any] = {
        "input_ids": F.pad(batch.input_ids, (0, more_tokens)),
        "token_type_ids": F.pad(batch.token_type_ids, (0, more_tokens)),
        "position_ids": torch.cat(
            (batch.position_ids, torch.arange(more_tokens))
        ),
        "cu_seqlens": torch.cat((batch.cu_seqlens, ends)),
    }
    for name in ("labels", "start_positions", "end_positions"):
        labels = getattr(batch, name)
        if labels is not None:
            is_of_tokens = len(labels) == old_tokens
            new, old = (
                (num_tokens, old_tokens)
                if is_of_tokens
                else (num_sequences, old_sequences)
            )
            filled[name] = _fill_labels(labels, len(labels) * new // old)
    if batch.word_starts is not None:
        filled["word_starts"] = F.pad(batch.word_starts, (0, more_tokens))
    return replace(batch, max_seqlen=max_length, **filled)


def ignored_like(labels: Tensor) -> Tensor:
    """Returns labels of the same shape that ask for nothing."""
    is_number = labels.is_floating_point()
    return torch.full_like(labels, float("nan") if is_number else IGNORE_INDEX)


def _fill_labels(labels: Tensor, count: int) -> Tensor:
    missing = labels.new_empty((count - len(labels), *labels.shape[1:]))
    return torch.cat((labels, ignored_like(missing)))
