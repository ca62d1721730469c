"""One Transformer block: attention, then feed-forward, each with its sum."""

from collections.abc import Callable
from functools import partial
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from bert_from_scratch import kernels
from bert_from_scratch.config import BertConfig
from bert_from_scratch.embeddings.dropout import Dropout
from bert_from_scratch.embeddings.layer_norm import LayerNorm
from bert_from_scratch.embeddings.linear import Linear
from bert_from_scratch.kernels import fp8
from bert_from_scratch.model.attention import MultiHeadSelfAttention
from bert_from_scratch.model.layout import Layout, Packed, select

if kernels.EXIST:
    from bert_from_scratch.kernels.activation import gelu
    from bert_from_scratch.kernels.attention_sublayer import attention_sublayer
    from bert_from_scratch.kernels.feed_forward_sublayer import (
        feed_forward_sublayer,
    )

_gelu_tanh = partial(F.gelu, approximate="tanh")

# erf 与 tanh 两种 GELU 数值不同：由检查点的 hidden_act 决定，不可混用
ACTIVATION_FUNCTIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "gelu": F.gelu,
    "gelu_new": _gelu_tanh,
    "gelu_pytorch_tanh": _gelu_tanh,
    "gelu_fast": _gelu_tanh,
    "relu": F.relu,
}


class FeedForward(nn.Module):
    """Two dense layers with an activation between, token by token."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.expand = Linear(config.hidden_size, config.intermediate_size)
        self.contract = Linear(config.intermediate_size, config.hidden_size)
        self.activation = ACTIVATION_FUNCTIONS[config.hidden_act]

    def forward(self, x: Tensor) -> Tensor:
        """Maps hidden states, float [..., H], to the same shape."""
        if self.activation is F.gelu and self._learns_in_fp8():
            inwards, outwards = self.expand, self.contract
            return fp8.feed_forward(
                *(x, inwards.weight, inwards.bias),
                *(outwards.weight, outwards.bias),
            )
        if self.activation is F.gelu and kernels.usable(x):
            return self.contract(self._expand_by_kernel(x))
        return self.contract(self.activation(self.expand(x)))

    def _learns_in_fp8(self) -> bool:
        layers = (self.expand, self.contract)
        return torch.is_grad_enabled() and all(
            layer.dense is fp8.dense for layer in layers
        )

    def _expand_by_kernel(self, x: Tensor) -> Tensor:
        """Expands and activates; the kernel adds the bias on its way."""
        return gelu(self.expand.dense(x, self.expand.weight), self.expand.bias)


class TransformerBlock(nn.Module):
    """Self-attention then feed-forward, each added and then normalised."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        width, eps = config.hidden_size, config.layer_norm_eps
        self.attention = MultiHeadSelfAttention(config)
        self.attention_norm = LayerNorm(width, eps=eps)
        self.feed_forward = FeedForward(config)
        self.output_norm = LayerNorm(width, eps=eps)
        self.dropout = Dropout(config.hidden_dropout_prob)

    def forward(
        self, x: Tensor, layout: Layout, places: Tensor | None = None
    ) -> Tensor:
        """Maps hidden states, float [..., H], to the same shape.

        Args:
            x: Hidden states, float [B, S, H] or packed [T, H].
            layout: Where the sequences lie in `x`.
            places: Which results are wanted, as places in the flattened
                batch, ascending, long [P]; the result is [P, H] then. None:
                all.
        """
        if places is None and self._has_kernels(x, layout):
            return self._learn_by_kernels(x, cast("Packed", layout))
        if places is None:
            mixed = self.attention(x, layout)
        else:
            chosen = select(x, places)
            mixed = self.attention.mix_at(x, layout, places, chosen)
            x = chosen
        # 原版 BERT 是后归一化：先加残差，再做 LayerNorm
        x = self.attention_norm.of_sum(x, self.dropout(mixed))
        return self.output_norm.of_sum(x, self.dropout(self.feed_forward(x)))

    def _has_kernels(self, x: Tensor, layout: Layout) -> bool:
        """Whether both halves can learn as one operator each."""
        attention, feed_forward = self.attention, self.feed_forward
        layers = [attention.qkv, attention.output]
        layers += [feed_forward.expand, feed_forward.contract]
        return (
            torch.is_grad_enabled()
            and isinstance(layout, Packed)
            and attention.suits_kernel(x, layout)
            and feed_forward.activation is F.gelu
            # 全在 fp8 里，或全不在：一半一半的，交给 PyTorch 逐步求导
            and len({layer.dense is fp8.dense for layer in layers}) == 1
            # 有人在里面挂了钩子，就一层一层地调用，让钩子看得到
            and not any(map(_has_hooks, self.modules()))
        )

    def _learn_by_kernels(self, x: Tensor, layout: Packed) -> Tensor:
        """Does the same by operators whose way back is written by hand."""
        attention, feed_forward = self.attention, self.feed_forward
        dropout = self.dropout.p if self.training else 0.0
        in_fp8 = attention.qkv.dense is fp8.dense
        x = attention_sublayer(
            x,
            _affine(attention.qkv),
            _affine(attention.output),
            _affine(self.attention_norm),
            layout.cu_seqlens,
            layout.max_seqlen,
            attention.num_heads,
            self.attention_norm.eps,
            attention.dropout_now(),
            dropout,
            in_fp8,
        )
        return feed_forward_sublayer(
            x,
            _affine(feed_forward.expand),
            _affine(feed_forward.contract),
            _affine(self.output_norm),
            self.output_norm.eps,
            dropout,
            in_fp8,
        )


def _has_hooks(module: nn.Module) -> bool:
    """Whether somebody wants to know when a layer inside a block is called."""
    return not isinstance(module, TransformerBlock) and bool(
        module._forward_hooks
        or module._forward_pre_hooks
        or module._backward_hooks
        or module._backward_pre_hooks
    )


def _affine(layer: Linear | LayerNorm) -> tuple[Tensor, Tensor]:
    return layer.weight, layer.bias
