"""A fresh head on an encoder that was trained before."""

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from torch import nn

from bert_from_scratch.config import BertConfig
from bert_from_scratch.model.bert import BertModel
from bert_from_scratch.model.directory import StoredModel, find

Model = TypeVar("Model", bound=StoredModel)


def put_on_encoder(
    build: Callable[[BertConfig], Model], model_dir: Path
) -> Model:
    """Builds a model and fills its encoder from a directory.

    `torch.manual_seed` decides the weights of the head, and of a pooler that
    the directory lacks.

    Args:
        build: Makes the whole model of a config.
        model_dir: Any BERT directory; its own head is passed over.
    """
    directory = find(model_dir)
    config = BertConfig.load(directory / "config.json")
    encoder = BertModel.from_pretrained(directory, required_parts=())
    model = build(config)
    target = model.get_submodule("bert")
    assert isinstance(target, BertModel)
    if isinstance(target.pooler, nn.Identity):
        encoder.pooler = nn.Identity()
    target.load_state_dict(encoder.state_dict())
    return model
