"""MiniBert by hand: its gradients, its Adam and its losses are PyTorch's."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from bert_from_scratch.corpus.builtin import simple_sentences
from bert_from_scratch.learn.minibert_data import Exercise, Parameters
from bert_from_scratch.learn.minibert_layers import cross_entropy
from bert_from_scratch.learn.minibert_numpy import (
    Adam,
    NumpyMiniBert,
    backward,
    forward,
)
from bert_from_scratch.learn.minibert_torch import TorchMiniBert

EXERCISE = Exercise(tuple(simple_sentences()), num_epochs=3)


def large_parameters(exercise: Exercise) -> Parameters:
    """Weights that make every gradient large enough to be compared."""
    generator = np.random.default_rng(1)
    return {
        name: values + generator.normal(0, 0.3, values.shape)
        for name, values in exercise.first_parameters().items()
    }


@pytest.mark.parametrize("with_positions", [False, True])
@pytest.mark.parametrize("number", [0, 1])
def test_every_gradient_equals_autograds(
    with_positions: bool, number: int
) -> None:
    exercise = replace(EXERCISE, with_positions=with_positions)
    parameters = large_parameters(exercise)
    batch = next(exercise.epochs())[number]
    ours = backward(parameters, batch, forward(parameters, batch))
    theirs = TorchMiniBert(parameters).gradients(batch)
    assert ours.keys() == theirs.keys() == parameters.keys()
    for name, gradient in theirs.items():
        assert np.abs(gradient).max() > 1e-4, name
        assert np.abs(ours[name] - gradient).max() < 1e-10, name


def test_the_token_gradient_is_as_measured_without_any_autograd() -> None:
    exercise = replace(EXERCISE, width=8)
    parameters = large_parameters(exercise)
    batch = next(exercise.epochs())[0]
    ours = backward(parameters, batch, forward(parameters, batch))["token"]
    for index in [(0, 0), (40, 3), (84, 7), (88, 5)]:
        losses = []
        for move in (1e-6, -1e-6):
            moved = {k: v.copy() for k, v in parameters.items()}
            moved["token"][index] += move
            logits = forward(moved, batch).logits
            losses.append(cross_entropy(logits, batch.mlm_labels))
        measured = (losses[0] - losses[1]) / 2e-6
        assert ours[index] == pytest.approx(measured, abs=1e-8)


def test_adam_moves_as_pytorchs_does() -> None:
    generator = np.random.default_rng(0)
    ours = {"w": generator.normal(size=(3, 4))}
    theirs = torch.nn.Parameter(torch.tensor(ours["w"]))
    adam, optimizer = Adam(), torch.optim.Adam([theirs], lr=1e-3)
    for _ in range(20):
        gradient = generator.normal(size=(3, 4))
        adam.update(ours, {"w": gradient})
        theirs.grad = torch.tensor(gradient)
        optimizer.step()
    assert np.abs(ours["w"] - theirs.detach().numpy()).max() < 1e-14


@pytest.mark.parametrize("with_positions", [False, True])
def test_both_routes_have_the_same_loss_at_every_step(
    with_positions: bool,
) -> None:
    exercise = replace(EXERCISE, with_positions=with_positions, num_epochs=8)
    start = exercise.first_parameters()
    ours, theirs = NumpyMiniBert(start), TorchMiniBert(start)
    for batches in exercise.epochs():
        for batch in batches:
            left, right = ours.train_batch(batch), theirs.train_batch(batch)
            assert left == pytest.approx(right, abs=1e-12)
    assert left < 4.3


def test_a_fresh_model_knows_nothing() -> None:
    model = NumpyMiniBert(EXERCISE.first_parameters())
    batch = next(EXERCISE.epochs())[0]
    loss = cross_entropy(model.logits(batch), batch.mlm_labels)
    assert loss == pytest.approx(math.log(89), abs=0.05)


def test_training_leaves_the_first_parameters_alone() -> None:
    start = EXERCISE.first_parameters()
    model = NumpyMiniBert(start)
    model.train_batch(next(EXERCISE.epochs())[0])
    assert (start["token"] == EXERCISE.first_parameters()["token"]).all()
    assert (model.parameters["token"] != start["token"]).any()
