"""Every tensor on the way: its module, its shape, its parameters.

Letters: S positions, H width of a hidden state, I width inside the
feed-forward network, V WordPieces.
"""

from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from typing import Any

from torch import Tensor, nn

from bert_from_scratch.analysis.verify.check import (
    Check,
    Measurement,
    Said,
    equal,
)
from bert_from_scratch.analysis.verify.subject import Subject
from bert_from_scratch.config import BertConfig
from bert_from_scratch.data.batch import pad

Row = dict[str, Any]


def _measure(subject: Subject) -> Iterator[Measurement]:
    encoding = subject.encodings[0]
    found = trace(subject)
    expected = expected_rows(subject, len(encoding))
    # 按前向的次序列出；该有而没有、不该有而有的，都算不符
    for name in [*found, *(name for name in expected if name not in found)]:
        yield equal(
            Said.same(name),
            found.get(name, {"shape": None, "parameters": None}),
            expected.get(name, {"shape": None, "parameters": None}),
        )
    yield equal(
        Said("parameters in all, by the formula", "参数总数，与公式比较"),
        sum(parameter.numel() for parameter in _root(subject).parameters()),
        count_parameters(subject),
    )


def trace(subject: Subject) -> dict[str, Row]:
    """Runs the first text through the model and notes every module.

    Returns:
        By module name, in the order of the forward pass: the shape of its
        output and the number of its parameters.
    """
    rows: dict[str, Row] = {}
    root = _root(subject)
    prefix = "" if subject.pretraining is not None else "bert."
    batch = pad(subject.encodings[:1], subject.tokenizer.pad_token_id)
    with ExitStack() as hooks:
        for name, module in root.named_modules():
            if not isinstance(module, nn.ModuleList | nn.Identity):
                note = partial(_note, rows, prefix + name)
                handle = module.register_forward_hook(note)
                hooks.callback(handle.remove)
        output = subject.bert(**batch.inputs())
        model = subject.pretraining
        if model is not None:
            embedding = model.bert.embedding.token.weight
            model.mlm_head(output.hidden_state, embedding)
        if model is not None and subject.has_nsp_head:
            model.nsp_head(output.pooled)
    return rows


def _note(
    rows: dict[str, Row],
    name: str,
    module: nn.Module,
    args: tuple[Any, ...],
    output: Any,
) -> None:
    del args
    if isinstance(output, Tensor):
        count = sum(parameter.numel() for parameter in module.parameters())
        rows[name] = {"shape": list(output.shape), "parameters": count}


def _root(subject: Subject) -> nn.Module:
    return subject.bert if subject.pretraining is None else subject.pretraining


def expected_rows(subject: Subject, length: int) -> dict[str, Row]:
    """Derives from the config what `trace` must find.

    Args:
        subject: Says which heads there are.
        length: Number of tokens, S.
    """
    config = subject.config
    h, v = config.hidden_size, config.vocab_size
    wide = [1, length, h]
    tables = {
        "token": v,
        "segment": config.type_vocab_size,
        "position": config.max_position_embeddings,
    }
    rows = {
        f"bert.embedding.{name}": _row(wide, size * h)
        for name, size in tables.items()
    }
    rows["bert.embedding.norm"] = _row(wide, 2 * h)
    rows["bert.embedding.dropout"] = _row(wide, 0)
    rows["bert.embedding"] = _row(wide, sum(tables.values()) * h + 2 * h)
    for layer in range(config.num_hidden_layers):
        for name, row in _block_rows(config, length).items():
            rows[f"bert.encoder.blocks.{layer}{name}"] = row
    rows["bert.encoder"] = _row(
        wide, config.num_hidden_layers * _block_size(config)
    )
    if subject.has_pooler:
        rows["bert.pooler.dense"] = _row([1, h], _dense(h, h))
        rows["bert.pooler"] = _row([1, h], _dense(h, h))
    if subject.pretraining is not None:
        rows["mlm_head.dense"] = _row(wide, _dense(h, h))
        rows["mlm_head.norm"] = _row(wide, 2 * h)
        # 输出矩阵就是词嵌入，不另计；头自己只多一个词表大小的偏置
        rows["mlm_head"] = _row([1, length, v], _dense(h, h) + 2 * h + v)
    if subject.has_nsp_head:
        rows["nsp_head"] = _row([1, 2], _dense(h, 2))
    return rows


def _block_rows(config: BertConfig, length: int) -> dict[str, Row]:
    """Returns the rows of one block, by name after the block's own."""
    h, i = config.hidden_size, config.intermediate_size
    wide = [1, length, h]
    return {
        ".attention.qkv": _row([1, length, 3 * h], _dense(h, 3 * h)),
        ".attention.output": _row(wide, _dense(h, h)),
        ".attention": _row(wide, _dense(h, 4 * h)),
        ".attention_norm": _row(wide, 2 * h),
        ".feed_forward.expand": _row([1, length, i], _dense(h, i)),
        ".feed_forward.contract": _row(wide, _dense(i, h)),
        ".feed_forward": _row(wide, _dense(h, i) + _dense(i, h)),
        ".output_norm": _row(wide, 2 * h),
        ".dropout": _row(wide, 0),
        "": _row(wide, _block_size(config)),
    }


def _block_size(config: BertConfig) -> int:
    h, i = config.hidden_size, config.intermediate_size
    return 4 * h * h + 2 * h * i + 9 * h + i


def count_parameters(subject: Subject) -> int:
    """Counts a BERT's parameters by a closed formula."""
    config = subject.config
    h, v = config.hidden_size, config.vocab_size
    tables = v + config.max_position_embeddings + config.type_vocab_size
    total = tables * h + 2 * h + config.num_hidden_layers * _block_size(config)
    if subject.has_pooler:
        total += h * h + h
    if subject.pretraining is not None:
        total += h * h + 3 * h + v
    if subject.has_nsp_head:
        total += 2 * h + 2
    return total


def _dense(size_in: int, size_out: int) -> int:
    return size_in * size_out + size_out


def _row(shape: list[int], parameters: int) -> Row:
    return {"shape": shape, "parameters": parameters}


SHAPES = Check(
    "shapes",
    Said("Every shape and parameter count", "每个形状与参数个数"),
    Said(
        "Every module on the way gives the shape and has the number of "
        "parameters that the config asks for: embeddings, encoder layers, "
        "pooler, transform, decoder (each as: shape / parameters).",
        "前向途中每个模块的输出形状与参数个数都如配置所要求：嵌入、各编码层、"
        "池化、变换、解码（每行写作：形状 / 参数个数）。",
    ),
    "(V + P + T) H + 2H + L (4H^2 + 2HI + 9H + I) + pooler (H^2 + H) + MLM "
    "(H^2 + 3H + V) + NSP (2H + 2)",
    _measure,
)
