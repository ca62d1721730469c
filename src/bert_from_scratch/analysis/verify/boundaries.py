"""The edges: one token, the longest sequence, nothing but padding."""

from collections.abc import Callable, Iterator, Sequence

import torch
from torch import Tensor

from bert_from_scratch.analysis.verify.check import (
    Check,
    Measurement,
    Said,
    at_most,
    equal,
)
from bert_from_scratch.analysis.verify.formula import (
    TOLERANCE,
    difference,
    layer_inputs,
)
from bert_from_scratch.analysis.verify.subject import Subject, Tokens
from bert_from_scratch.data.batch import pad
from bert_from_scratch.errors import BertError


def _measure(subject: Subject) -> Iterator[Measurement]:
    yield from _measure_lengths(subject)
    yield from _measure_single(subject)
    yield from _measure_all_padding(subject)
    yield from _measure_too_long(subject)
    yield from _measure_bad_id(subject)


def _measure_lengths(subject: Subject) -> Iterator[Measurement]:
    """Sequences of extreme lengths have finite states of the right shape."""
    cls, sep = subject.tokenizer.cls_token_id, subject.tokenizer.sep_token_id
    word = subject.draw_ids(1)[0]
    longest = subject.config.max_position_embeddings
    cases: list[tuple[Said, Sequence[int]]] = [
        (Said("[CLS] alone", "只有 [CLS]"), [cls]),
        (Said("one word without special tokens", "一个词，无特殊符号"), [word]),
        (Said("no text: [CLS] [SEP]", "没有文字：[CLS] [SEP]"), [cls, sep]),
        (
            Said("one token of text", "文字只有一个词元"),
            [cls, word, sep],
        ),
        (
            Said(f"{longest} tokens, the most", f"{longest} 个词元，最多"),
            subject.sequence(longest).input_ids,
        ),
    ]
    for name, ids in cases:
        output = subject.bert(torch.tensor([ids]))
        wanted = [1, len(ids), subject.config.hidden_size]
        yield equal(
            Said(f"{name.en}: shape of the states", f"{name.zh}：隐状态的形状"),
            str(list(output.hidden_state.shape)),
            str(wanted),
        )
        yield equal(
            Said(f"{name.en}: numbers not finite", f"{name.zh}：非有限数个数"),
            _count_strange(output.hidden_state) + _count_strange(output.pooled),
            0,
        )


def _measure_single(subject: Subject) -> Iterator[Measurement]:
    """One token can only look at itself, with weight 1."""
    alone = pad([Tokens([subject.tokenizer.cls_token_id], [0])])
    weights = torch.stack(
        [
            given.attention.weights(given.x, given.layout)
            for given in layer_inputs(subject, alone)
        ]
    )
    yield equal(
        Said(
            "[CLS] alone: smallest weight on itself, over layers and heads",
            "只有 [CLS]：各层各头对自身权重的最小值",
        ),
        float(weights.min()),
        1.0,
    )


def _measure_all_padding(subject: Subject) -> Iterator[Measurement]:
    encoding = subject.encodings[0]
    pad_id = subject.tokenizer.pad_token_id
    empty = Tokens([pad_id] * len(encoding), [0] * len(encoding))
    batch = pad([encoding, empty], pad_id)
    mask = torch.tensor([[True], [False]]).expand(2, len(encoding))
    output = subject.bert(
        batch.input_ids, batch.token_type_ids, attention_mask=mask
    )
    alone = subject.bert(**pad([encoding]).inputs()).hidden_state
    yield equal(
        Said(
            "a row of padding alone: numbers not finite",
            "整行都是填充：非有限数个数",
        ),
        _count_strange(output.hidden_state) + _count_strange(output.pooled),
        0,
    )
    yield at_most(
        Said(
            "the row beside it, against itself alone", "旁边的一行，与单算之差"
        ),
        difference(output.hidden_state[:1], alone),
        TOLERANCE,
    )


def _measure_too_long(subject: Subject) -> Iterator[Measurement]:
    longest = subject.config.max_position_embeddings
    ids = torch.tensor(subject.sequence(longest + 1).input_ids)
    cu_seqlens = torch.tensor([0, len(ids)], dtype=torch.int32)
    ways: tuple[tuple[Said, Callable[[], object]], ...] = (
        (Said("padded", "补齐"), lambda: subject.bert(ids[None])),
        (
            Said("packed", "拼接"),
            lambda: subject.bert(ids, cu_seqlens=cu_seqlens),
        ),
    )
    for way, call in ways:
        message = _refusal(call)
        # 报错要说出两个数：来了多少、最多多少，用户才知道该怎么办
        is_clear = str(len(ids)) in message and str(longest) in message
        yield equal(
            Said(
                f"{len(ids)} tokens, {way.en}: refused with both numbers "
                f"({message or 'no error'})",
                f"{len(ids)} 个词元（{way.zh}）：拒绝，并说出两个数"
                f"（{message or '没有报错'}）",
            ),
            is_clear,
            True,
        )


def _measure_bad_id(subject: Subject) -> Iterator[Measurement]:
    beyond = subject.config.vocab_size
    message = _refusal(lambda: subject.bert(torch.tensor([[beyond]])))
    yield equal(
        Said(
            f"the id {beyond}, outside the vocabulary: refused with the number",
            f"词表之外的编号 {beyond}：拒绝，并说出这个数",
        ),
        str(beyond) in message,
        True,
    )


def _refusal(call: Callable[[], object]) -> str:
    """Returns the message of a clear error; nothing where none came."""
    try:
        call()
    except BertError as error:
        return error.message
    except (IndexError, RuntimeError):
        # 底层的越界错误用户看不懂：不算说清楚
        return ""
    return ""


def _count_strange(x: Tensor) -> int:
    return int((~x.isfinite()).sum())


BOUNDARIES = Check(
    "boundaries",
    Said("Boundary cases", "边界情形"),
    Said(
        "One token, no text, the longest sequence and rows of padding alone "
        "give finite numbers; one token too many is refused with a clear "
        "error.",
        "一个词元、没有文字、最长的序列、整行填充，结果都是有限数；多一个词元则"
        "明确报错。",
    ),
    "isfinite(bert(x)) for 1 <= len(x) <= max_position_embeddings; BertError "
    "beyond",
    _measure,
)
