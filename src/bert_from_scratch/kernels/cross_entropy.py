"""Cross-entropy that reads the scores once forwards and once backwards.

Letters: P positions asked for, V WordPieces.
"""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

BLOCK = 4096


def cross_entropy(
    logits: Tensor, labels: Tensor, num_words: int
) -> tuple[Tensor, Tensor]:
    """Sums the loss over labelled positions.

    Args:
        logits: Scores, float [P, at least V], rows contiguous.
        labels: The right column, long [P]; negative: not asked for.
        num_words: V; columns from there on do not take part.

    Returns:
        The sum of the losses and how often the right column is the first of
        the highest, scalars.
    """
    losses, is_right, _ = _cross_entropy(logits, labels, num_words)
    return losses.sum(), is_right.sum()


@triton.jit
def _loss_kernel(
    logits, labels, losses, logsums, is_right, stride,
    V: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    position = tl.program_id(0).to(tl.int64)
    label = tl.load(labels + position)
    logits += position * stride
    top, total, winner = float("-inf"), 0.0, V
    for first in range(0, V, BLOCK):
        words = first + tl.arange(0, BLOCK)
        score = tl.load(logits + words, mask=words < V, other=float("-inf"))
        score = score.to(tl.float32)
        highest = tl.max(score, 0)
        place = tl.min(tl.where(score == highest, words, V), 0)
        winner = tl.where(highest > top, place, winner)
        # 边读边算：最大值变了，就把以前的和按新的最大值缩小
        new_top = tl.maximum(top, highest)
        total = total * tl.exp(top - new_top)
        total += tl.sum(tl.exp(score - new_top), 0)
        top = new_top
    logsum = tl.log(total) + top
    is_asked = label >= 0
    score = tl.load(logits + label, mask=is_asked, other=0.0).to(tl.float32)
    loss = tl.where(is_asked, logsum - score, 0.0)
    tl.store(losses + position, loss)
    tl.store(logsums + position, logsum)
    tl.store(is_right + position, (winner == label).to(tl.int32))


@triton.jit
def _loss_backward_kernel(
    logits, labels, logsums, scales, grads, stride, grad_stride,
    V: tl.constexpr, WIDTH: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    position = tl.program_id(0).to(tl.int64)
    label = tl.load(labels + position)
    logsum = tl.load(logsums + position)
    scale = tl.where(label >= 0, tl.load(scales + position), 0.0)
    for first in range(0, WIDTH, BLOCK):
        words = first + tl.arange(0, BLOCK)
        score = tl.load(
            logits + position * stride + words,
            mask=words < V,
            other=float("-inf"),
        )
        p = tl.exp(score.to(tl.float32) - logsum)
        grad = (p - (words == label).to(tl.float32)) * scale
        grad = grad.to(grads.dtype.element_ty)
        places = position * grad_stride + words
        tl.store(grads + places, grad, mask=words < WIDTH)


@torch.library.custom_op("bert::cross_entropy", mutates_args=())
def _cross_entropy(
    logits: Tensor, labels: Tensor, num_words: int
) -> tuple[Tensor, Tensor, Tensor]:
    count = len(labels)
    losses = logits.new_empty(count, dtype=torch.float32)
    logsums = torch.empty_like(losses)
    is_right = labels.new_empty(count, dtype=torch.int32)
    _loss_kernel[(count,)](
        logits,
        labels,
        losses,
        logsums,
        is_right,
        logits.stride(0),
        V=num_words,
        BLOCK=BLOCK,
        num_warps=4,
    )
    return losses, is_right, logsums


@_cross_entropy.register_fake
def _(
    logits: Tensor, labels: Tensor, num_words: int
) -> tuple[Tensor, Tensor, Tensor]:
    losses = logits.new_empty(labels.shape[0], dtype=torch.float32)
    is_right = labels.new_empty(labels.shape[0], dtype=torch.int32)
    return losses, is_right, torch.empty_like(losses)


@torch.library.custom_op("bert::cross_entropy_backward", mutates_args=())
def _cross_entropy_backward(
    scales: Tensor,
    logits: Tensor,
    labels: Tensor,
    logsums: Tensor,
    num_words: int,
) -> Tensor:
    grads = logits.new_empty(logits.shape)
    _loss_backward_kernel[(len(labels),)](
        logits,
        labels,
        logsums,
        scales,
        grads,
        logits.stride(0),
        grads.stride(0),
        V=num_words,
        WIDTH=logits.shape[1],
        BLOCK=BLOCK,
        num_warps=8,
    )
    return grads


@_cross_entropy_backward.register_fake
def _(
    scales: Tensor,
    logits: Tensor,
    labels: Tensor,
    logsums: Tensor,
    num_words: int,
) -> Tensor:
    return logits.new_empty(logits.shape)


def _save(
    ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]
) -> None:
    logits, labels, num_words = inputs
    ctx.save_for_backward(logits, labels, output[2])
    ctx.num_words = num_words


def _differentiate(ctx: Any, grad: Tensor, *_: Tensor) -> tuple[Any, ...]:
    scales = grad.contiguous()
    grads = _cross_entropy_backward(scales, *ctx.saved_tensors, ctx.num_words)
    return grads, None, None


_cross_entropy.register_autograd(_differentiate, setup_context=_save)
