"""Multi-head self-attention: softmax(Q K' / sqrt(D)) V, head by head.

Letters: B sequences, S positions, T tokens of a packed batch, N heads, D width
of a head, H = N * D width of a hidden state.
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from bert_from_scratch import kernels
from bert_from_scratch.config import BertConfig
from bert_from_scratch.embeddings.linear import Linear
from bert_from_scratch.model.layout import Layout, Packed, Padded, select

if torch.cuda.is_available():
    # 内核只在 GPU 上有；没有 GPU 时不导入，每条命令快一秒半
    from torch.nn.attention.varlen import varlen_attn

if kernels.EXIST:
    from bert_from_scratch.kernels.attention import attend, attend_from

# 别的宽度放不进寄存器，或不是 2 的幂，交给 PyTorch 自己的内核
KERNEL_WIDTHS = (16, 32, 64)
# 序列是网格的第三维，CUDA 最多给这么多
MAX_SEQUENCES = 65535


class MultiHeadSelfAttention(nn.Module):
    """Every token looks at every token of its own sequence (paper, 3.1)."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        width = config.hidden_size
        self.num_heads = config.num_attention_heads
        self.dropout_prob = config.attention_probs_dropout_prob
        # Q、K、V 合成一次矩阵乘法：一个大乘法比三个小乘法快
        self.qkv = Linear(width, 3 * width)
        self.output = Linear(width, width)

    def forward(self, x: Tensor, layout: Layout) -> Tensor:
        """Mixes the tokens of each sequence by a fused kernel.

        Args:
            x: Hidden states, float [B, S, H] or packed [T, H].
            layout: Where the sequences lie in `x`.

        Returns:
            Hidden states of the same shape as `x`.
        """
        if isinstance(layout, Packed) and self.suits_kernel(x, layout):
            return self.output(self._attend_by_kernel(x, layout).flatten(-2))
        qkv = self._split_heads(x)
        mixed = _attend(*qkv, layout, self.dropout_now())
        return self.output(mixed.flatten(-2))

    def mix_at(
        self, x: Tensor, layout: Layout, places: Tensor, chosen: Tensor
    ) -> Tensor:
        """Does the same where it is wanted, and nothing else.

        Args:
            x: Hidden states, float [B, S, H] or packed [T, H].
            layout: Where the sequences lie in `x`.
            places: Places in the flattened batch, ascending, long [P].
            chosen: What is there, [P, H].

        Returns:
            Hidden states, [P, H].
        """
        if isinstance(layout, Packed) and self.suits_kernel(x, layout):
            mixed = self._attend_from(x, layout, places, chosen)
            return self.output(mixed.flatten(-2))
        qkv = self._split_heads(x)
        mixed = _attend(*qkv, layout, self.dropout_now())
        return self.output(select(mixed.flatten(-2), places))

    def dropout_now(self) -> float:
        """Returns the probability that a weight is left out in this mode."""
        return self.dropout_prob if self.training else 0.0

    def suits_kernel(self, x: Tensor, layout: Packed) -> bool:
        """Returns whether our own kernel can attend in such a batch."""
        width = x.shape[-1] // self.num_heads
        return (
            kernels.usable(x)
            and width in KERNEL_WIDTHS
            and len(layout.cu_seqlens) <= MAX_SEQUENCES
        )

    def _attend_by_kernel(self, x: Tensor, layout: Packed) -> Tensor:
        """Attends by our own kernel, which also gives the bias its gradient."""
        bias = self.qkv.bias
        qkv = self.qkv.dense(x, self.qkv.weight, bias.detach())
        return attend(
            qkv.unflatten(-1, (3, self.num_heads, -1)),
            bias,
            layout.cu_seqlens,
            layout.max_seqlen,
            self.dropout_now(),
        )

    def _attend_from(
        self, x: Tensor, layout: Packed, places: Tensor, chosen: Tensor
    ) -> Tensor:
        """Attends from some places alone; [P, N, D]."""
        width = x.shape[-1]
        # 位置是升序的，所以同一序列的查询相邻，内核正需要这样
        starts = torch.searchsorted(places, layout.cu_seqlens.long())
        bias = self.qkv.bias
        of_queries, of_rest = self.qkv.weight.split((width, 2 * width))
        query_bias, rest_bias = bias.detach().split((width, 2 * width))
        dense = self.qkv.dense
        queries = dense(chosen, of_queries, query_bias)
        kv = dense(x, of_rest, rest_bias)
        return attend_from(
            queries.unflatten(-1, (self.num_heads, -1)),
            kv.unflatten(-1, (2, self.num_heads, -1)),
            bias,
            starts.int(),
            layout.cu_seqlens,
            layout.max_seqlen,
            self.dropout_now(),
        )

    def weights(self, x: Tensor, layout: Layout) -> Tensor:
        """Computes the attention probabilities, for analysis.

        Returns:
            Float [B, N, S, S]; row i says how much token i looks at each
            token. A packed batch is spread out to its longest sequence.
        """
        # 与 forward 同一公式的显式写法，两者一致由测试保证
        query, key, _ = self._split_heads(x)
        if isinstance(layout, Packed):
            query, key = _to_rows(query, layout), _to_rows(key, layout)
            layout = Padded(_rows_mask(layout))
        scores = torch.einsum("bqnd,bknd->bnqk", query, key)
        # 除以 sqrt(D)：否则点积的方差随宽度增长，softmax 会饱和
        scores = scores * query.shape[-1] ** -0.5
        allowed = _key_mask(layout)
        if allowed is not None:
            scores = scores.masked_fill(~allowed, float("-inf"))
        return scores.softmax(dim=-1)

    def _split_heads(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Projects to queries, keys and values, each [..., N, D]."""
        # [..., 3H] -> [..., 3, N, D]，再沿第三维拆成 Q、K、V
        qkv = self.qkv(x).unflatten(-1, (3, self.num_heads, -1))
        query, key, value = qkv.unbind(-3)
        return query, key, value


def _attend(
    query: Tensor, key: Tensor, value: Tensor, layout: Layout, dropout: float
) -> Tensor:
    if isinstance(layout, Packed):
        return _attend_packed(query, key, value, layout, dropout)
    return _attend_padded(query, key, value, layout, dropout)


def _attend_padded(
    query: Tensor, key: Tensor, value: Tensor, layout: Padded, dropout: float
) -> Tensor:
    """Attends within padded rows; all tensors are [B, S, N, D]."""
    # 内核要求 [B, N, S, D]：先把头换到前面，算完再换回来
    mixed = F.scaled_dot_product_attention(
        query.transpose(1, 2),
        key.transpose(1, 2),
        value.transpose(1, 2),
        attn_mask=_key_mask(layout),
        dropout_p=dropout,
    )
    return mixed.transpose(1, 2)


def _attend_packed(
    query: Tensor, key: Tensor, value: Tensor, layout: Packed, dropout: float
) -> Tensor:
    """Attends within packed sequences; all tensors are [T, N, D]."""
    if query.device.type == "cpu":
        return _attend_by_length(query, key, value, layout, dropout)
    is_half = query.dtype in kernels.HALF_TYPES
    if is_half and kernels.is_new_enough(query):
        return _attend_varlen(query, key, value, layout, dropout)
    # 变长内核不支持 fp32 和旧的 GPU：退回到补齐、计算、再取出的慢路
    mixed = _attend_padded(
        _to_rows(query, layout),
        _to_rows(key, layout),
        _to_rows(value, layout),
        Padded(_rows_mask(layout)),
        dropout,
    )
    return mixed[_row_index(layout, len(query))]


def _attend_varlen(
    query: Tensor, key: Tensor, value: Tensor, layout: Packed, dropout: float
) -> Tensor:
    """Attends by the kernel for sequences of any length, on a GPU."""
    starts, longest = layout.cu_seqlens, layout.max_seqlen
    if not dropout:
        mixed = varlen_attn(query, key, value, starts, starts, longest, longest)
        assert isinstance(mixed, Tensor)
        return mixed
    # varlen_attn 没有 dropout 参数，它背后的算子有
    mixed, *_ = torch.ops.aten._flash_attention_forward(
        query,
        key,
        value,
        starts,
        starts,
        longest,
        longest,
        dropout,
        is_causal=False,
        return_debug_mask=False,
    )
    return mixed


def _attend_by_length(
    query: Tensor, key: Tensor, value: Tensor, layout: Packed, dropout: float
) -> Tensor:
    """Attends in runs of sequences of one length: on a CPU, no padding."""
    runs = [run for run in layout.equal_runs if math.prod(run)]
    sizes = [math.prod(run) for run in runs]
    # 一次切开而不是逐段取：反向时一次拼回，不必为每段填一张全零的梯度
    parts = (query.split(sizes), key.split(sizes), value.split(sizes))
    mixed = []
    for shape, *qkv in zip(runs, *parts, strict=True):
        # 等长的相邻序列可以直接看成 [B, S, N, D]，一次内核调用算完
        q, k, v = (tensor.unflatten(0, shape) for tensor in qkv)
        mixed.append(_attend_padded(q, k, v, Padded(), dropout).flatten(0, 1))
    return torch.cat(mixed) if len(mixed) > 1 else mixed[0]


def _key_mask(layout: Padded) -> Tensor | None:
    """Returns which keys may be looked at, bool [B, 1, 1, S], or None."""
    if layout.attention_mask is None:
        return None
    mask = layout.attention_mask.bool()
    # 整行都是填充时放开全部位置：否则 softmax 的分母为零，得到 NaN
    mask = mask | ~mask.any(dim=1, keepdim=True)
    return mask[:, None, None, :]


def _row_index(layout: Packed, num_tokens: int) -> tuple[Tensor, Tensor]:
    """Returns row and column of every packed token in padded rows."""
    return layout.sequence_ids(num_tokens), layout.position_ids(num_tokens)


def _to_rows(x: Tensor, layout: Packed) -> Tensor:
    """Spreads packed [T, ...] out to rows [B, S, ...], zeros as padding."""
    shape = (len(layout.cu_seqlens) - 1, layout.max_seqlen, *x.shape[1:])
    return x.new_zeros(shape).index_put(_row_index(layout, len(x)), x)


def _rows_mask(layout: Packed) -> Tensor:
    """Returns where `_to_rows` puts real tokens, bool [B, S]."""
    columns = torch.arange(layout.max_seqlen, device=layout.cu_seqlens.device)
    return columns < layout.lengths[:, None]
