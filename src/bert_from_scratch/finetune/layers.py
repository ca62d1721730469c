"""Layers that learn slowly, or not at all."""

import re
from dataclasses import replace

from torch import nn

from bert_from_scratch.errors import BertError
from bert_from_scratch.model.attention import MultiHeadSelfAttention
from bert_from_scratch.model.bert import BertModel
from bert_from_scratch.model.directory import StoredModel

_BLOCK = re.compile(r"bert\.encoder\.blocks\.(\d+)\.")


def freeze_layers(model: nn.Module, count: int) -> None:
    """Keeps the embeddings and the first `count` blocks as they are.

    Frozen blocks need no way back: training is faster and takes less memory.
    """
    if count == 0:
        return
    encoder = _encoder(model)
    num_layers = len(encoder.encoder.blocks)
    if not 0 <= count <= num_layers:
        raise BertError(
            f"--freeze-layers must lie in 0 ... {num_layers}, got {count}."
        )
    # 只冻结前几层而放开词向量没有意义：梯度仍要一路传到底
    encoder.embedding.requires_grad_(False)
    for block in encoder.encoder.blocks[:count]:
        block.requires_grad_(False)


def set_attention_dropout(model: nn.Module, probability: float) -> None:
    """Changes the dropout of all attention weights, in place.

    The fast kernels for packed sequences on a GPU have none.
    """
    encoder = _encoder(model)
    if not 0 <= probability < 1:
        raise BertError(
            f"--attention-dropout must lie in [0, 1), got {probability}."
        )
    config = replace(encoder.config, attention_probs_dropout_prob=probability)
    for module in model.modules():
        if isinstance(module, MultiHeadSelfAttention):
            module.dropout_prob = probability
        if isinstance(module, StoredModel):
            # 写进 config.json：模型卡上的数字与训练时一致
            module.config = config


def rate_scales(model: nn.Module, decay: float) -> dict[str, float]:
    """Returns a learning-rate scale a parameter, smaller the deeper it lies.

    The head learns at the full rate, the last block at `decay` times it, the
    one before at `decay` squared, and so on down to the embeddings.
    """
    if not 0 < decay <= 1:
        raise BertError(f"--layer-decay must lie in (0, 1], got {decay}.")
    if decay == 1:
        return {}
    num_layers = len(_encoder(model).encoder.blocks)
    scales = {}
    for name, _ in model.named_parameters():
        block = _BLOCK.match(name)
        if block:
            scales[name] = decay ** (num_layers - int(block[1]))
        elif name.startswith("bert.embedding."):
            scales[name] = decay ** (num_layers + 1)
    return scales


def _encoder(model: nn.Module) -> BertModel:
    encoder = getattr(model, "bert", None)
    if not isinstance(encoder, BertModel):
        raise BertError(
            "This model has no BERT inside: --freeze-layers, --layer-decay "
            "and --attention-dropout have no meaning here."
        )
    return encoder
