"""Word vectors: the loss by hand, and groups of words that belong together."""

import math

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from bert_from_scratch.finetune.baselines.word_vectors import (
    KINDS,
    Kind,
    Windows,
    WindowStream,
    train_word_vectors,
    window_loss,
)

GROUP_SIZE = 6
FIRST_GROUP = range(3, 3 + GROUP_SIZE)
SECOND_GROUP = range(3 + GROUP_SIZE, 3 + 2 * GROUP_SIZE)
NUM_WORDS = 3 + 4 * GROUP_SIZE


def two_groups(num_texts: int = 600) -> list[NDArray[np.int32]]:
    """Texts of a word of one group amid words that only it is seen with."""
    generator = np.random.default_rng(0)
    texts = []
    for number in range(num_texts):
        group = number % 2
        words = generator.integers(0, GROUP_SIZE, 1) + 3 + group * GROUP_SIZE
        around = generator.integers(0, GROUP_SIZE, 4) + 3
        around += (2 + group) * GROUP_SIZE
        texts.append(np.concatenate([around[:2], words, around[2:]]))
    return [text.astype(np.int32) for text in texts]


def train(kind: Kind, seed: int = 0, epochs: int = 2) -> NDArray[np.float32]:
    return train_word_vectors(
        two_groups(),
        NUM_WORDS,
        kind=kind,
        width=16,
        epochs=epochs,
        seed=seed,
        subsample=0,
    )


@pytest.mark.parametrize("kind", KINDS)
def test_words_of_one_group_are_neighbours(kind: Kind) -> None:
    vectors = train(kind, epochs=20)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True) + 1e-9
    words = [*FIRST_GROUP, *SECOND_GROUP]
    similar = vectors[words] @ vectors[words].T
    np.fill_diagonal(similar, -1)
    nearest = np.argsort(-similar, axis=1)[:, : GROUP_SIZE - 1]
    groups = np.arange(len(words)) // GROUP_SIZE
    assert (groups[nearest] == groups[:, None]).all()


@pytest.mark.parametrize("kind", KINDS)
def test_the_seed_decides_the_vectors(kind: Kind) -> None:
    np.testing.assert_array_equal(train(kind), train(kind))
    assert not np.array_equal(train(kind), train(kind, seed=1))


def tiny_windows() -> Windows:
    """One block of three words that sees five, with two noise words."""
    return Windows(
        centres=torch.tensor([[1, 2, 3]]),
        contexts=torch.tensor([[4, 1, 2, 3, 4]]),
        # the last centre has no context: it must not count at all
        is_context=torch.tensor(
            [[[1.0, 0, 1, 0, 0], [0, 1, 0, 0, 0], [0, 0, 0, 0, 0]]]
        ),
        noise=torch.tensor([[3, 1]]),
    )


def loss_by_hand(kind: Kind, v: Tensor, u: Tensor, num_negative: int) -> Tensor:
    """The paper's formula, one pair after another."""
    windows = tiny_windows()
    contexts = windows.contexts[0].tolist()
    noise = windows.noise[0].tolist()
    total = torch.zeros(())
    for row, centre in enumerate(windows.centres[0].tolist()):
        seen = windows.is_context[0, row].bool().tolist()
        around = [w for w, s in zip(contexts, seen, strict=True) if s]
        pairs = [(v[centre], context) for context in around]
        if kind == "cbow" and around:
            pairs = [(v[around].mean(0), centre)]
        for hidden, target in pairs:
            total = total - torch.sigmoid(hidden @ u[target]).log()
            for word in noise:
                lost = torch.sigmoid(-hidden @ u[word]).log()
                total = total - lost * num_negative / len(noise)
    return total


@pytest.mark.parametrize("kind", KINDS)
def test_loss_and_gradient_are_the_formula_in_plain_loops(kind: Kind) -> None:
    generator = torch.Generator().manual_seed(0)
    tables = [
        nn.Embedding.from_pretrained(
            torch.randn(5, 4, generator=generator), freeze=False
        )
        for _ in range(2)
    ]
    weights = [table.weight for table in tables]
    ours = window_loss(kind, tables[0], tables[1], tiny_windows(), 3)
    by_hand = loss_by_hand(kind, weights[0], weights[1], 3)
    assert ours.item() == pytest.approx(by_hand.item(), rel=1e-5)
    for mine, theirs in zip(
        torch.autograd.grad(ours, weights),
        torch.autograd.grad(by_hand, weights),
        strict=True,
    ):
        torch.testing.assert_close(mine, theirs)


def test_scores_of_zero_cost_log_two_each() -> None:
    zeros = nn.Embedding.from_pretrained(torch.zeros(5, 4))
    # three true pairs, each with five noise words
    loss = window_loss("skipgram", zeros, zeros, tiny_windows(), 5)
    assert loss.item() == pytest.approx(3 * 6 * math.log(2))


@pytest.mark.parametrize("kind", KINDS)
def test_windows_do_not_cross_texts(kind: Kind) -> None:
    """Texts of one word teach nothing: the vectors stay where they began."""
    alone = [np.array([word], np.int32) for word in (3, 4, 5, 4, 3)]
    never = train_word_vectors(alone, 6, kind=kind, epochs=0)
    after = train_word_vectors(alone, 6, kind=kind, epochs=3)
    np.testing.assert_array_equal(after, never)


def test_windows_hold_near_words_and_nearer_ones_more_often() -> None:
    places = np.arange(20_000, dtype=np.int32)
    stream = WindowStream([places], len(places), 2, subsample=0, seed=0)
    counts = torch.zeros(5)
    for windows, _ in stream.steps():
        block, centre, context = windows.is_context.nonzero().unbind(1)
        centres = windows.centres[block, centre]
        distances = windows.contexts[block, context] - centres
        counts += torch.bincount(distances + 2, minlength=5)
    # reach 1 or 2 with equal chance; nobody is in its own window
    expected = torch.tensor([0.5, 1, 0, 1, 0.5])
    torch.testing.assert_close(counts / 20_000, expected, atol=0.02, rtol=0)


def test_noise_is_drawn_by_counts_to_the_power_of_three_quarters() -> None:
    words = np.repeat(np.array([3, 4], np.int32), [16_000, 1_000])
    stream = WindowStream([words], 6, 1, subsample=0, seed=0)
    noise = torch.cat([w.noise.flatten() for w, _ in stream.steps()])
    counts = torch.bincount(noise, minlength=6)
    assert counts[[0, 1, 2, 5]].sum() == 0
    # 16 to 1 becomes 8 to 1
    assert counts[4] / len(noise) == pytest.approx(1 / 9, abs=0.01)


def test_padding_is_zero_and_progress_ends_at_the_end() -> None:
    told: list[tuple[int, int]] = []
    vectors = train_word_vectors(
        two_groups(30),
        NUM_WORDS,
        kind="cbow",
        width=7,
        epochs=2,
        progress=lambda done, total: told.append((done, total)),
    )
    assert vectors.shape == (NUM_WORDS, 7)
    assert vectors.dtype == np.float32
    assert not vectors[0].any()
    assert told[-1] == (300, 300)
    assert told == sorted(told)


def test_frequent_words_are_thinned_out() -> None:
    """With nothing kept but rare words, a frequent word learns nothing."""
    texts = [np.array([3] * 50, np.int32) for _ in range(20)]
    never = train_word_vectors(texts, 4, kind="cbow", epochs=0)
    thinned = train_word_vectors(texts, 4, kind="cbow", subsample=1e-12)
    kept = train_word_vectors(texts, 4, kind="cbow", subsample=0)
    np.testing.assert_array_equal(thinned, never)
    assert not np.array_equal(kept, never)


def test_wrong_arguments_are_refused() -> None:
    with pytest.raises(ValueError, match="kind must be one of"):
        train_word_vectors(two_groups(2), NUM_WORDS, kind="glove")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="no words"):
        train_word_vectors([], NUM_WORDS, kind="cbow")
