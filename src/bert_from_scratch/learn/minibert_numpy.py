"""MiniBert in NumPy: forward, every gradient by hand, and Adam.

    x      = E[ids] + P                      words, and their places
    mixed  = dropout(attend(x))              each word looks at all words
    h      = LayerNorm(x + mixed)            residual, then LayerNorm
    g      = GELU(h W + b)                   at the hidden word only
    logits = g Eᵀ + c                        E again: the weights are tied

The way back reads the same lines from bottom to top. The tutorial's model has
no P; it is a parameter here that may be left out.

Letters: B sentences, S positions, D width of a vector, V words.
"""

from dataclasses import dataclass, field

import numpy as np

from bert_from_scratch.learn.minibert_data import MaskedBatch, Parameters
from bert_from_scratch.learn.minibert_layers import (
    AttentionTrace,
    Floats,
    NormTrace,
    attend,
    attend_backward,
    cross_entropy,
    cross_entropy_backward,
    dense,
    dense_backward,
    embed,
    embed_backward,
    gelu,
    gelu_backward,
    layer_norm,
    layer_norm_backward,
)


@dataclass(frozen=True)
class Trace:
    """What the forward pass leaves behind for the backward pass.

    Attributes:
        x: The embeddings, [B, S, D].
        attention: What attention computed.
        norm: What LayerNorm computed.
        hidden: The vector of the hidden word of each sentence, [B, D].
        before_gelu: The dense layer's output there, [B, D].
        decoded: After GELU, [B, D].
        logits: A score for every word, [B, V].
    """

    x: Floats
    attention: AttentionTrace
    norm: NormTrace
    hidden: Floats
    before_gelu: Floats
    decoded: Floats
    logits: Floats


def forward(p: Parameters, batch: MaskedBatch) -> Trace:
    """Scores every word of the vocabulary at the hidden places."""
    x = embed(p["token"], batch.input_ids)
    if "position" in p:
        x = x + p["position"][: x.shape[1]]
    attention = attend(x, p["query"], p["key"], p["value"])
    mixed = attention.output * batch.dropout_scale
    norm = layer_norm(x + mixed, p["gain"], p["shift"])
    # 只解码被遮住的那个词：其余位置没有标签，算了也不进损失
    hidden = norm.output[np.arange(len(x)), batch.mlm_positions]
    before_gelu = dense(hidden, p["dense"], p["dense_bias"])
    decoded = gelu(before_gelu)
    # 输出权重就是词嵌入的转置：意思相近的词，得分也相近
    logits = dense(decoded, p["token"].T, p["vocabulary_bias"])
    return Trace(x, attention, norm, hidden, before_gelu, decoded, logits)


def backward(p: Parameters, batch: MaskedBatch, t: Trace) -> Parameters:
    """Returns the gradient of the loss by every parameter, same shapes."""
    d_logits = cross_entropy_backward(t.logits, batch.mlm_labels)
    d_decoded, d_output_weight, d_vocabulary_bias = dense_backward(
        d_logits, t.decoded, p["token"].T
    )
    d_before_gelu = gelu_backward(d_decoded, t.before_gelu)
    d_hidden, d_dense, d_dense_bias = dense_backward(
        d_before_gelu, t.hidden, p["dense"]
    )
    # 前向取出一行，反向就把梯度放回那一行，别处为零
    d_norm = np.zeros_like(t.norm.output)
    d_norm[np.arange(len(d_norm)), batch.mlm_positions] = d_hidden
    d_sum, d_gain, d_shift = layer_norm_backward(d_norm, t.norm, p["gain"])
    d_mixed = d_sum * batch.dropout_scale
    d_x, d_query, d_key, d_value = attend_backward(
        d_mixed, t.attention, t.x, p["query"], p["key"], p["value"]
    )
    # 残差是一条直通的路：加法把梯度原样分给两边
    d_x = d_x + d_sum
    gradients = {
        # 词嵌入用了两次（查表、打分），两处的梯度相加
        "token": embed_backward(d_x, p["token"], batch.input_ids)
        + d_output_weight.T,
        "query": d_query,
        "key": d_key,
        "value": d_value,
        "gain": d_gain,
        "shift": d_shift,
        "dense": d_dense,
        "dense_bias": d_dense_bias,
        "vocabulary_bias": d_vocabulary_bias,
    }
    if "position" in p:
        d_position = np.zeros_like(p["position"])
        # 同一位置的向量被每个句子共用，对句子求和
        d_position[: d_x.shape[1]] = d_x.sum(axis=0)
        gradients["position"] = d_position
    return gradients


@dataclass
class Adam:
    """Adam (Kingma and Ba, algorithm 1), with bias correction.

    Attributes:
        learning_rate: The size of a step.
        beta_1: How slowly the mean of the gradients forgets.
        beta_2: How slowly the mean of their squares forgets.
        eps: Keeps the division finite.
        num_steps: Steps taken so far.
        mean: Running mean of the gradients, by name.
        square: Running mean of their squares, by name.
    """

    learning_rate: float = 1e-3
    beta_1: float = 0.9
    beta_2: float = 0.999
    eps: float = 1e-8
    num_steps: int = 0
    mean: Parameters = field(default_factory=dict)
    square: Parameters = field(default_factory=dict)

    def update(self, p: Parameters, gradients: Parameters) -> None:
        """Moves every parameter one step, in place."""
        self.num_steps += 1
        # 两个均值都从零起步，开头偏小；除以这两个数把它们扶正
        fix_1 = 1 - self.beta_1**self.num_steps
        fix_2 = 1 - self.beta_2**self.num_steps
        for name, d in gradients.items():
            m = self.mean.setdefault(name, np.zeros_like(d))
            v = self.square.setdefault(name, np.zeros_like(d))
            m += (1 - self.beta_1) * (d - m)
            v += (1 - self.beta_2) * (d * d - v)
            # 每个参数按自己梯度的大小缩放：步长与梯度的单位无关
            step = (m / fix_1) / (np.sqrt(v / fix_2) + self.eps)
            p[name] -= self.learning_rate * step


class NumpyMiniBert:
    """MiniBert whose every number is ours: no framework, no autograd."""

    def __init__(self, parameters: Parameters) -> None:
        """Starts from these parameters; they are copied."""
        self.parameters = {k: v.copy() for k, v in parameters.items()}
        self.adam = Adam()

    def train_batch(self, batch: MaskedBatch) -> float:
        """Takes one step of Adam; returns the loss before it."""
        trace = forward(self.parameters, batch)
        gradients = backward(self.parameters, batch, trace)
        self.adam.update(self.parameters, gradients)
        return cross_entropy(trace.logits, batch.mlm_labels)

    def logits(self, batch: MaskedBatch) -> Floats:
        """Returns the scores at the hidden places, [B, V]."""
        return forward(self.parameters, batch).logits
