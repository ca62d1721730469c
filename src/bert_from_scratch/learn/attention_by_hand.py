"""Self-attention for two words and three numbers each, worked by hand.

Letters: S words, D numbers a word.
"""

from dataclasses import dataclass

import numpy as np
import torch

from bert_from_scratch.config import BertConfig
from bert_from_scratch.learn.minibert_layers import Floats, softmax
from bert_from_scratch.model.attention import MultiHeadSelfAttention
from bert_from_scratch.model.layout import Padded

WORDS = ("one", "cat")
X = np.array([[1.0, 0, 2], [-1, 2, 0]])
W_QUERY = np.eye(3)
W_KEY = np.array([[1.0, 0, 0], [0, 0, 1], [0, 1, 0]])
W_VALUE = 2 * np.eye(3)


@dataclass(frozen=True)
class HandAttention:
    """Every matrix on the way from words to words.

    Attributes:
        query: Q = X W_Q, [S, D].
        key: K = X W_K, [S, D].
        value: V = X W_V, [S, D].
        scores: Q Kᵀ, [S, S].
        scaled: The scores divided by √D, [S, S].
        weights: A, the softmax of every row, [S, S].
        output: Z = A V, [S, D].
    """

    query: Floats
    key: Floats
    value: Floats
    scores: Floats
    scaled: Floats
    weights: Floats
    output: Floats


def work_out(
    x: Floats = X,
    w_query: Floats = W_QUERY,
    w_key: Floats = W_KEY,
    w_value: Floats = W_VALUE,
    allowed: np.typing.NDArray[np.bool_] | None = None,
) -> HandAttention:
    """Computes self-attention one matrix after the other.

    Args:
        x: One vector a word, [S, D].
        w_query: [D, D].
        w_key: [D, D].
        w_value: [D, D].
        allowed: Which words row i may look at, bool [S, S]; None: all.
    """
    query, key, value = x @ w_query, x @ w_key, x @ w_value
    scores = query @ key.T
    scaled = scores / np.sqrt(x.shape[-1])
    # 不许看的位置记作负无穷：指数之后恰好是零，其余的和仍为一
    seen = scaled if allowed is None else np.where(allowed, scaled, -np.inf)
    weights = softmax(seen)
    return HandAttention(
        query, key, value, scores, scaled, weights, weights @ value
    )


def ask_the_model() -> tuple[Floats, Floats]:
    """Computes A [S, S] and Z [S, D] by the layer that BERT itself uses."""
    config = BertConfig(
        hidden_size=X.shape[-1],
        num_attention_heads=1,
        attention_probs_dropout_prob=0.0,
    )
    layer = MultiHeadSelfAttention(config).double().eval()
    with torch.no_grad():
        # 线性层存的是转置；三个矩阵在模型里上下叠成一个
        stacked = np.concatenate([W_QUERY.T, W_KEY.T, W_VALUE.T])
        layer.qkv.weight.copy_(torch.from_numpy(stacked))
        layer.output.weight.copy_(torch.eye(X.shape[-1]))
        layer.qkv.bias.zero_()
        layer.output.bias.zero_()
        x = torch.from_numpy(X)[None]
        weights = layer.weights(x, Padded())[0, 0].numpy()
        return weights, layer(x, Padded())[0].numpy()
