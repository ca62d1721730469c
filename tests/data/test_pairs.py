"""Pairs: Google's recipe with right, balanced labels."""

import numpy as np
import pytest

from bert_from_scratch import BertError
from bert_from_scratch.data.pairs import (
    IntArray,
    Sequences,
    plan_pairs,
    plan_texts,
)
from bert_from_scratch.data.shards import TokenShards

from .conftest import MakeShards


def documents_of(shards: TokenShards, starts: IntArray) -> IntArray:
    sentences = np.searchsorted(shards.sentence_ends, starts, side="right") - 1
    found = np.searchsorted(shards.document_ends, sentences, side="right") - 1
    return found.astype(np.int64)


def plan(
    shards: TokenShards, max_length: int, seed: int = 0, epoch: int = 0
) -> Sequences:
    return plan_pairs(
        shards.sentence_ends, shards.documents(), max_length, seed, epoch
    )


def plan_without_pairs(
    shards: TokenShards, max_length: int, seed: int = 0, epoch: int = 0
) -> Sequences:
    return plan_texts(
        shards.sentence_ends, shards.documents(), max_length, seed, epoch
    )


def assert_same(a: Sequences, b: Sequences) -> None:
    for name, values in vars(a).items():
        np.testing.assert_array_equal(values, vars(b)[name])


def test_labels_tell_the_truth(corpus: TokenShards) -> None:
    for epoch in range(3):
        pairs = plan(corpus, 128, seed=0, epoch=epoch)
        assert pairs.nsp_labels is not None
        is_random = pairs.nsp_labels == 1
        a = documents_of(corpus, pairs.a_start)
        b = documents_of(corpus, pairs.b_start)
        assert (a[is_random] != b[is_random]).all()
        assert (a[~is_random] == b[~is_random]).all()
        # 真的下一段：B 在 A 之后，中间只可能隔着被截掉的词
        a_end = (pairs.a_start + pairs.a_length)[~is_random]
        assert (pairs.b_start[~is_random] >= a_end).all()


def test_labels_are_balanced_also_for_documents_of_few_sentences(
    make_shards: MakeShards,
) -> None:
    short = make_shards([[9, 9]] * 2000 + [[200, 3]] * 2000 + [[7]] * 500)
    pairs = plan(short, 64, seed=0, epoch=0)
    assert pairs.nsp_labels is not None
    assert pairs.nsp_labels.mean() == pytest.approx(0.5, abs=0.03)


def test_no_pair_is_too_long_or_empty(corpus: TokenShards) -> None:
    for max_length in (8, 33, 128, 512):
        pairs = plan(corpus, max_length, seed=0, epoch=0)
        assert pairs.lengths.max() <= max_length
        assert pairs.a_length.min() >= 1
        assert pairs.b_length.min() >= 1


def test_pairs_are_mostly_full(corpus: TokenShards) -> None:
    lengths = plan(corpus, 128, seed=0, epoch=0).lengths
    assert (lengths == 128).mean() > 0.6
    # 约一成的目标长度是随机的短句
    assert (lengths < 100).mean() > 0.05


def test_almost_all_tokens_are_used(corpus: TokenShards) -> None:
    pairs = plan(corpus, 128, seed=0, epoch=0)
    used = np.zeros(corpus.meta.num_tokens, dtype=bool)
    for start, length in zip(pairs.a_start, pairs.a_length, strict=True):
        used[start : start + length] = True
    for start, length in zip(pairs.b_start, pairs.b_length, strict=True):
        used[start : start + length] = True
    assert used.mean() > 0.88


def test_a_plan_depends_on_seed_and_epoch_alone(corpus: TokenShards) -> None:
    first = plan(corpus, 128, seed=3, epoch=5)
    assert_same(first, plan(corpus, 128, seed=3, epoch=5))
    others = plan(corpus, 128, 3, 6), plan(corpus, 128, 4, 5)
    for other in others:
        assert not np.array_equal(first.a_start[:50], other.a_start[:50])


def test_a_document_of_many_sentences_takes_few_turns(
    make_shards: MakeShards,
) -> None:
    long = make_shards([[20] * 9000, [20] * 5000])
    pairs = plan(long, 128, seed=0, epoch=0)
    a, b = (documents_of(long, s) for s in (pairs.a_start, pairs.b_start))
    assert pairs.nsp_labels is not None
    np.testing.assert_array_equal(a != b, pairs.nsp_labels == 1)


def test_one_document_is_refused(make_shards: MakeShards) -> None:
    with pytest.raises(BertError, match="at least two documents") as caught:
        plan(make_shards([[5, 5, 5]]), 128, 0, 0)
    assert "--no-nsp" in str(caught.value.hint)


def test_documents_of_one_sentence_are_refused(
    make_shards: MakeShards,
) -> None:
    with pytest.raises(BertError, match="every document has one sentence"):
        plan(make_shards([[5], [6], [7]]), 128, 0, 0)


def test_texts_cover_every_token_once_and_stay_in_their_document(
    corpus: TokenShards,
) -> None:
    for epoch in range(3):
        texts = plan_without_pairs(corpus, 64, seed=0, epoch=epoch)
        assert texts.nsp_labels is None
        assert texts.lengths.max() <= 64
        order = np.argsort(texts.a_start)
        start, length = texts.a_start[order], texts.a_length[order]
        assert start[0] == 0
        np.testing.assert_array_equal(start[1:], (start + length)[:-1])
        assert start[-1] + length[-1] == corpus.meta.num_tokens
        last = documents_of(corpus, start + length - 1)
        np.testing.assert_array_equal(documents_of(corpus, start), last)


def test_a_document_that_fits_is_one_text(make_shards: MakeShards) -> None:
    texts = plan_without_pairs(make_shards([[6], [3, 3], [62]]), 64, 0, 0)
    assert sorted(texts.a_length.tolist()) == [6, 6, 62]


def test_held_out_documents_are_never_trained_on(corpus: TokenShards) -> None:
    rest, held_out = corpus.documents().split(0.2, seed=0)
    assert len(rest) + len(held_out) == 200
    assert 20 < len(held_out) < 60
    ends = corpus.sentence_ends
    trained = plan_pairs(ends, rest, 64, 0, 0)
    forbidden = set(held_out.first.tolist())
    for starts in (trained.a_start, trained.b_start):
        used = corpus.document_ends[documents_of(corpus, starts)]
        assert not forbidden & set(used.tolist())
    again, _ = corpus.documents().split(0.2, seed=0)
    assert again.first.tolist() == rest.first.tolist()
