"""Attention: its mask, its rows, and its formula, layer by layer."""

from collections.abc import Iterator

import torch
from torch import Tensor

from bert_from_scratch.analysis.verify.check import (
    Check,
    Measurement,
    Said,
    at_least,
    at_most,
    equal,
    more_than,
)
from bert_from_scratch.analysis.verify.formula import (
    TOLERANCE,
    difference,
    explicit_attention,
    extended_mask,
    layer_inputs,
)
from bert_from_scratch.analysis.verify.subject import Subject
from bert_from_scratch.data.batch import pad


def _measure_extended_mask(subject: Subject) -> Iterator[Measurement]:
    lowest = torch.finfo(torch.float32).min
    whole = torch.tensor([subject.encodings[0].attention_mask])
    plain = extended_mask(whole, torch.float32)
    yield at_most(
        Said("largest size without padding", "无填充时的最大绝对值"),
        float(plain.abs().max()),
        0.0,
    )
    yield equal(
        Said("share of -0.0 without padding", "无填充时 -0.0 的比例"),
        float(plain.signbit().float().mean()),
        1.0,
    )
    batch = subject.padded()
    mask = batch.attention_mask
    assert mask is not None
    extended = extended_mask(mask, torch.float32)
    yield equal(
        Said("largest value at padding", "填充处的最大值"),
        float(extended[~mask[:, None, None, :]].max()),
        lowest,
    )
    for given in layer_inputs(subject, batch):
        probabilities, _, allowed = explicit_attention(
            given.attention, given.x, subject.config, extended
        )
        yield at_most(
            Said(
                f"layer {given.layer}: added mask against bool mask, "
                "probabilities",
                f"第 {given.layer} 层：相加的掩码与布尔掩码，概率之差",
            ),
            difference(
                given.attention.weights(given.x, given.layout), probabilities
            ),
            allowed,
        )


EXTENDED_MASK = Check(
    "extended-mask",
    Said("The extended attention mask", "扩展注意力掩码"),
    Said(
        "The extended attention mask is -0.0 at every real token and the "
        "smallest number at padding; adding it to the scores gives the same "
        "probabilities as our bool mask.",
        "扩展注意力掩码在真实词元处全为 -0.0，在填充处为最小数；把它加到"
        "分数上，得到的概率与本项目的布尔掩码相同。",
    ),
    "extended = (1 - attention_mask) * finfo(float32).min; "
    "softmax(scores + extended) = softmax(scores where attention_mask)",
    _measure_extended_mask,
)


def _measure_rows(subject: Subject) -> Iterator[Measurement]:
    batch = subject.padded()
    mask = batch.attention_mask
    assert mask is not None
    on_padding, smallest = [], []
    for given in layer_inputs(subject, batch):
        weights = given.attention.weights(given.x, given.layout)
        sums = weights.sum(dim=-1)
        yield at_most(
            Said(
                f"layer {given.layer}, {weights.shape[1]} heads: largest "
                "|sum of a row - 1|",
                f"第 {given.layer} 层，{weights.shape[1]} 个头：|行和 - 1| "
                "的最大值",
            ),
            float((sums - 1).abs().max()),
            TOLERANCE,
        )
        on_padding.append(_at_keys(weights, ~mask).abs().max())
        smallest.append(weights.min())
    yield more_than(
        Said("padding positions in the batch", "批次中的填充位置数"),
        int((~mask).sum()),
        0,
    )
    yield at_most(
        Said("largest weight on padding", "落在填充上的最大权重"),
        float(torch.stack(on_padding).max()),
        0.0,
    )
    yield at_least(
        Said("smallest weight", "最小的权重"),
        float(torch.stack(smallest).min()),
        0.0,
    )


def _at_keys(weights: Tensor, is_chosen: Tensor) -> Tensor:
    """Returns the weights [B, N, S, S] onto chosen keys, flat."""
    return weights[is_chosen[:, None, None, :].expand_as(weights)]


SOFTMAX_ROWS = Check(
    "softmax-rows",
    Said("Attention rows sum to 1", "注意力每行之和为 1"),
    Said(
        "In every layer and head, the attention weights of a token are not "
        "negative, sum to 1, and are zero on padding.",
        "每一层、每个头里，一个词元的注意力权重非负、和为 1，且在填充处为零。",
    ),
    "sum_j A[i, j] = 1; A[i, j] >= 0; A[i, padding] = 0",
    _measure_rows,
)


def _measure_formula(subject: Subject) -> Iterator[Measurement]:
    batch = subject.padded()
    mask = batch.attention_mask
    assert mask is not None
    extended = extended_mask(mask, torch.float64)
    for given in layer_inputs(subject, batch):
        # 参照用双精度算，差值里就只剩快速内核自己的舍入
        probabilities, output, allowed = explicit_attention(
            given.attention, given.x.double(), subject.config, extended
        )
        fused = given.attention(given.x, given.layout).double()
        shown = given.attention.weights(given.x, given.layout).double()
        yield at_most(
            Said(
                f"layer {given.layer}: fused output against the formula",
                f"第 {given.layer} 层：融合内核的输出与公式之差",
            ),
            difference(fused[mask], output[mask]),
            allowed,
        )
        yield at_most(
            Said(
                f"layer {given.layer}: attention weights against the formula",
                f"第 {given.layer} 层：注意力权重与公式之差",
            ),
            difference(shown, probabilities),
            allowed,
        )
    yield from _measure_without_padding(subject)


def _measure_without_padding(subject: Subject) -> Iterator[Measurement]:
    """Without a mask the kernel takes another way; so it is asked too.

    The longest sequence of all is asked: a kernel may err far away only.
    """
    batch = pad([subject.longest()], subject.tokenizer.pad_token_id)
    differences, bounds = [], []
    for given in layer_inputs(subject, batch):
        _, output, allowed = explicit_attention(
            given.attention, given.x.double(), subject.config
        )
        fused = given.attention(given.x, given.layout).double()
        differences.append(difference(fused, output))
        bounds.append(allowed)
    yield at_most(
        Said(
            f"all layers, {batch.max_seqlen} tokens without padding: fused "
            "output against the formula",
            f"所有层、{batch.max_seqlen} 个词元、无填充：融合内核的输出与公式"
            "之差",
        ),
        float(torch.tensor(differences).max()),
        max(bounds),
    )


FUSED_ATTENTION = Check(
    "fused-attention",
    Said("The fused kernel is the formula", "融合内核即论文公式"),
    Said(
        "The fused kernel computes the formula of the paper, with the scale "
        "1/sqrt(D) and the padding masked (reference in float64).",
        "融合内核算的就是论文的公式：缩放为 1/sqrt(D)，填充被遮住"
        "（参照为双精度）。",
    ),
    "softmax(Q K' / sqrt(D)) V W_O + b_O, D = hidden_size / "
    "num_attention_heads",
    _measure_formula,
)
