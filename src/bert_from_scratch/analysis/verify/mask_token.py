"""[MASK] is a token like any other to attention."""

from collections.abc import Iterator

import torch
from torch import Tensor

from bert_from_scratch.analysis.verify.check import (
    Check,
    Measurement,
    Said,
    at_most,
    equal,
    more_than,
)
from bert_from_scratch.analysis.verify.formula import TOLERANCE, layer_inputs
from bert_from_scratch.analysis.verify.subject import Subject, Tokens
from bert_from_scratch.data.batch import pad
from bert_from_scratch.tokenizer.wordpiece import Encoding


def _measure(subject: Subject) -> Iterator[Measurement]:
    for number, encoding in enumerate(subject.encodings, 1):
        yield from _measure_text(subject, encoding, number)


def _measure_text(
    subject: Subject, encoding: Encoding, number: int
) -> Iterator[Measurement]:
    ids, place = subject.hide_one(encoding)
    text = Said(f"text {number}", f"文本 {number}")
    yield equal(
        Said(
            f"{text.en}: attention_mask at [MASK]",
            f"{text.zh}：[MASK] 处的 attention_mask",
        ),
        encoding.attention_mask[place],
        1,
    )
    onto, away = _weights_at(subject, encoding, ids, place)
    yield more_than(
        Said(
            f"{text.en}: smallest mean weight of others on [MASK], over layers",
            f"{text.zh}：各层中其他词元对 [MASK] 的平均权重，取最小",
        ),
        onto,
        0.0,
    )
    yield more_than(
        Said(
            f"{text.en}: smallest mean weight of [MASK] on others, over layers",
            f"{text.zh}：各层中 [MASK] 对其他词元的平均权重，取最小",
        ),
        away,
        0.0,
    )
    same, changed = _changes(subject, encoding, ids, place)
    yield at_most(
        Said(
            f"{text.en}: change of states when computed twice",
            f"{text.zh}：重算一遍时隐状态的变化",
        ),
        same,
        TOLERANCE,
    )
    yield more_than(
        Said(
            f"{text.en}: smallest change of another token's state when a word "
            "takes the place of [MASK]",
            f"{text.zh}：把 [MASK] 换成一个词时，其他词元隐状态的最小变化",
        ),
        changed,
        # 没有注意力就分毫不变；变得多小都是看见了，只要不是重算的误差
        10 * same,
    )


def _weights_at(
    subject: Subject, encoding: Encoding, ids: list[int], place: int
) -> tuple[float, float]:
    """Returns the smallest mean weights onto a place and away from it."""
    batch = pad([Tokens(ids, encoding.token_type_ids)])
    others = torch.arange(len(ids)) != place
    onto, away = [], []
    for given in layer_inputs(subject, batch):
        weights = given.attention.weights(given.x, given.layout)[0]
        onto.append(weights[:, others, place].mean())
        away.append(weights[:, place, others].mean())
    return float(torch.stack(onto).min()), float(torch.stack(away).min())


def _changes(
    subject: Subject, encoding: Encoding, ids: list[int], place: int
) -> tuple[float, float]:
    """Returns how states change by chance, and by another token there."""
    types = torch.tensor([encoding.token_type_ids])
    word = subject.draw_ids(1)[0]
    replaced = [*ids[:place], word, *ids[place + 1 :]]

    def states(row: list[int]) -> Tensor:
        return subject.bert(torch.tensor([row]), types).hidden_state[0]

    first, again, other = states(ids), states(ids), states(replaced)
    others = torch.arange(len(ids)) != place
    # 每个别的词元都应变：取变化最小的那一个，与重算的误差相比
    moved = (other - first).abs().amax(dim=-1)[others]
    return float((again - first).abs().max()), float(moved.min())


MASK_VISIBLE = Check(
    "mask-visible",
    Said("[MASK] is visible to attention", "[MASK] 对注意力可见"),
    Said(
        "[MASK] is fully visible to attention: the attention mask hides "
        "padding, the MLM mask hides words, and the two are different things.",
        "[MASK] 对注意力完全可见：注意力掩码遮的是填充，MLM 遮盖的是词，"
        "两者是两回事。",
    ),
    "attention_mask[MASK] = 1; A[others, MASK] > 0; A[MASK, others] > 0; "
    "d(states of others) / d(token at MASK) != 0",
    _measure,
)
