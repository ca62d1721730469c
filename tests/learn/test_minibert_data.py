"""The exercise: 89 entries, one hidden word a sentence, given dropout."""

from dataclasses import replace

import numpy as np
import pytest

from bert_from_scratch.corpus.builtin import simple_sentences
from bert_from_scratch.errors import BertError
from bert_from_scratch.learn.minibert_data import Exercise, Vocabulary

EXERCISE = Exercise(tuple(simple_sentences()), num_epochs=2)


def test_the_vocabulary_has_the_documents_89_entries() -> None:
    vocabulary = EXERCISE.vocabulary
    assert len(vocabulary) == 89
    assert vocabulary.words[-1] == "[MASK]"
    assert vocabulary.encode("the [MASK]")[1] == 88


def test_an_unknown_word_is_refused_by_name() -> None:
    with pytest.raises(BertError, match="'read'"):
        Vocabulary.of(["the man reads"]).encode("the man read")


def test_every_sentence_hides_one_word_and_keeps_the_others() -> None:
    batches = next(EXERCISE.epochs())
    found = []
    for batch in batches:
        assert ((batch.input_ids == 88).sum(axis=1) == 1).all()
        rows = np.arange(len(batch.input_ids))
        whole = batch.input_ids.copy()
        whole[rows, batch.mlm_positions] = batch.mlm_labels
        words = np.array(EXERCISE.vocabulary.words)
        found += [" ".join(words[row]) for row in whole]
    assert sorted(found) == sorted(simple_sentences())


@pytest.mark.parametrize("fresh", [False, True])
def test_only_fresh_masks_change_from_epoch_to_epoch(fresh: bool) -> None:
    exercise = replace(EXERCISE, fresh_masks=fresh)
    first, second = exercise.epochs()
    assert (first[0].input_ids != second[0].input_ids).any() == fresh
    assert (first[0].dropout_scale != second[0].dropout_scale).any()


def test_dropout_drops_its_share_and_keeps_the_mean() -> None:
    scale = next(EXERCISE.epochs())[0].dropout_scale
    assert set(np.unique(scale)) == {0.0, 1 / 0.9}
    assert (scale == 0).mean() == pytest.approx(0.1, abs=0.01)
    assert scale.mean() == pytest.approx(1, abs=0.01)


def test_a_seed_decides_everything() -> None:
    again = replace(EXERCISE)
    other = replace(EXERCISE, seed=7)
    start = EXERCISE.first_parameters()["token"]
    assert (again.first_parameters()["token"] == start).all()
    assert (other.first_parameters()["token"] != start).any()
    one, same, different = (
        next(exercise.epochs())[0] for exercise in (EXERCISE, again, other)
    )
    assert (one.input_ids == same.input_ids).all()
    assert (one.input_ids != different.input_ids).any()


def test_positions_do_not_change_the_other_weights() -> None:
    with_positions = replace(EXERCISE, with_positions=True)
    plain, placed = (
        exercise.first_parameters() for exercise in (EXERCISE, with_positions)
    )
    assert placed.keys() - plain.keys() == {"position"}
    assert all((placed[name] == plain[name]).all() for name in plain)
