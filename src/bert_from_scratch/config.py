"""BertConfig: the numbers that define a BERT, under BERT's own names."""

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from difflib import get_close_matches
from pathlib import Path
from types import UnionType
from typing import Any, Literal, Self, get_args, get_origin, get_type_hints

from bert_from_scratch import atomic
from bert_from_scratch.errors import BertError

ACTIVATIONS = ("gelu", "gelu_new", "gelu_pytorch_tanh", "gelu_fast", "relu")


@dataclass(frozen=True)
class BertConfig:
    """The shape of one BERT; the defaults are BERT-base, uncased.

    Attributes:
        vocab_size: Number of WordPieces, V.
        hidden_size: Width of every hidden state, H.
        num_hidden_layers: Number of Transformer blocks, L.
        num_attention_heads: Heads a block; must divide `hidden_size`.
        intermediate_size: Width inside the feed-forward network.
        hidden_act: "gelu" is the exact form by erf, as in Hugging Face;
            "gelu_new", "gelu_pytorch_tanh" and "gelu_fast" are the tanh
            form, as in Google's code; "relu" serves comparisons.
        hidden_dropout_prob: Dropout on embeddings and block outputs.
        attention_probs_dropout_prob: Dropout on attention weights.
        max_position_embeddings: Longest sequence that has positions.
        type_vocab_size: Number of segments.
        initializer_range: Standard deviation of the initial weights.
        layer_norm_eps: Added to the variance inside LayerNorm.
        pad_token_id: Embedding row that gets no gradient, or None.
    """

    vocab_size: int = 30522
    hidden_size: int = 768
    num_hidden_layers: int = 12
    num_attention_heads: int = 12
    intermediate_size: int = 3072
    hidden_act: str = "gelu"
    hidden_dropout_prob: float = 0.1
    attention_probs_dropout_prob: float = 0.1
    max_position_embeddings: int = 512
    type_vocab_size: int = 2
    initializer_range: float = 0.02
    layer_norm_eps: float = 1e-12
    pad_token_id: int | None = 0

    def __post_init__(self) -> None:
        _check_types(self)
        for name in _SIZES:
            if getattr(self, name) < 1:
                raise BertError(
                    f"{name} must be at least 1, got {getattr(self, name)}."
                )
        if self.hidden_size % self.num_attention_heads:
            raise BertError(
                f"hidden_size={self.hidden_size} does not divide into "
                f"num_attention_heads={self.num_attention_heads} equal heads.",
                hint="make hidden_size a multiple of num_attention_heads",
            )
        if self.hidden_act not in ACTIVATIONS:
            raise BertError(
                f"Unknown hidden_act={self.hidden_act!r}.",
                hint=f"use one of {', '.join(ACTIVATIONS)}",
            )
        for name in ("hidden_dropout_prob", "attention_probs_dropout_prob"):
            if not 0 <= getattr(self, name) < 1:
                raise BertError(
                    f"{name} must lie in [0, 1), got {getattr(self, name)}."
                )
        for name in ("initializer_range", "layer_norm_eps"):
            if not 0 < getattr(self, name) < math.inf:
                raise BertError(
                    f"{name} must be positive and finite, got "
                    f"{getattr(self, name)}."
                )
        pad = self.pad_token_id
        if pad is not None and not 0 <= pad < self.vocab_size:
            raise BertError(
                f"pad_token_id={pad} lies outside the vocabulary of "
                f"{self.vocab_size}."
            )

    @property
    def head_size(self) -> int:
        """Width of one attention head."""
        return self.hidden_size // self.num_attention_heads

    @classmethod
    def preset(cls, name: str, **overrides: Any) -> Self:
        """Returns one of Google's sizes, tiny to large.

        Args:
            name: A key of `PRESETS`.
            **overrides: Fields to set otherwise, such as `vocab_size`.
        """
        if name not in PRESETS:
            raise BertError(
                f"Unknown preset {name!r}.",
                hint=f"use one of {', '.join(PRESETS)}",
            )
        layers, hidden, heads = PRESETS[name]
        sizes = {
            "num_hidden_layers": layers,
            "hidden_size": hidden,
            "num_attention_heads": heads,
            "intermediate_size": 4 * hidden,
        }
        return cls.from_dict({**sizes, **overrides})

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """Builds a config; a key that BERT does not have is an error."""
        known = {field.name for field in fields(cls)}
        for key in values:
            if key not in known:
                close = get_close_matches(key, known, n=1)
                raise BertError(
                    f"Unknown key {key!r} in the model config.",
                    hint=f"did you mean {close[0]}?" if close else None,
                )
        return cls(**values)

    @classmethod
    def from_hugging_face(cls, values: Mapping[str, Any]) -> Self:
        """Reads a Hugging Face BERT config; refuses what is not plain BERT.

        Keys that do not change the computation are passed over.
        """
        _refuse_other_models(values)
        known = {field.name for field in fields(cls)}
        return cls(**{k: v for k, v in values.items() if k in known})

    def to_hugging_face(self, architecture: str) -> dict[str, Any]:
        """Returns the contents of a Hugging Face `config.json`."""
        return {
            "architectures": [architecture],
            "model_type": "bert",
            **asdict(self),
            "position_embedding_type": "absolute",
            "tie_word_embeddings": True,
            "dtype": "float32",
        }

    @classmethod
    def load(cls, path: Path) -> Self:
        """Reads a config file: our keys alone, or a Hugging Face one."""
        values = read_json(path)
        if "model_type" in values or "architectures" in values:
            return cls.from_hugging_face(values)
        return cls.from_dict(values)

    def save(
        self,
        path: Path,
        architecture: str,
        more: Mapping[str, Any] | None = None,
    ) -> None:
        """Writes `config.json` as Hugging Face reads it.

        Args:
            path: Where it goes.
            architecture: Hugging Face's name of the class.
            more: What a head adds, such as `id2label`.
        """
        values = {**self.to_hugging_face(architecture), **(more or {})}
        atomic.write_json(path, values)


# 层数、宽度、头数：论文的 base 与 large，以及 Google 后来公开的小模型
PRESETS: dict[str, tuple[int, int, int]] = {
    "tiny": (2, 128, 2),
    "mini": (4, 256, 4),
    "small": (4, 512, 8),
    "medium": (8, 512, 8),
    "base": (12, 768, 12),
    "large": (24, 1024, 16),
}

_SIZES = (
    "vocab_size",
    "hidden_size",
    "num_hidden_layers",
    "num_attention_heads",
    "intermediate_size",
    "max_position_embeddings",
    "type_vocab_size",
)


def read_json(path: Path) -> dict[str, Any]:
    """Reads a JSON object, or says which file is not one."""
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise BertError(f"There is no file {path}.") from None
    except (OSError, ValueError, RecursionError) as error:
        raise BertError(f"{path} cannot be read as JSON: {error}.") from error
    if not isinstance(values, dict):
        raise BertError(f"{path} must hold a JSON object.")
    return values


def check_types(values: Any) -> None:
    """Refuses a dataclass whose fields do not hold what they say.

    Raises:
        TypeError: The first that does not.
    """
    for name, kind in get_type_hints(type(values)).items():
        value = getattr(values, name)
        if not _fits(value, kind):
            type_name = kind.__name__ if isinstance(kind, type) else kind
            raise TypeError(
                f"{name} must be of type {type_name}, got {value!r}"
            )


def _fits(value: Any, kind: Any) -> bool:
    arms = get_args(kind)
    if get_origin(kind) is UnionType:
        return any(_fits(value, arm) for arm in arms)
    if get_origin(kind) is Literal:
        return value in arms
    if isinstance(value, bool):
        # Python 里 True 也是整数
        return kind is bool
    allowed = (int, float) if kind is float else get_origin(kind) or kind
    return isinstance(value, allowed)


def _check_types(config: BertConfig) -> None:
    try:
        check_types(config)
    except TypeError as error:
        raise BertError(f"{error}.") from error


def _refuse_other_models(values: Mapping[str, Any]) -> None:
    """Raises for a config whose model computes something else than BERT."""
    model_type = values.get("model_type", "bert")
    if model_type != "bert":
        raise BertError(
            f"This is a model of type {model_type!r}, not a BERT.",
            hint='only directories with "model_type": "bert" can be loaded',
        )
    # 这些开关会改变计算本身，忽略它们就会得到错误的数值
    plain = {
        "is_decoder": False,
        "add_cross_attention": False,
        "position_embedding_type": "absolute",
        "tie_word_embeddings": True,
    }
    for key, expected in plain.items():
        if values.get(key, expected) != expected:
            raise BertError(
                f"This BERT has {key}={values[key]!r}; only "
                f"{key}={expected!r} is supported."
            )
