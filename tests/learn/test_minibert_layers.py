"""Layers in NumPy: known values, and gradients measured by nudging."""

import math
from collections.abc import Callable

import numpy as np
import pytest

from bert_from_scratch.learn import minibert_layers as layers
from bert_from_scratch.learn.minibert_layers import Floats

GENERATOR = np.random.default_rng(0)


def draw(*shape: int) -> Floats:
    return GENERATOR.normal(0, 1, shape)


def measure(f: Callable[[Floats], Floats], x: Floats, d_y: Floats) -> Floats:
    """Returns d(sum of d_y * f(x)) / dx by central differences."""
    measured = np.empty_like(x)
    for index in np.ndindex(x.shape):
        move = np.zeros_like(x)
        move[index] = 1e-6
        change = f(x + move) - f(x - move)
        measured[index] = (change * d_y).sum() / 2e-6
    return measured


def close(left: Floats, right: Floats) -> bool:
    return bool(np.abs(left - right).max() < 1e-8)


def test_gelu_of_one_is_the_normal_distribution_at_one() -> None:
    assert layers.gelu(np.array([1.0]))[0] == pytest.approx(0.8413447460685429)
    assert layers.gelu(np.array([0.0]))[0] == 0


def test_layer_norm_of_one_two_three_is_known() -> None:
    trace = layers.layer_norm(
        np.array([[1.0, 2, 3]]), np.full(3, 2.0), np.full(3, 5.0)
    )
    edge = math.sqrt(1.5)
    assert trace.normal[0] == pytest.approx([-edge, 0, edge])
    assert trace.output[0] == pytest.approx([5 - 2 * edge, 5, 5 + 2 * edge])


def test_softmax_stands_large_scores() -> None:
    assert layers.softmax(np.array([1000.0, 1000.0])) == pytest.approx(
        [0.5] * 2
    )


def test_equal_scores_cost_the_logarithm_of_their_number() -> None:
    loss = layers.cross_entropy(np.full((3, 7), 4.0), np.array([0, 3, 6]))
    assert loss == pytest.approx(math.log(7))


def test_cross_entropy_stands_large_scores() -> None:
    logits = np.array([[1000.0, 0.0]])
    assert layers.cross_entropy(logits, np.array([1])) == pytest.approx(1000)


def test_cross_entropy_gradient_is_p_minus_y_over_the_number_of_rows() -> None:
    logits = np.log(np.array([[0.2, 0.3, 0.5], [0.6, 0.3, 0.1]]))
    gradient = layers.cross_entropy_backward(logits, np.array([0, 2]))
    assert gradient * 2 == pytest.approx(
        np.array([[-0.8, 0.3, 0.5], [0.6, 0.3, -0.9]])
    )


def test_every_use_of_a_word_adds_to_its_gradient() -> None:
    ids = np.array([[2, 0], [2, 2]])
    gradient = layers.embed_backward(np.ones((2, 2, 3)), draw(4, 3), ids)
    assert gradient[:, 0].tolist() == [1, 0, 3, 0]


def test_softmax_gradient_is_as_measured() -> None:
    scores, d_p = draw(2, 4), draw(2, 4)
    ours = layers.softmax_backward(d_p, layers.softmax(scores))
    assert close(ours, measure(layers.softmax, scores, d_p))


def test_gelu_gradient_is_as_measured() -> None:
    x, d_y = draw(3, 4), draw(3, 4)
    assert close(layers.gelu_backward(d_y, x), measure(layers.gelu, x, d_y))


def test_dense_gradients_are_as_measured() -> None:
    x, weight, bias, d_y = draw(2, 3, 4), draw(4, 5), draw(5), draw(2, 3, 5)
    d_x, d_weight, d_bias = layers.dense_backward(d_y, x, weight)
    assert close(d_x, measure(lambda v: layers.dense(v, weight, bias), x, d_y))
    assert close(
        d_weight, measure(lambda v: layers.dense(x, v, bias), weight, d_y)
    )
    assert close(
        d_bias, measure(lambda v: layers.dense(x, weight, v), bias, d_y)
    )


def test_layer_norm_gradients_are_as_measured() -> None:
    x, gain, shift, d_y = draw(2, 3, 5), draw(5), draw(5), draw(2, 3, 5)
    trace = layers.layer_norm(x, gain, shift)
    d_x, d_gain, d_shift = layers.layer_norm_backward(d_y, trace, gain)

    def output(x: Floats, gain: Floats, shift: Floats) -> Floats:
        return layers.layer_norm(x, gain, shift).output

    assert close(d_x, measure(lambda v: output(v, gain, shift), x, d_y))
    assert close(d_gain, measure(lambda v: output(x, v, shift), gain, d_y))
    assert close(d_shift, measure(lambda v: output(x, gain, v), shift, d_y))


def test_attention_gradients_are_as_measured() -> None:
    inputs = [draw(2, 3, 4), draw(4, 4), draw(4, 4), draw(4, 4)]
    d_y = draw(2, 3, 4)
    trace = layers.attend(*inputs)
    ours = layers.attend_backward(d_y, trace, *inputs)
    for number, gradient in enumerate(ours):

        def output(value: Floats, number: int = number) -> Floats:
            changed = [*inputs[:number], value, *inputs[number + 1 :]]
            return layers.attend(*changed).output

        assert close(gradient, measure(output, inputs[number], d_y)), number


def test_attention_rows_sum_to_one() -> None:
    trace = layers.attend(draw(2, 5, 4), draw(4, 4), draw(4, 4), draw(4, 4))
    assert trace.weights.sum(axis=-1) == pytest.approx(np.ones((2, 5)))
