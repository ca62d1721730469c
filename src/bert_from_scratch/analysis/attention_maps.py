"""Attention of one layer as it is kept: exact, or in 8 bits.

A base model over 512 tokens has 38 million weights, 151 MB in float32. Short
texts keep them all. Of a long text one layer stays exact, as the queries and
keys that its weights are computed from; the others are rounded to 8 bits.

Letters: N heads, S tokens, D width of a head.
"""

import base64
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

MAX_EXACT_TOKENS = 128
COARSEST_STEP = 1 / 255
# 全部粗略图压缩后的目标大小；再加 base64 与精确层，整页仍小于 15 MB
COARSE_BYTES = 6_000_000

Floats = NDArray[np.float32]


@dataclass(frozen=True)
class ExactMap:
    """The weights of one layer in float32.

    Attributes:
        weights: Attention probabilities, float32 [N, S, S].
        queries: What they are computed from, float32 [N, S, D].
        keys: Likewise.
    """

    is_exact: ClassVar[bool] = True

    weights: Floats
    queries: Floats
    keys: Floats

    def pack(self) -> dict[str, Any]:
        """Returns the smaller of the two exact forms, ready for JSON."""
        if self.weights.size <= self.queries.size + self.keys.size:
            return {"form": "weights", "data": _encode(self.weights)}
        # 长文本存 Q 和 K 更小：页面用同一公式算回概率，仍是 float32 精度
        both = np.stack([self.queries, self.keys])
        return {
            "form": "queries_keys",
            "width": self.queries.shape[-1],
            "data": _encode(both),
        }


@dataclass(frozen=True)
class CoarseMap:
    """The weights of one layer, rounded to 8 bits.

    Attributes:
        levels: Multiples of a head's step, uint8 [N, S, S].
        steps: One a head, float32 [N], at most 1/255: no weight is off by
            more than half of it.
    """

    is_exact: ClassVar[bool] = False

    levels: NDArray[np.uint8]
    steps: Floats

    @property
    def weights(self) -> Floats:
        """The rounded probabilities, float32 [N, S, S]."""
        return self.levels * self.steps[:, None, None]

    def pack(self) -> dict[str, Any]:
        """Returns levels and steps, ready for JSON."""
        return {
            "form": "levels",
            "steps": [float(step) for step in self.steps],
            "data": _encode(self.levels),
        }


AttentionMap = ExactMap | CoarseMap


def round_to_levels(weights: Floats, max_bits: float) -> CoarseMap:
    """Rounds the weights of one layer to 8 bits, as finely as room allows.

    Args:
        weights: Attention probabilities, float32 [N, S, S].
        max_bits: Entropy a weight may have before a coarser step is taken;
            1/255 is taken whatever it costs.
    """
    rounded = [_round_head(head, max_bits) for head in weights]
    levels = np.stack([levels for levels, _ in rounded])
    return CoarseMap(levels, np.array([s for _, s in rounded], np.float32))


def bits_for(num_weights: int) -> float:
    """Returns how many bits each of so many rounded weights may take."""
    return 8 * COARSE_BYTES / max(num_weights, 1)


def unpack(packed: Mapping[str, Any], num_heads: int) -> Floats:
    """Computes the weights of a packed map, as the page does.

    Args:
        packed: What `pack` returned.
        num_heads: N.

    Returns:
        Attention probabilities, float32 [N, S, S].
    """
    data = zlib.decompress(base64.b64decode(packed["data"]))
    if packed["form"] == "levels":
        levels = _to_heads(np.frombuffer(data, np.uint8), num_heads)
        return CoarseMap(levels, np.array(packed["steps"], np.float32)).weights
    values = np.frombuffer(data, "<f4")
    if packed["form"] == "weights":
        return _to_heads(values, num_heads)
    queries, keys = values.reshape(2, num_heads, -1, packed["width"])
    scores = queries @ keys.swapaxes(1, 2) / np.sqrt(packed["width"])
    powers = np.exp(scores - scores.max(-1, keepdims=True))
    return (powers / powers.sum(-1, keepdims=True)).astype(np.float32)


def _round_head(
    head: Floats, max_bits: float
) -> tuple[NDArray[np.uint8], float]:
    """Chooses the finest step: 255 of them reach the largest weight."""
    step = float(head.max()) / 255
    while True:
        step = min(step, COARSEST_STEP)
        levels = np.rint(head / np.float32(step)).clip(0, 255).astype(np.uint8)
        # 越分散的头，数值越小、步长可以越细；放不下时才加粗
        if step == COARSEST_STEP or _entropy(levels) <= max_bits:
            return levels, step
        step *= 2


def _entropy(levels: NDArray[np.uint8]) -> float:
    """Returns the bits a level takes, if each is coded by its frequency."""
    counts = np.bincount(levels.ravel(), minlength=256)
    shares = counts[counts > 0] / levels.size
    return float(-(shares * np.log2(shares)).sum())


def _to_heads(values: NDArray[Any], num_heads: int) -> NDArray[Any]:
    length = round((values.size / num_heads) ** 0.5)
    return values.reshape(num_heads, length, length)


def _encode(values: NDArray[Any]) -> str:
    """Compresses an array, little-endian, and writes it as base64."""
    little = values.astype(values.dtype.newbyteorder("<"), copy=False)
    return base64.b64encode(zlib.compress(little.tobytes(), 6)).decode()
