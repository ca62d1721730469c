"""A model directory: `config.json` and weights, as Hugging Face keeps them."""

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Self

import torch
from torch import Tensor, nn

from bert_from_scratch import atomic
from bert_from_scratch.config import BertConfig, read_json
from bert_from_scratch.errors import BertError
from bert_from_scratch.model import names
from bert_from_scratch.model.initialise import initialise
from bert_from_scratch.model.tensor_file import write_tensors
from bert_from_scratch.model.weights import read_weights

logger = logging.getLogger(__name__)


class StoredModel(nn.Module):
    """A model that lives in a BERT directory.

    Attributes:
        config: The shape of the model.
        architecture: Hugging Face's name for the class, kept in config.json.
        optional_parts: Submodules that a checkpoint may lack.
    """

    config: BertConfig
    architecture: ClassVar[str]
    optional_parts: ClassVar[tuple[str, ...]] = ()

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.config = config

    @classmethod
    def from_pretrained(
        cls,
        directory: str | Path,
        required_parts: tuple[str, ...] | None = None,
    ) -> Self:
        """Loads a BERT directory, ours or Hugging Face's.

        Args:
            directory: A model directory or a run directory.
            required_parts: Optional parts that must be there this time;
                None: none must, but a warning names those that are not.

        Returns:
            The model in float32 and in evaluation mode. Optional parts that
            the checkpoint lacks are freshly drawn.
        """
        directory = find(Path(directory))
        config = BertConfig.load(directory / "config.json")
        values = read_json(directory / "config.json")
        # 先在 meta 设备上搭骨架：不为马上要被覆盖的随机初始化付时间
        with torch.device("meta"):
            model = cls.from_config(config, values)
        stored = read_weights(directory)
        theirs = names.tidy(stored)
        expected = _with_their_names(model)
        if "cls.predictions.bias" in expected and names.has_untied_decoder(
            stored
        ):
            logger.warning(
                "%s holds output weights of its own, which are passed over: "
                "BERT's are its token embeddings.",
                directory,
            )
        fresh_parts = _check_tensors(
            model, expected, theirs, directory, required_parts
        )
        known = {k: v for k, v in theirs.items() if k in expected}
        model.load_state_dict(
            {
                name.removeprefix(_prefix(model)): tensor
                for name, tensor in names.from_hugging_face(known).items()
            },
            strict=False,
            assign=True,
        )
        for name in fresh_parts:
            part = model.get_submodule(name)
            part.to_empty(device="cpu")
            initialise(part, config.initializer_range)
        return model.eval()

    @classmethod
    def from_config(cls, config: BertConfig, values: Mapping[str, Any]) -> Self:
        """Builds the model that a `config.json` describes.

        Args:
            config: The shape of the encoder.
            values: The whole file, for what a head keeps there.
        """
        del values
        return cls(config)

    def head_config(self) -> dict[str, Any]:
        """Returns what this model's head keeps in `config.json`."""
        return {}

    def save_pretrained(self, directory: str | Path) -> None:
        """Writes config, weights and a model card, whole or not at all.

        Hugging Face's class of the same name loads the directory as it is.
        Tokenizer files in the directory stay as they are.
        """
        directory = Path(directory)
        with atomic.replace_files(directory) as scratch_dir:
            # metadata 里的 format 是 Hugging Face 读取时要求的标记
            write_tensors(
                scratch_dir / "model.safetensors",
                _tensors_to_write(self),
                metadata={"format": "pt"},
            )
            self.config.save(
                scratch_dir / "config.json",
                self.architecture,
                self.head_config(),
            )
            if not (directory / "README.md").exists():
                atomic.write_text(scratch_dir / "README.md", _model_card(self))


def find(directory: Path) -> Path:
    """Returns the model directory: `directory`, or a run's `model/`.

    Raises:
        BertError: There is no model there.
    """
    # 先看 model/：训练目录自己也有 config.json，写的却是训练设置
    for candidate in (directory / "model", directory):
        if (candidate / "config.json").is_file():
            if (candidate / "metrics.jsonl").exists():
                raise BertError(
                    f"The run {directory} has no final model yet.",
                    hint=f"finish it: bert pretrain --resume {directory}",
                )
            return candidate
    if (directory / "plan.json").is_file():
        raise BertError(
            f"The fine-tuning {directory} has no final model yet.",
            hint=f"finish it: bert finetune resume {directory}",
        )
    if not directory.exists():
        raise BertError(
            f"There is no model directory {directory}.",
            hint="give the path of a local folder with config.json in it",
        )
    raise BertError(
        f"{directory} is not a model directory: it has no config.json."
    )


def _prefix(model: StoredModel) -> str:
    """What our names lack where the encoder is the model itself."""
    return "" if hasattr(model, "bert") else "bert."


def _with_their_names(model: StoredModel, part: str = "") -> dict[str, Tensor]:
    """Returns the tensors of a model, or of a part, by their full names."""
    prefix = _prefix(model)
    return names.to_hugging_face(
        {
            prefix + name: tensor.detach()
            for name, tensor in model.state_dict().items()
            if name.startswith(part)
        }
    )


def _tensors_to_write(model: StoredModel) -> dict[str, Tensor]:
    # 只有编码器时，Hugging Face 的文件里不带 bert. 前缀
    return {
        name.removeprefix(_prefix(model)): tensor.cpu().contiguous()
        for name, tensor in _with_their_names(model).items()
    }


def _check_tensors(
    model: StoredModel,
    expected: Mapping[str, Tensor],
    theirs: Mapping[str, Tensor],
    directory: Path,
    required_parts: tuple[str, ...] | None,
) -> list[str]:
    """Compares names and shapes; returns the optional parts to draw afresh."""
    for name, tensor in expected.items():
        if name in theirs:
            _check_tensor(name, theirs[name], tensor, directory)
    missing = expected.keys() - theirs.keys()
    fresh_parts = []
    for part in model.optional_parts:
        of_part = _with_their_names(model, f"{part}.").keys()
        if of_part <= missing and part not in (required_parts or ()):
            fresh_parts.append(part)
            missing -= of_part
    if missing:
        raise BertError(
            f"{directory} lacks {len(missing)} tensors of a "
            f"{model.architecture}: {_some(missing)}.",
            hint="was it saved from a model of another kind?",
        )
    _report_extra(theirs.keys() - expected.keys(), directory)
    if fresh_parts:
        logger.log(
            logging.WARNING if required_parts is None else logging.INFO,
            "%s has no weights for: %s; freshly initialised, train before use.",
            directory,
            ", ".join(fresh_parts),
        )
    return fresh_parts


def _check_tensor(
    name: str, found: Tensor, expected: Tensor, directory: Path
) -> None:
    if found.shape != expected.shape:
        raise BertError(
            f"Tensor {name} in {directory} has shape {list(found.shape)}, but "
            f"config.json asks for {list(expected.shape)}.",
            hint="config.json and the weights belong to different models",
        )
    if not found.is_floating_point():
        raise BertError(
            f"Tensor {name} in {directory} is of type {found.dtype}, not a "
            "floating-point number.",
            hint="quantised checkpoints cannot be loaded",
        )


def _report_extra(extra: set[str], directory: Path) -> None:
    """Passes over heads of other tasks; refuses unknown encoder tensors."""
    # 编码器内部多出的张量说明结构不同，忽略它会得到错误的数值
    inside = {
        name
        for name in extra
        if name.startswith(("bert.encoder.", "bert.embeddings."))
    }
    if inside:
        raise BertError(
            f"{directory} holds tensors that config.json does not account "
            f"for: {_some(inside)}.",
            hint="it is another architecture, or config.json is another's",
        )
    if extra:
        logger.info("%s: passed over %s.", directory, _some(extra))


def _some(items: set[str], limit: int = 3) -> str:
    listed = ", ".join(sorted(items)[:limit])
    more = len(items) - limit
    return f"{listed} and {more} more" if more > 0 else listed


def _model_card(model: StoredModel) -> str:
    config = model.config
    num_parameters = sum(p.numel() for p in model.parameters())
    return f"""---
library_name: transformers
tags: [bert]
---
# {model.architecture}

A BERT of {config.num_hidden_layers} layers, width {config.hidden_size},
{config.num_attention_heads} heads and {config.vocab_size:,} WordPieces:
{num_parameters:,} parameters. Made with BERT from Scratch.

```python
from transformers import AutoModel
model = AutoModel.from_pretrained("path/of/this/folder")
```
"""
