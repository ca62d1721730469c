"""How the sequences of a batch lie in memory: in padded rows, or end to end.

Letters: B sequences, S positions of a padded row, T tokens in all.
"""

from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from typing import Any

import torch
from torch import Tensor


@dataclass(frozen=True)
class Padded:
    """Rows of equal length; tensors are [B, S, ...].

    Attributes:
        attention_mask: True at real tokens, bool [B, S]; None when there is
            no padding at all, which is faster.
    """

    attention_mask: Tensor | None = None

    def first_tokens(self, x: Tensor) -> Tensor:
        """Returns each sequence's first vector ([CLS]), [B, ...]."""
        return x[:, 0]

    def first_places(self, x: Tensor) -> Tensor:
        """Returns where each [CLS] of `x` is, in the flattened batch, [B]."""
        num_rows, length = x.shape[:2]
        return torch.arange(0, num_rows * length, length, device=x.device)


@dataclass(frozen=True)
class Packed:
    """Sequences laid end to end without padding; tensors are [T, ...].

    Attributes:
        cu_seqlens: Where each sequence starts, and the end, int32 [B + 1].
        max_seqlen: Length of the longest sequence, or an upper bound.
    """

    cu_seqlens: Tensor
    max_seqlen: int

    @property
    def lengths(self) -> Tensor:
        """Number of tokens of every sequence, int32 [B]."""
        return self.cu_seqlens.diff()

    @cached_property
    def equal_runs(self) -> list[tuple[int, int]]:
        """Runs of neighbours of one length, as (number, length), in order."""
        # 每层都要用：读一次长度就够，不必层层从张量取数
        lengths = self.lengths.tolist()
        return [(len(list(run)), length) for length, run in groupby(lengths)]

    def first_tokens(self, x: Tensor) -> Tensor:
        """Returns each sequence's first vector ([CLS]), [B, ...]."""
        return x[self.first_places(x)]

    def first_places(self, x: Tensor) -> Tensor:
        """Returns where each [CLS] of `x` is, long [B]."""
        # 静态形状末尾的空序列没有词，指向最后一个位置即可，其标签不计损失
        return self.cu_seqlens[:-1].long().clamp(max=len(x) - 1)

    def sequence_ids(self, num_tokens: int) -> Tensor:
        """Returns which sequence each token belongs to, long [T]."""
        tokens = torch.arange(num_tokens, device=self.cu_seqlens.device)
        # 右侧查找：位置 t 之前（含）有几个起点，就属于第几条序列
        return torch.bucketize(tokens, self.cu_seqlens[1:].long(), right=True)

    def position_ids(self, num_tokens: int) -> Tensor:
        """Returns positions that restart at 0 in every sequence, long [T]."""
        tokens = torch.arange(num_tokens, device=self.cu_seqlens.device)
        starts = self.cu_seqlens[:-1].long()
        return tokens - starts[self.sequence_ids(num_tokens)]


Layout = Padded | Packed


def select(x: Tensor, places: Tensor) -> Tensor:
    """Picks hidden states by their places in the flattened batch.

    Args:
        x: Float [B, S, H] or packed [T, H].
        places: Row * S + column when padded, long [P].

    Returns:
        Float [P, H].
    """
    # 反向是一次 index_add，比方括号取值的排序累加快
    return x.reshape(-1, x.shape[-1]).index_select(0, places)


@torch.library.custom_op("bert::reorder", mutates_args=())
def reorder(x: Tensor, order: Tensor, inverse: Tensor) -> Tensor:
    """Puts rows into another order.

    Args:
        x: Float [P, H].
        order: Which row comes where, every number once, long [P].
        inverse: The order that undoes it, long [P].

    Returns:
        Float [P, H].
    """
    del inverse
    return x.index_select(0, order)


@reorder.register_fake
def _(x: Tensor, order: Tensor, inverse: Tensor) -> Tensor:
    del order, inverse
    return torch.empty_like(x)


def _save_orders(
    ctx: Any, inputs: tuple[Tensor, Tensor, Tensor], output: Tensor
) -> None:
    del output
    _, *orders = inputs
    ctx.save_for_backward(*orders)


def _undo(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
    # 取回原处即可；PyTorch 自己的反向不知道每行只用一次，会逐行累加
    order, inverse = ctx.saved_tensors
    return reorder(grad, inverse, order), None, None


reorder.register_autograd(_undo, setup_context=_save_orders)
