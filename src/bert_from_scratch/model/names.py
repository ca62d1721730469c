"""What our tensors are called, and what Hugging Face calls them.

The two differ in names, and in one thing more: our query, key and value lie in
one matrix, theirs in three.
"""

import re
from collections.abc import Mapping

import torch
from torch import Tensor

# 左：本项目的名字；右：Hugging Face 磁盘上的名字
_NAMES = (
    ("bert.embedding.token", "bert.embeddings.word_embeddings"),
    ("bert.embedding.segment", "bert.embeddings.token_type_embeddings"),
    ("bert.embedding.position", "bert.embeddings.position_embeddings"),
    ("bert.embedding.norm", "bert.embeddings.LayerNorm"),
    ("bert.pooler.dense", "bert.pooler.dense"),
    ("mlm_head.dense", "cls.predictions.transform.dense"),
    ("mlm_head.norm", "cls.predictions.transform.LayerNorm"),
    ("mlm_head", "cls.predictions"),
    ("nsp_head", "cls.seq_relationship"),
)
_BLOCK_NAMES = (
    ("attention.output", "attention.output.dense"),
    ("attention_norm", "attention.output.LayerNorm"),
    ("feed_forward.expand", "intermediate.dense"),
    ("feed_forward.contract", "output.dense"),
    ("output_norm", "output.LayerNorm"),
)
_OUR_BLOCK = re.compile(r"bert\.encoder\.blocks\.(\d+)\.(.+)\.(weight|bias)")
_THEIR_BLOCK = re.compile(r"bert\.encoder\.layer\.(\d+)\.(.+)\.(weight|bias)")
_PROJECTIONS = ("query", "key", "value")


def to_hugging_face(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Renames our tensors (under `bert.` and the heads) to theirs."""
    renamed = {}
    for name, tensor in tensors.items():
        block = _OUR_BLOCK.fullmatch(name)
        if block and block[2] == "attention.qkv":
            # 融合的 QKV 按行拆成三份，与三个独立矩阵逐位相同
            for kind, part in zip(_PROJECTIONS, tensor.chunk(3), strict=True):
                renamed[_their_projection(block[1], kind, block[3])] = part
        elif block:
            inner = _swap(block[2], dict(_BLOCK_NAMES))
            theirs = f"bert.encoder.layer.{block[1]}.{inner}.{block[3]}"
            renamed[theirs] = tensor
        else:
            renamed[_swap_stem(name, dict(_NAMES))] = tensor
    return renamed


def from_hugging_face(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Renames their tensors, by their full names, to ours."""
    renamed: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        block = _THEIR_BLOCK.fullmatch(name)
        if block and block[2].startswith("attention.self."):
            # 三个投影合成一个矩阵：行的次序必须是 Q、K、V
            names = [
                _their_projection(block[1], kind, block[3])
                for kind in _PROJECTIONS
            ]
            ours = f"bert.encoder.blocks.{block[1]}.attention.qkv.{block[3]}"
            if ours not in renamed:
                renamed[ours] = torch.cat([tensors[name] for name in names])
        elif block:
            inner = _swap(block[2], {b: a for a, b in _BLOCK_NAMES})
            ours = f"bert.encoder.blocks.{block[1]}.{inner}.{block[3]}"
            renamed[ours] = tensor
        else:
            renamed[_swap_stem(name, {b: a for a, b in _NAMES})] = tensor
    return renamed


def tidy(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Brings their old and shortened names to today's full ones.

    Tensors that follow from others (tied output weights, position numbers)
    are left out.
    """
    tidy = {}
    for name, tensor in tensors.items():
        # 早期检查点用 gamma/beta 命名 LayerNorm 的两个参数
        name = re.sub(r"LayerNorm\.gamma$", "LayerNorm.weight", name)
        name = re.sub(r"LayerNorm\.beta$", "LayerNorm.bias", name)
        if name.split(".")[0] in ("embeddings", "encoder", "pooler"):
            name = f"bert.{name}"
        if name in _DERIVED:
            continue
        tidy[name] = tensor
    if "cls.predictions.bias" not in tidy:
        bias = tensors.get("cls.predictions.decoder.bias")
        if bias is not None:
            tidy["cls.predictions.bias"] = bias
    return tidy


def has_untied_decoder(tensors: Mapping[str, Tensor]) -> bool:
    """Whether output weights are stored that are not the embeddings."""
    decoder = tensors.get("cls.predictions.decoder.weight")
    embeddings = tidy(tensors).get("bert.embeddings.word_embeddings.weight")
    if decoder is None or embeddings is None:
        return False
    return not torch.equal(decoder, embeddings)


# 这些张量可由别的张量推出（共享的输出权重、位置编号），不再单独读取
_DERIVED = {
    "bert.embeddings.position_ids",
    "cls.predictions.decoder.weight",
    "cls.predictions.decoder.bias",
}


def _their_projection(layer: str, projection: str, kind: str) -> str:
    return f"bert.encoder.layer.{layer}.attention.self.{projection}.{kind}"


def _swap(name: str, table: Mapping[str, str]) -> str:
    return table.get(name, name)


def _swap_stem(name: str, table: Mapping[str, str]) -> str:
    """Replaces all but the last part of a dotted name."""
    stem, _, last = name.rpartition(".")
    return f"{_swap(stem, table)}.{last}" if stem else name
