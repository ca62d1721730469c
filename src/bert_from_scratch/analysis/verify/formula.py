"""Attention written out, to hold the fast kernel against.

Letters: B sequences, S positions, N heads, D width of a head, H = N * D.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from bert_from_scratch.analysis.verify.subject import Subject
from bert_from_scratch.config import BertConfig
from bert_from_scratch.data.batch import Batch
from bert_from_scratch.model.attention import MultiHeadSelfAttention
from bert_from_scratch.model.block import TransformerBlock
from bert_from_scratch.model.layout import Layout

# 单精度下，同一公式的两种算法（核、次序不同）相差的上限，相对于数值大小
TOLERANCE = 1e-5
# 穿过所有层之后舍入会累积；漏看一个词元的差别仍比它大一个数量级以上
DEEP_TOLERANCE = 1e-4
# 打分大到多少时，它自身的舍入开始左右概率
PLAIN_SCORE = 10.0


@dataclass(frozen=True)
class LayerInput:
    """What the attention of one layer is given.

    Attributes:
        layer: Its number, from 1.
        attention: The module.
        x: Hidden states, float32 [B, S, H].
        layout: Where the sequences lie in `x`.
    """

    layer: int
    attention: MultiHeadSelfAttention
    x: Tensor
    layout: Layout


def layer_inputs(subject: Subject, batch: Batch) -> Iterator[LayerInput]:
    """Yields what each layer's attention is given for a batch."""
    bert = subject.bert
    x, layout = bert.embed(**batch.inputs())
    states = bert.encoder.hidden_states(x, layout)
    for number, block in enumerate(bert.encoder.blocks):
        assert isinstance(block, TransformerBlock)
        yield LayerInput(number + 1, block.attention, states[number], layout)


def extended_mask(attention_mask: Tensor, dtype: torch.dtype) -> Tensor:
    """Returns what is added to the scores, [B, 1, 1, S].

    Args:
        attention_mask: Non-zero at real tokens, [B, S].
        dtype: Of the scores; its smallest number stands at padding.
    """
    # 真词处得 (1 - 1) * min = -0.0，加上去什么也不变；填充处得 min
    mask = attention_mask.to(dtype)[:, None, None, :]
    return (1.0 - mask) * torch.finfo(dtype).min


def explicit_attention(
    attention: MultiHeadSelfAttention,
    x: Tensor,
    config: BertConfig,
    extended: Tensor | None = None,
) -> tuple[Tensor, Tensor, float]:
    """Computes softmax(Q K' / sqrt(D) + extended) V, step by step.

    Args:
        attention: Where the weights come from.
        x: Hidden states, float [B, S, H]; all is computed in their type.
        config: Says how many heads there are, and so how wide they are.
        extended: What is added to the scores, [B, 1, 1, S]; None: nothing.

    Returns:
        The attention probabilities, [B, N, S, S]; the output, [B, S, H]; and
        how far two ways of computing it in float32 may lie apart.
    """
    query, key, value = _project(attention, x, config)
    # 宽度取自配置，不取自模块：模块算错了缩放也骗不过这里
    scores = query @ key.transpose(-1, -2) / config.head_size**0.5
    # 概率的误差与打分的误差成正比，打分的误差又与打分的大小成正比
    allowed = TOLERANCE * max(
        1.0, float(scores.detach().abs().max()) / PLAIN_SCORE
    )
    if extended is not None:
        scores = scores + extended
    probabilities = scores.softmax(dim=-1)
    mixed = (probabilities @ value).transpose(1, 2).flatten(-2)
    weight, bias = attention.output.weight, attention.output.bias
    output = F.linear(mixed, weight.to(x), bias.to(x))
    return probabilities, output, allowed


def _project(
    attention: MultiHeadSelfAttention, x: Tensor, config: BertConfig
) -> tuple[Tensor, Tensor, Tensor]:
    """Returns queries, keys and values, each [B, N, S, D]."""
    shape = (config.num_attention_heads, config.head_size)
    parts = zip(
        attention.qkv.weight.chunk(3), attention.qkv.bias.chunk(3), strict=True
    )
    query, key, value = (
        F.linear(x, weight.to(x), bias.to(x))
        .unflatten(-1, shape)
        .transpose(1, 2)
        for weight, bias in parts
    )
    return query, key, value


def difference(found: Tensor, expected: Tensor) -> float:
    """Returns the largest difference, relative to the largest value.

    Values below 1 count as 1, so near zero the difference is absolute. NaN
    anywhere gives NaN.
    """
    if found.shape != expected.shape:
        raise ValueError(f"{tuple(found.shape)} is not {tuple(expected.shape)}")
    size = expected.abs().max().clamp(min=1)
    return float((found - expected).abs().max() / size)
