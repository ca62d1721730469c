"""Training MiniBert: how low it can go, and what it then knows."""

import math
from dataclasses import replace

import numpy as np
import pytest

from bert_from_scratch.corpus.builtin import simple_sentences
from bert_from_scratch.learn.lessons.positions import permutation_gap
from bert_from_scratch.learn.materials import Materials
from bert_from_scratch.learn.minibert_data import Exercise, MaskedBatch
from bert_from_scratch.learn.minibert_training import (
    QUESTIONS,
    TrainedMiniBert,
    lowest_loss,
    train,
)

SMALL = Exercise(
    ("the cat drinks milk", "the dog eats meat", "a bird sings well"),
    width=32,
    num_epochs=400,
    seed=1,
)
VERBS = {line.split()[2] for line in simple_sentences()}


def make_batch(ids: list[list[int]], labels: list[int]) -> MaskedBatch:
    zeros = np.zeros(len(labels), dtype=np.int64)
    return MaskedBatch(np.array(ids), zeros, np.array(labels), np.ones(1))


def test_a_question_with_two_answers_costs_at_least_ln_2() -> None:
    batch = make_batch([[9, 1], [9, 1], [9, 2]], [5, 6, 7])
    assert lowest_loss([batch], ordered=True) == pytest.approx(
        2 * math.log(2) / 3
    )


def test_order_can_tell_questions_apart() -> None:
    batch = make_batch([[9, 1, 2], [9, 2, 1]], [5, 6])
    assert lowest_loss([batch], ordered=True) == 0
    assert lowest_loss([batch], ordered=False) == pytest.approx(math.log(2))


def test_training_learns_a_few_sentences_by_heart() -> None:
    run = train(SMALL)
    assert len(run.losses) == SMALL.num_epochs
    assert run.losses[0] == pytest.approx(math.log(11), abs=0.1)
    assert run.losses[-1] < 0.05
    for batch in next(SMALL.epochs()):
        guesses = run.model.logits(batch).argmax(axis=-1)
        assert (guesses == batch.mlm_labels).all()


def test_guesses_come_best_first_and_probabilities_sum_to_one() -> None:
    run = train(replace(SMALL, num_epochs=2))
    guesses = run.guess("the cat [MASK] milk", top=3)
    shares = [share for _, share in guesses]
    assert len(shares) == 3
    assert shares == sorted(shares, reverse=True)
    assert run.probabilities("the cat [MASK] milk").sum() == pytest.approx(1)


def test_progress_is_told_every_epoch() -> None:
    told: list[tuple[str, int, int]] = []
    train(
        replace(SMALL, num_epochs=3),
        progress=lambda *report: told.append(report),
        stage="x",
    )
    assert told == [("x", 1, 3), ("x", 2, 3), ("x", 3, 3)]


@pytest.mark.parametrize("with_positions", [False, True])
def test_only_positions_make_attention_see_the_order(
    with_positions: bool,
) -> None:
    exercise = Exercise(
        tuple(simple_sentences()), num_epochs=1, with_positions=with_positions
    )
    gap = permutation_gap(train(exercise))
    assert gap > 1e-8 if with_positions else gap < 1e-15


def test_without_positions_turning_a_question_round_changes_nothing() -> None:
    run = train(Exercise(tuple(simple_sentences()), num_epochs=2))
    one = run.probabilities("the [MASK] eats the fish")
    two = run.probabilities("the fish eats the [MASK]")
    assert np.abs(one - two).max() < 1e-12


@pytest.fixture(scope="module")
def materials() -> Materials:
    return Materials()


def first_guess(run: TrainedMiniBert, question: str) -> str:
    return run.guess(question, top=1)[0][0]


@pytest.mark.slow
def test_the_documents_recipe_falls_as_in_the_document(
    materials: Materials,
) -> None:
    run = materials.tutorial_model
    assert run.losses[0] == pytest.approx(math.log(89), abs=0.1)
    assert 0.8 < run.losses[49] < 2
    assert run.losses[149] < 0.3
    least = lowest_loss(next(run.exercise.epochs()), ordered=False)
    assert least < run.losses[-1] < 0.2
    assert run.losses[-1] == pytest.approx(least, abs=0.05)


@pytest.mark.slow
def test_the_documents_recipe_fails_the_third_question(
    materials: Materials,
) -> None:
    assert first_guess(materials.tutorial_model, QUESTIONS[2]) not in VERBS


@pytest.mark.slow
def test_ours_gets_all_three_questions_right(materials: Materials) -> None:
    run = materials.with_both
    foods = {word for word, _ in run.guess(QUESTIONS[0], top=4)}
    assert foods == {"apple", "bread", "fish", "meat"}
    texts = {word for word, _ in run.guess(QUESTIONS[1], top=2)}
    assert texts == {"paper", "book"}
    word, share = run.guess(QUESTIONS[2], top=1)[0]
    assert (word, share > 0.9) == ("reads", True)


@pytest.mark.slow
def test_positions_teach_the_kind_and_fresh_masks_the_word(
    materials: Materials,
) -> None:
    kind, right = materials.tutorial_model.verb_shares()
    kind_placed, right_placed = materials.with_positions.verb_shares()
    _, right_fresh = materials.with_fresh_masks.verb_shares()
    assert kind < 0.8
    assert kind_placed > 0.9
    assert max(right, right_placed) < 0.7
    assert right_fresh > 0.9
