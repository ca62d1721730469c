"""The code that the lesson shows runs, and gives the matrix it shows."""

from typing import Any

import numpy as np

from bert_from_scratch.learn.attention_by_hand import work_out
from bert_from_scratch.learn.lesson import Code, Matrix
from bert_from_scratch.learn.lessons.attention import attention


def test_the_printed_code_gives_the_printed_matrix() -> None:
    lesson = attention("en")
    (code,) = [block for block in lesson.blocks if isinstance(block, Code)]
    found: dict[str, Any] = {}
    exec(code.text, found)
    assert np.abs(found["Z"] - work_out().output).max() < 1e-12


def test_every_matrix_of_the_document_is_printed() -> None:
    names = [
        block.name
        for block in attention("zh").blocks
        if isinstance(block, Matrix)
    ]
    assert names == [
        *("X", "W_Q", "W_K", "W_V"),
        *("Q = X W_Q", "K = X W_K", "V = X W_V"),
        *("Q Kᵀ", "Q Kᵀ / √3", "A = softmax(Q Kᵀ / √3)", "Z = A V"),
    ]
