"""Packed and padded are two ways to say the same."""

from collections.abc import Iterator
from dataclasses import replace

import torch
from torch import Tensor

from bert_from_scratch.analysis.verify.check import (
    Check,
    Measurement,
    Said,
    at_most,
    equal,
)
from bert_from_scratch.analysis.verify.formula import DEEP_TOLERANCE, difference
from bert_from_scratch.analysis.verify.subject import Subject
from bert_from_scratch.data.batch import Batch, TokenSequence, pack, pad
from bert_from_scratch.objectives.pretraining import BertForPreTraining

LENGTHS = (1, 9, 3)
LABEL_EVERY = 3


def _measure(subject: Subject) -> Iterator[Measurement]:
    longest = subject.config.max_position_embeddings
    sequences = subject.sequences(*LENGTHS, longest // 2)
    packed = pack(sequences)
    padded = pad(sequences, subject.tokenizer.pad_token_id)
    assert padded.attention_mask is not None
    in_pack = subject.bert(**packed.inputs())
    in_rows = subject.bert(**padded.inputs())
    states = in_rows.hidden_state[padded.attention_mask]
    yield at_most(
        Said("hidden states, packed against padded", "隐状态：拼接与补齐之差"),
        difference(in_pack.hidden_state, states),
        DEEP_TOLERANCE,
    )
    yield at_most(
        Said("pooled vectors, packed against padded", "句向量：拼接与补齐之差"),
        difference(in_pack.pooled, in_rows.pooled),
        DEEP_TOLERANCE,
    )
    yield from _measure_alone(subject, sequences, in_pack.hidden_state)
    yield from _measure_positions(subject, packed, in_pack.hidden_state)
    if subject.pretraining is not None:
        yield from _measure_loss(subject, subject.pretraining, packed, padded)


def _measure_alone(
    subject: Subject, sequences: list[TokenSequence], in_pack: Tensor
) -> Iterator[Measurement]:
    alone = [
        subject.bert(**pad([sequence]).inputs()).hidden_state[0]
        for sequence in sequences
    ]
    yield at_most(
        Said(
            "hidden states, packed against each sequence alone",
            "隐状态：拼接与逐条单算之差",
        ),
        difference(in_pack, torch.cat(alone)),
        DEEP_TOLERANCE,
    )


def _measure_positions(
    subject: Subject, packed: Batch, in_pack: Tensor
) -> Iterator[Measurement]:
    assert packed.cu_seqlens is not None
    starts = packed.cu_seqlens[:-1].long()
    # 位置必须在每条序列的开头归零，否则拼接会泄漏到位置编码里
    yield equal(
        Said(
            "sum of the positions where sequences start", "各序列开头的位置之和"
        ),
        int(packed.position_ids[starts].abs().sum()),
        0,
    )
    counted = subject.bert(
        packed.input_ids, packed.token_type_ids, cu_seqlens=packed.cu_seqlens
    )
    yield at_most(
        Said(
            "hidden states, positions given against counted by the model",
            "隐状态：给出位置与模型自数位置之差",
        ),
        difference(counted.hidden_state, in_pack),
        DEEP_TOLERANCE,
    )


def _measure_loss(
    subject: Subject, model: BertForPreTraining, packed: Batch, padded: Batch
) -> Iterator[Measurement]:
    assert padded.attention_mask is not None
    assert packed.cu_seqlens is not None
    num_tokens, num_sequences = (
        len(packed.input_ids),
        len(packed.cu_seqlens) - 1,
    )
    chosen = torch.arange(0, num_tokens, LABEL_EVERY)
    labels = torch.tensor(subject.draw_ids(len(chosen)))
    nsp = torch.arange(num_sequences) % 2 if subject.has_nsp_head else None
    # 同一个词元在两种排法里的地址不同：拼接时是序号，补齐时是行乘宽加列
    places = padded.attention_mask.flatten().nonzero().flatten()
    of_packed = model(
        replace(packed, mlm_positions=chosen, mlm_labels=labels, nsp_labels=nsp)
    )
    of_padded = model(
        replace(
            padded,
            mlm_positions=places[chosen],
            mlm_labels=labels,
            nsp_labels=nsp,
        )
    )
    for name, part in of_packed.parts.items():
        other = of_padded.parts[name].mean
        yield at_most(
            Said(
                f"{name.upper()} loss {float(part.mean):.4f}, packed against "
                "padded",
                f"{name.upper()} 损失 {float(part.mean):.4f}：拼接与补齐之差",
            ),
            difference(part.mean, other),
            DEEP_TOLERANCE,
        )


PACKED_EQUALS_PADDED = Check(
    "packed-equals-padded",
    Said("Packed equals padded", "拼接等于补齐"),
    Said(
        "Sequences laid end to end give the same hidden states, pooled vectors "
        "and losses as padded rows and as each sequence alone. Labels are "
        "drawn at random here, so a loss says nothing of the model.",
        "首尾相接的序列与补齐的行、与逐条单算，得到相同的隐状态、句向量和损失。"
        "这里的标签是随机抽的，损失的大小与模型好坏无关。",
    ),
    "bert(pack(x_1 ... x_B)) = bert(pad(x_1 ... x_B))[real tokens]",
    _measure,
)
