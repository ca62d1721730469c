"""What a head says of each sequence of a batch, cut apart for tests."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from bert_from_scratch.data.batch import Batch


@torch.no_grad()
def outputs_of(model: Any, batch: Batch) -> list[NDArray[np.float32]]:
    """Returns [C] for every sequence, or [S, C] where tokens are scored."""
    logits = model.logits(batch).float().cpu().numpy()
    if batch.cu_seqlens is None:
        mask = batch.attention_mask
        if mask is None:
            return list(logits)
        lengths = mask.sum(-1).tolist()
        return [row[:n] for row, n in zip(logits, lengths, strict=True)]
    if len(logits) == len(batch.cu_seqlens) - 1:
        return list(logits.reshape(len(logits), -1))
    return np.split(logits, batch.cu_seqlens[1:-1].tolist())
