"""The decoder is the token embedding matrix itself, here and on disk."""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call

from bert_from_scratch.analysis.verify.check import (
    Check,
    Measurement,
    Said,
    at_most,
    equal,
    masked_lm,
    more_than,
)
from bert_from_scratch.analysis.verify.formula import TOLERANCE
from bert_from_scratch.analysis.verify.subject import DECODER_NAMES, Subject
from bert_from_scratch.data.batch import pad
from bert_from_scratch.objectives.pretraining import BertForPreTraining

_EMBEDDING = "model.bert.embedding.token.weight"


class _Decoder(nn.Module):
    """The model seen from its hidden states: vocabulary scores out."""

    def __init__(self, model: BertForPreTraining) -> None:
        super().__init__()
        self.model = model

    def forward(self, hidden_state: Tensor) -> Tensor:
        """Scores every position: float [1, S, H] to [S, V]."""
        places = torch.arange(hidden_state.shape[1])
        return self.model.mlm_logits(hidden_state, places)


def _measure(subject: Subject) -> Iterator[Measurement]:
    model = masked_lm(subject)
    batch = pad(subject.encodings[:1], subject.tokenizer.pad_token_id)
    hidden_state = model.bert(**batch.inputs()).hidden_state
    yield equal(
        Said(
            "the decoder reads the memory of the token embeddings",
            "解码所读的内存就是词嵌入的内存",
        ),
        _shares_storage(model, hidden_state),
        True,
    )
    yield from _perturb(model, hidden_state)
    yield equal(
        Said(
            "on disk: output tensors that differ from the embeddings",
            "磁盘上：与词嵌入不一致的输出层张量数",
        ),
        _count_different(subject, model),
        0,
    )


def _shares_storage(model: BertForPreTraining, hidden_state: Tensor) -> bool:
    """Looks at which matrix the head is given."""
    given: list[Any] = []
    handle = model.mlm_head.register_forward_pre_hook(
        lambda _, args: given.extend(args)
    )
    try:
        _Decoder(model)(hidden_state)
    finally:
        handle.remove()
    embedding = model.bert.embedding.token.weight
    return any(
        isinstance(tensor, Tensor)
        and tensor.data_ptr() == embedding.data_ptr()
        and tensor.shape == embedding.shape
        for tensor in given
    )


def _perturb(
    model: BertForPreTraining, hidden_state: Tensor
) -> Iterator[Measurement]:
    """Changes one row of a copy of the embeddings; looks at the scores."""
    decoder = _Decoder(model)
    embedding = model.bert.embedding.token.weight
    row = embedding.shape[0] - 1
    # 只复制词嵌入这一个矩阵：模型本身原封不动
    changed = embedding.detach().clone()
    generator = torch.Generator().manual_seed(0)
    changed[row] += torch.randn(changed.shape[1], generator=generator)
    before = decoder(hidden_state)
    after = functional_call(decoder, {_EMBEDDING: changed}, (hidden_state,))
    moved = after - before
    yield more_than(
        Said(
            f"change of the scores of WordPiece {row} when its embedding moves",
            f"词片 {row} 的嵌入移动时，它的打分的变化",
        ),
        float(moved[:, row].abs().max()),
        TOLERANCE,
    )
    yield at_most(
        Said(
            "change of all other scores meanwhile", "与此同时其他词片打分的变化"
        ),
        float(moved[:, :row].abs().max()),
        TOLERANCE,
    )


def _count_different(subject: Subject, model: BertForPreTraining) -> int:
    """Counts stored output tensors that are not their twins in memory."""
    ours = (model.bert.embedding.token.weight, model.mlm_head.bias)
    # 读模型时会略过文件里的输出层；若它另有其值，算出的打分就是错的
    return sum(
        not torch.equal(subject.stored_decoder[name], tensor)
        for name, tensor in zip(DECODER_NAMES, ours, strict=True)
        if name in subject.stored_decoder
    )


TIED_WEIGHTS = Check(
    "tied-weights",
    Said("Tied output weights", "输出权重与词嵌入共享"),
    Said(
        "The decoder's weights are the token embeddings: one matrix in memory, "
        "and no second, different one on disk.",
        "解码层的权重就是词嵌入：内存中是同一个矩阵，磁盘上也没有另一个不同的。",
    ),
    "logits = transform(h) E' + b, E = embedding.token.weight",
    _measure,
)
