"""Scores and cross-entropy in one on a CPU: the scores are there only once.

PyTorch's own road writes four tables of the size of the scores, and a process
gets the memory for such tables anew, page by page, in every step.

Letters: P positions asked for, H width of a vector, V WordPieces.
"""

from collections.abc import Callable
from typing import Any, cast

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from bert_from_scratch.kernels.dense import dense, multiply, multiply_columns

# 一次处理这么多个打分：留在缓存里，几趟读写就不必去内存
CHUNK = 1 << 21


def usable(x: Tensor) -> bool:
    """Returns whether `word_loss` can work on these vectors."""
    return (
        x.device.type == "cpu"
        and x.dtype == torch.float32
        and not torch.is_autocast_enabled("cpu")
        and not torch.compiler.is_compiling()
    )


def word_loss(
    x: Tensor, words: Tensor, bias: Tensor, labels: Tensor
) -> tuple[Tensor, Tensor]:
    """Scores every WordPiece and sums the loss over labelled positions.

    Args:
        x: Float32 [P, H].
        words: A vector for each WordPiece, float32 [V, H].
        bias: Added to the scores, float32 [V].
        labels: The right WordPiece, long [P]; negative: not asked for.

    Returns:
        The sum of the losses and how often the right WordPiece is the first
        of the highest, scalars.
    """
    return _word_loss(x, words, bias, labels)


class _WordLoss(torch.autograd.Function):
    """Keeps the scores' gradients in the place of the scores."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, words: Tensor, bias: Tensor, labels: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Returns the sum of the losses, and how many are right."""
        scores = dense(x, words, bias)
        size = max(CHUNK // len(words), 1)
        sums = [
            _turn_to_gradients(*part)
            for part in zip(scores.split(size), labels.split(size), strict=True)
        ]
        losses, correct = (
            torch.stack(s).sum() for s in zip(*sums, strict=True)
        )
        ctx.save_for_backward(scores, x, words)
        ctx.mark_non_differentiable(correct)
        return losses, correct

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        """Returns the gradients of vectors, words and bias."""
        grad, _ = grads
        scores, x, words = ctx.saved_tensors
        wants_x, wants_words, wants_bias, _ = ctx.needs_input_grad
        return (
            multiply(scores, words.t()) * grad if wants_x else None,
            # 乘在窄的那一边：省去一趟词表那么宽的读写
            multiply_columns(scores, x * grad) if wants_words else None,
            scores.sum(0) * grad if wants_bias else None,
            None,
        )


_word_loss = cast("Callable[..., tuple[Tensor, Tensor]]", _WordLoss.apply)


def _turn_to_gradients(scores: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """Replaces scores by the gradients of their summed loss.

    Returns:
        That sum, and how many of the highest scores are the right ones.
    """
    is_asked = labels >= 0
    right = labels.clamp(min=0)[:, None]
    top, winners = scores.max(-1, keepdim=True)
    chosen = scores.gather(1, right)
    # 先减去最大值再取指数，不会溢出；全部就地进行
    total = scores.sub_(top).exp_().sum(-1, keepdim=True)
    losses = (total.log() + top - chosen)[:, 0]
    scores.mul_(is_asked[:, None] / total)
    scores.scatter_add_(1, right, -is_asked[:, None].to(scores.dtype))
    correct = (winners[:, 0] == labels).sum()
    return losses.masked_fill(~is_asked, 0).sum(), correct
