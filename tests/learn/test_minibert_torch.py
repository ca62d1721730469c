"""The PyTorch twin scores as the page in NumPy does."""

from dataclasses import replace

import numpy as np

from bert_from_scratch.corpus.builtin import simple_sentences
from bert_from_scratch.learn.minibert_data import Exercise
from bert_from_scratch.learn.minibert_numpy import forward
from bert_from_scratch.learn.minibert_torch import TorchMiniBert


def test_both_routes_score_every_word_the_same() -> None:
    exercise = Exercise(tuple(simple_sentences()), with_positions=True)
    parameters = {
        name: values * 5 for name, values in exercise.first_parameters().items()
    }
    batch = next(replace(exercise, num_epochs=1).epochs())[1]
    ours = forward(parameters, batch).logits
    theirs = TorchMiniBert(parameters).logits(batch)
    assert ours.shape == (70, 89)
    assert np.abs(ours).max() > 0.1
    assert np.abs(ours - theirs).max() < 1e-10
