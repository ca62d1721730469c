"""The layers of MiniBert in NumPy, each with its gradient right below it.

`d_y` is short for dL/dy, the gradient of the loss by `y`, and has the shape of
`y`. A function `f_backward` takes the gradient of what `f` returned and gives
back the gradients of what `f` was given.

Letters: B sentences, S positions, D width of a vector, V words.
"""

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.special import erf

Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]

LAYER_NORM_EPS = 1e-12


def embed(table: Floats, ids: Ints) -> Floats:
    """Looks up rows: table [V, D], ids [...], result [..., D]."""
    return table[ids]


def embed_backward(d_y: Floats, table: Floats, ids: Ints) -> Floats:
    """Returns d_table [V, D]: every use of a row adds to its gradient."""
    d_table = np.zeros_like(table)
    # 同一个词在批里出现多次：梯度要累加，普通赋值只会留下最后一次
    np.add.at(d_table, ids, d_y)
    return d_table


def multiply(x: Floats, weight: Floats) -> Floats:
    """Computes x W for every vector of x: x [..., D], weight [D, K]."""
    # 先摊平成一个大矩阵：一次大乘法比逐句的小乘法快几倍
    rows = x.reshape(-1, x.shape[-1]) @ weight
    return rows.reshape(*x.shape[:-1], -1)


def multiply_backward(
    d_y: Floats, x: Floats, weight: Floats
) -> tuple[Floats, Floats]:
    """Returns d_x = d_y Wᵀ and d_weight = xᵀ d_y."""
    # 同一个权重用在每个位置上，所以对所有位置求和，乘法里已含求和
    rows, d_rows = x.reshape(-1, x.shape[-1]), d_y.reshape(-1, d_y.shape[-1])
    return multiply(d_y, weight.T), rows.T @ d_rows


def dense(x: Floats, weight: Floats, bias: Floats) -> Floats:
    """Computes x W + b: x [..., D], weight [D, K], bias [K]."""
    return multiply(x, weight) + bias


def dense_backward(
    d_y: Floats, x: Floats, weight: Floats
) -> tuple[Floats, Floats, Floats]:
    """Returns d_x, d_weight and d_bias = Σ d_y."""
    d_x, d_weight = multiply_backward(d_y, x, weight)
    return d_x, d_weight, d_y.reshape(-1, d_y.shape[-1]).sum(axis=0)


def softmax(scores: Floats) -> Floats:
    """Turns scores [..., N] into probabilities that sum to 1."""
    # 先减去最大值：结果不变，指数却不会溢出
    powers = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)


def softmax_backward(d_p: Floats, p: Floats) -> Floats:
    """Returns d_scores = p (d_p - Σ p d_p), for p = softmax(scores)."""
    # 概率之和恒为 1：一个升高，其余必降，所以减去加权平均
    return p * (d_p - (p * d_p).sum(axis=-1, keepdims=True))


@dataclass(frozen=True)
class AttentionTrace:
    """What attention computed on the way; its gradient needs all of it.

    Attributes:
        query: What each token looks for, [B, S, D].
        key: What each token offers to be found by, [B, S, D].
        value: What each token says, [B, S, D].
        weights: How much token i looks at token j, [B, S, S].
        output: The values, mixed by the weights, [B, S, D].
    """

    query: Floats
    key: Floats
    value: Floats
    weights: Floats
    output: Floats


def attend(
    x: Floats, w_query: Floats, w_key: Floats, w_value: Floats
) -> AttentionTrace:
    """Computes softmax(Q Kᵀ / √D) V: x [B, S, D], each weight [D, D]."""
    query, key, value = (multiply(x, w) for w in (w_query, w_key, w_value))
    # 除以 √D：宽度越大点积越大，不除则 softmax 饱和，梯度消失
    scores = query @ key.swapaxes(-1, -2) / np.sqrt(query.shape[-1])
    weights = softmax(scores)
    return AttentionTrace(query, key, value, weights, weights @ value)


def attend_backward(
    d_output: Floats,
    trace: AttentionTrace,
    x: Floats,
    w_query: Floats,
    w_key: Floats,
    w_value: Floats,
) -> tuple[Floats, Floats, Floats, Floats]:
    """Returns d_x, d_w_query, d_w_key and d_w_value."""
    # output = weights V：对一个因子求导，就乘上另一个的转置
    d_weights = d_output @ trace.value.swapaxes(-1, -2)
    d_value = trace.weights.swapaxes(-1, -2) @ d_output
    d_scores = softmax_backward(d_weights, trace.weights)
    d_scores = d_scores / np.sqrt(trace.query.shape[-1])
    d_query = d_scores @ trace.key
    d_key = d_scores.swapaxes(-1, -2) @ trace.query
    d_x_query, d_w_query = multiply_backward(d_query, x, w_query)
    d_x_key, d_w_key = multiply_backward(d_key, x, w_key)
    d_x_value, d_w_value = multiply_backward(d_value, x, w_value)
    # x 同时走 Q、K、V 三条路，三条路的梯度相加
    return d_x_query + d_x_key + d_x_value, d_w_query, d_w_key, d_w_value


@dataclass(frozen=True)
class NormTrace:
    """What LayerNorm computed on the way.

    Attributes:
        normal: x with mean 0 and variance 1 in every vector, [..., D].
        deviation: The standard deviation it was divided by, [..., 1].
        output: normal * gain + shift, [..., D].
    """

    normal: Floats
    deviation: Floats
    output: Floats


def layer_norm(x: Floats, gain: Floats, shift: Floats) -> NormTrace:
    """Normalises every vector by itself: x [..., D], gain and shift [D]."""
    variance = x.var(axis=-1, keepdims=True)
    deviation = np.sqrt(variance + LAYER_NORM_EPS)
    normal = (x - x.mean(axis=-1, keepdims=True)) / deviation
    return NormTrace(normal, deviation, normal * gain + shift)


def layer_norm_backward(
    d_output: Floats, trace: NormTrace, gain: Floats
) -> tuple[Floats, Floats, Floats]:
    """Returns d_x, d_gain and d_shift."""
    d_normal = d_output * gain
    # 均值与方差也依赖 x：减去的两项，正是沿“整体平移”与“整体缩放”
    # 两个方向的分量；这两个方向上怎么动，输出都不变
    along_mean = d_normal.mean(axis=-1, keepdims=True)
    along_scale = (d_normal * trace.normal).mean(axis=-1, keepdims=True)
    d_x = d_normal - along_mean - trace.normal * along_scale
    width = len(gain)
    d_gain = (d_output * trace.normal).reshape(-1, width).sum(axis=0)
    return (
        d_x / trace.deviation,
        d_gain,
        d_output.reshape(-1, width).sum(axis=0),
    )


def gelu(x: Floats) -> Floats:
    """Computes x Φ(x), with Φ the normal distribution function."""
    return x * _normal_distribution(x)


def gelu_backward(d_y: Floats, x: Floats) -> Floats:
    """Returns d_x = d_y (Φ(x) + x φ(x)), with φ = Φ' the bell curve."""
    bell = np.exp(-x * x / 2) / np.sqrt(2 * np.pi)
    return d_y * (_normal_distribution(x) + x * bell)


def _normal_distribution(x: Floats) -> Floats:
    return 0.5 * (1 + erf(x / np.sqrt(2)))


def cross_entropy(logits: Floats, labels: Ints) -> float:
    """Computes the mean of -log p(label): logits [B, V], labels [B]."""
    highest = logits.max(axis=-1)
    # log Σ exp 也先减最大值；损失只看正确答案那一列
    total = np.log(np.exp(logits - highest[:, None]).sum(axis=-1)) + highest
    right = logits[np.arange(len(labels)), labels]
    return float((total - right).mean())


def cross_entropy_backward(logits: Floats, labels: Ints) -> Floats:
    """Returns d_logits = (p - y) / B, with y one-hot, [B, V]."""
    d_logits = softmax(logits)
    # softmax 与对数合在一起，梯度只剩“预测减答案”
    d_logits[np.arange(len(labels)), labels] -= 1
    return d_logits / len(labels)
