"""Agreement with transformers, where it is installed."""

from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import replace
from importlib import import_module
from types import ModuleType
from typing import Any

import torch
from torch import Tensor

from bert_from_scratch.analysis.verify.check import (
    Check,
    Measurement,
    NotApplicable,
    Said,
    at_most,
)
from bert_from_scratch.analysis.verify.formula import difference, layer_inputs
from bert_from_scratch.analysis.verify.subject import Subject
from bert_from_scratch.data.batch import IGNORE_INDEX, Batch, pad
from bert_from_scratch.objectives.pretraining import BertForPreTraining

# 用双精度比：erf 与 tanh 两种 GELU 之差在单精度的舍入里可能看不出来
AGREEMENT = 1e-10


def _measure(subject: Subject) -> Iterator[Measurement]:
    transformers = _import()
    with _quiet(transformers):
        peer = _load(transformers, subject)
    subject = _in_double(subject)
    batch = _label(subject, subject.padded())
    mask = batch.attention_mask
    assert mask is not None
    theirs = peer(**_their_inputs(subject, batch))
    x, layout = subject.bert.embed(**batch.inputs())
    states = subject.bert.encoder.hidden_states(x, layout)
    pairs = zip(states, theirs.hidden_states, strict=True)
    for layer, (ours, other) in enumerate(pairs):
        name = Said(f"hidden states, layer {layer}", f"第 {layer} 层隐状态")
        if layer == 0:
            name = Said("embeddings", "嵌入")
        yield at_most(name, difference(ours[mask], other[mask]), AGREEMENT)
    yield _compare_attentions(subject, batch, theirs.attentions)
    yield _compare_longest(subject, peer)
    # BertForMaskedLM 不带池化层，文件里有也不读
    pooler = getattr(peer, "bert", peer).pooler
    if subject.has_pooler and pooler is not None:
        yield at_most(
            Said("pooled vectors", "句向量"),
            difference(
                subject.bert(**batch.inputs()).pooled,
                pooler(theirs.hidden_states[-1]),
            ),
            AGREEMENT,
        )
    if subject.pretraining is not None:
        yield from _compare_heads(subject, subject.pretraining, batch, theirs)


def _in_double(subject: Subject) -> Subject:
    """Returns a copy of the subject that computes in float64."""
    if subject.pretraining is None:
        return replace(subject, bert=deepcopy(subject.bert).double())
    model = deepcopy(subject.pretraining).double()
    return replace(subject, bert=model.bert, pretraining=model)


def _label(subject: Subject, batch: Batch) -> Batch:
    """Labels every third real token, and every row for the next sentence."""
    assert batch.attention_mask is not None
    places = batch.attention_mask.flatten().nonzero().flatten()[::3]
    num_rows = len(batch.input_ids)
    return replace(
        batch,
        mlm_positions=places,
        mlm_labels=torch.tensor(subject.draw_ids(len(places))),
        nsp_labels=torch.arange(num_rows) % 2 if subject.has_nsp_head else None,
    )


def _their_inputs(subject: Subject, batch: Batch) -> dict[str, Any]:
    """Returns the same batch as keyword arguments of transformers."""
    mask = batch.attention_mask
    inputs: dict[str, Any] = {
        "input_ids": batch.input_ids,
        "token_type_ids": batch.token_type_ids,
        "attention_mask": None if mask is None else mask.long(),
        "output_hidden_states": True,
        "output_attentions": True,
    }
    if subject.pretraining is not None and batch.mlm_positions is not None:
        assert batch.mlm_labels is not None
        labels = torch.full_like(batch.input_ids, IGNORE_INDEX)
        labels.view(-1)[batch.mlm_positions] = batch.mlm_labels
        inputs["labels"] = labels
    if batch.nsp_labels is not None:
        inputs["next_sentence_label"] = batch.nsp_labels
    return inputs


def _import() -> ModuleType:
    try:
        return import_module("transformers")
    except ImportError:
        raise NotApplicable(
            Said(
                "transformers is not installed: wrong weights, positions, "
                "segments or activations cannot be told by the other checks.",
                "没有安装 transformers：权重、位置、分段或激活函数的错误，"
                "其他检查看不出来。",
            )
        ) from None


def _load(transformers: ModuleType, subject: Subject) -> Any:
    """Loads the same directory by Hugging Face's own code."""
    options: dict[str, Any] = {
        "attn_implementation": "eager",
        "local_files_only": True,
    }
    if subject.has_nsp_head:
        kind = transformers.BertForPreTraining
    elif subject.pretraining is not None:
        kind = transformers.BertForMaskedLM
    else:
        kind = transformers.BertModel
        options["add_pooling_layer"] = subject.has_pooler
    return kind.from_pretrained(subject.directory, **options).double().eval()


@contextmanager
def _quiet(transformers: ModuleType) -> Iterator[None]:
    """Keeps its progress bars and reports off the terminal."""
    logging = transformers.utils.logging
    level, had_bar = (
        logging.get_verbosity(),
        logging.is_progress_bar_enabled(),
    )
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if had_bar:
            logging.enable_progress_bar()


def _compare_attentions(
    subject: Subject, batch: Batch, theirs: tuple[Tensor, ...]
) -> Measurement:
    differences = [
        difference(given.attention.weights(given.x, given.layout), other)
        for given, other in zip(
            layer_inputs(subject, batch), theirs, strict=True
        )
    ]
    return at_most(
        Said("attention weights, all layers", "注意力权重，所有层"),
        float(torch.tensor(differences).max()),
        AGREEMENT,
    )


def _compare_longest(subject: Subject, peer: Any) -> Measurement:
    """Compares a pair that fills all positions, layer by layer."""
    batch = pad([subject.longest()])
    inputs = _their_inputs(subject, batch)
    theirs = getattr(peer, "bert", peer)(
        **inputs | {"output_attentions": False}
    )
    x, layout = subject.bert.embed(**batch.inputs())
    ours = subject.bert.encoder.hidden_states(x, layout)
    differences = [
        difference(one, other)
        for one, other in zip(ours, theirs.hidden_states, strict=True)
    ]
    return at_most(
        Said(
            f"hidden states of {batch.max_seqlen} tokens, all layers",
            f"{batch.max_seqlen} 个词元的隐状态，所有层",
        ),
        float(torch.tensor(differences).max()),
        AGREEMENT,
    )


def _compare_heads(
    subject: Subject, model: BertForPreTraining, batch: Batch, theirs: Any
) -> Iterator[Measurement]:
    assert batch.attention_mask is not None
    output = model.bert(**batch.inputs())
    places = batch.attention_mask.flatten().nonzero().flatten()
    # 两种模型给打分起的名字不同
    name = "prediction_logits" if subject.has_nsp_head else "logits"
    yield at_most(
        Said("MLM logits", "MLM 打分"),
        difference(
            model.mlm_logits(output.hidden_state, places),
            getattr(theirs, name).flatten(0, 1)[places],
        ),
        AGREEMENT,
    )
    if subject.has_nsp_head:
        yield at_most(
            Said("NSP logits", "NSP 打分"),
            difference(
                model.nsp_head(output.pooled), theirs.seq_relationship_logits
            ),
            AGREEMENT,
        )
    loss = model(batch).loss
    yield at_most(
        Said(f"loss, {float(loss):.4f}", f"损失，{float(loss):.4f}"),
        difference(loss, theirs.loss),
        AGREEMENT,
    )


REFERENCE = Check(
    "transformers",
    Said("Agreement with transformers", "与 transformers 一致"),
    Said(
        "transformers, loading the same directory with its own code, gives the "
        "same hidden states, attention weights and, where the model has them, "
        "pooled vectors, logits and loss (both in float64; labels are drawn "
        "at random, so a loss says nothing of the model).",
        "transformers 用自己的代码读同一目录，得到相同的隐状态、注意力权重，"
        "以及模型所带的句向量、打分和损失（双方都用双精度；标签是随机抽的，损失的"
        "大小与模型好坏无关）。",
    ),
    "max |ours - theirs| / max(1, max |theirs|) <= 1e-10",
    _measure,
)
