"""The hand-worked example equals the source document's figures."""

import numpy as np
import pytest

from bert_from_scratch.learn.attention_by_hand import (
    ask_the_model,
    work_out,
)


def test_every_matrix_equals_the_documents() -> None:
    found = work_out()
    assert found.query.tolist() == [[1, 0, 2], [-1, 2, 0]]
    assert found.key.tolist() == [[1, 2, 0], [-1, 0, 2]]
    assert found.value.tolist() == [[2, 0, 4], [-2, 4, 0]]
    assert found.scores.tolist() == [[1, 3], [3, 1]]
    assert found.scaled.round(2).tolist() == [[0.58, 1.73], [1.73, 0.58]]
    assert found.weights.round(2).tolist() == [[0.24, 0.76], [0.76, 0.24]]
    assert found.output.round(2).tolist() == [
        [-1.04, 3.04, 0.96],
        [1.04, 0.96, 3.04],
    ]


def test_the_layer_of_bert_says_the_same() -> None:
    found, (weights, output) = work_out(), ask_the_model()
    assert np.abs(weights - found.weights).max() < 1e-12
    assert np.abs(output - found.output).max() < 1e-12


def test_what_is_not_allowed_gets_no_share() -> None:
    found = work_out(allowed=np.array([[True, False], [True, True]]))
    assert found.weights[0].tolist() == [1, 0]
    assert found.output[0].tolist() == found.value[0].tolist()
    assert found.weights[1].sum() == pytest.approx(1)
