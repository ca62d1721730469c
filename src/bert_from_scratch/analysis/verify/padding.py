"""Padding changes nothing: any length, any amount, either side."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from bert_from_scratch.analysis.verify.check import (
    Check,
    Measurement,
    Said,
    at_most,
)
from bert_from_scratch.analysis.verify.formula import DEEP_TOLERANCE, difference
from bert_from_scratch.analysis.verify.subject import Subject
from bert_from_scratch.data.batch import TokenSequence

LENGTHS = (1, 2, 7, 32)
LITTLE, MUCH = 1, 16

Side = Literal["right", "left"]
_SIDES: dict[Side, Said] = {
    "right": Said("on the right", "右侧"),
    "left": Said("on the left", "左侧"),
}


@dataclass(frozen=True)
class _Rows:
    """One sequence in two rows of equal length, padded with two things.

    Attributes:
        input_ids: Padded with [PAD] and with words, long [2, S].
        token_type_ids: Segments, long [2, S].
        position_ids: Places as without padding, long [2, S].
        attention_mask: True at the sequence's own tokens, bool [2, S].
    """

    input_ids: Tensor
    token_type_ids: Tensor
    position_ids: Tensor
    attention_mask: Tensor


def _measure(subject: Subject) -> Iterator[Measurement]:
    longest = subject.config.max_position_embeddings
    lengths = [length for length in LENGTHS if length < longest]
    for sequence in subject.sequences(*lengths):
        length = len(sequence.input_ids)
        room = longest - length
        for amount in sorted({min(LITTLE, room), min(MUCH, room)} - {0}):
            for side in _SIDES:
                yield at_most(
                    Said(
                        f"length {length}, padding of {amount} "
                        f"{_SIDES[side].en}",
                        f"长度 {length}，{_SIDES[side].zh}填充 {amount} 个",
                    ),
                    _change(subject, sequence, amount, side),
                    DEEP_TOLERANCE,
                )


def _change(
    subject: Subject, sequence: TokenSequence, amount: int, side: Side
) -> float:
    """Returns how much padding changes hidden states and pooled vector."""
    ids = torch.as_tensor(sequence.input_ids)
    types = torch.as_tensor(sequence.token_type_ids)
    alone = subject.bert(ids[None], types[None])
    rows = _pad(subject, ids, types, amount, side)
    output = subject.bert(
        rows.input_ids,
        rows.token_type_ids,
        attention_mask=rows.attention_mask,
        position_ids=rows.position_ids,
    )
    own = output.hidden_state[rows.attention_mask].unflatten(0, (2, -1))
    changes = [difference(own, alone.hidden_state.expand_as(own))]
    if side == "right":
        # 左填充时行首不是 [CLS]，句向量没有可比之处
        pooled = alone.pooled.expand_as(output.pooled)
        changes.append(difference(output.pooled, pooled))
    # 用张量求最大值：其中有 NaN 就得 NaN，不会被悄悄略过
    return float(torch.tensor(changes).max())


def _pad(
    subject: Subject, ids: Tensor, types: Tensor, amount: int, side: Side
) -> _Rows:
    # 一行用 [PAD]、一行用普通词填充：填充处放什么都不该有影响
    fillers = torch.tensor(
        [[subject.tokenizer.pad_token_id] * amount, subject.draw_ids(amount)]
    )
    zeros = torch.zeros_like(fillers)
    places = torch.arange(len(ids)).expand(2, -1)
    own = torch.ones_like(places, dtype=torch.bool)
    return _Rows(
        _join(ids.expand(2, -1), fillers, side),
        _join(types.expand(2, -1), zeros, side),
        _join(places, zeros, side),
        _join(own, zeros.bool(), side),
    )


def _join(own: Tensor, padding: Tensor, side: Side) -> Tensor:
    parts = (own, padding) if side == "right" else (padding, own)
    return torch.cat(parts, dim=1)


PADDING_INVARIANCE = Check(
    "padding-invariance",
    Said("Padding changes nothing", "填充不改变结果"),
    Said(
        "Padding does not change what a sequence becomes: not its amount, not "
        "its side (left with position_ids given), not what stands there.",
        "填充不改变一条序列的结果：不论填多少、填在哪一侧（左侧填充时给出 "
        "position_ids）、填的是什么。",
    ),
    "bert(x + padding, attention_mask)[real tokens] = bert(x)",
    _measure,
)
