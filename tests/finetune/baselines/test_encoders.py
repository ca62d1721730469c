"""Encoders: every kind learns, and no text feels its neighbours."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from bert_from_scratch import BertError
from bert_from_scratch.data.batch import pack
from bert_from_scratch.finetune.baselines.encoders import (
    KINDS,
    Kind,
    WordEncoder,
    WordEncoderConfig,
)
from bert_from_scratch.finetune.baselines.words import WordSequence

NUM_WORDS = 40


def new_encoder(kind: Kind, **settings: float) -> WordEncoder:
    torch.manual_seed(0)
    values = {"width": 12, "hidden_size": 16, "dropout": 0.0, **settings}
    config = {"kind": kind, "num_words": NUM_WORDS, **values}
    return WordEncoder(WordEncoderConfig.from_dict(config))


def text(*words: int, pair: tuple[int, ...] = ()) -> WordSequence:
    ids = [*words, 2, *pair] if pair else [*words]
    segments = np.arange(len(ids)) > len(words)
    return WordSequence(np.array(ids, np.int32), segments.astype(np.int32))


TEXTS = [
    text(5),
    text(7, 8),
    text(4, 9, 12, 5, 31, 6, 4),
    text(3, 4, pair=(5, 6, 7)),
    text(*range(3, 30)),
]


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_gives_one_vector_a_text(kind: Kind) -> None:
    encoder = new_encoder(kind)
    vectors = encoder(pack(TEXTS))
    assert vectors.shape == (len(TEXTS), encoder.output_size)
    assert vectors.isfinite().all()
    sizes = {"cnn": 48, "bilstm": 32}
    assert encoder.output_size == sizes.get(kind, 16)


@pytest.mark.parametrize("kind", KINDS)
def test_neighbours_do_not_change_a_vector(kind: Kind) -> None:
    encoder = new_encoder(kind, dropout=0.5).eval()
    together = encoder(pack(TEXTS))
    backwards = encoder(pack(TEXTS[::-1])).flip(0)
    alone = torch.cat([encoder(pack([sequence])) for sequence in TEXTS])
    torch.testing.assert_close(together, alone, atol=1e-6, rtol=0)
    torch.testing.assert_close(together, backwards, atol=1e-6, rtol=0)


@pytest.mark.parametrize("kind", KINDS)
def test_segments_swapped_give_another_vector(kind: Kind) -> None:
    encoder = new_encoder(kind).eval()
    swapped = [text(5, pair=(6,)), text(6, pair=(5,))]
    first, second = encoder(pack(swapped))
    assert (first - second).abs().max() > 1e-4


@pytest.mark.parametrize("kind", KINDS)
def test_gradients_reach_the_words_and_segments_that_occur(kind: Kind) -> None:
    encoder = new_encoder(kind)
    encoder(pack([text(5, 6, pair=(7,)), text(5, 6)])).sum().backward()
    assert encoder.word.weight.grad is not None
    assert encoder.segment.weight.grad is not None
    reached = encoder.word.weight.grad.abs().sum(1).nonzero().flatten()
    # in a bag of words the separator counts too: it is a word of segment A
    assert reached.tolist() == [2, 5, 6, 7]
    assert (encoder.segment.weight.grad.abs().sum(1) > 0).all()


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_overfits_32_texts(kind: Kind) -> None:
    generator = np.random.default_rng(0)
    texts = [
        text(*generator.integers(3, NUM_WORDS, size))
        for size in generator.integers(1, 9, 32)
    ]
    # labels at random: nothing but memory can know them
    labels = torch.from_numpy(generator.integers(0, 2, 32))
    encoder = new_encoder(kind)
    head = nn.Linear(encoder.output_size, 2)
    optimizer = torch.optim.Adam(
        [*encoder.parameters(), *head.parameters()], lr=0.01
    )
    batch = pack(texts)
    for _ in range(60):
        optimizer.zero_grad()
        loss = F.cross_entropy(head(encoder(batch)), labels)
        loss.backward()
        optimizer.step()
    predicted = head(encoder(batch)).argmax(-1)
    assert predicted.tolist() == labels.tolist()


def test_bow_is_two_layers_over_the_mean_of_words() -> None:
    encoder = new_encoder("bow").eval()
    words = encoder.word.weight[[7, 8]].mean(0) + encoder.segment.weight[0]
    mean = torch.cat([words, torch.zeros(12)])
    expected = encoder.network.get_submodule("layers")(mean)
    torch.testing.assert_close(encoder(pack(TEXTS))[1], expected)


def test_cnn_is_the_best_window_of_every_filter() -> None:
    """The same by hand: zeros around a text, one window after another."""
    encoder = new_encoder("cnn").eval()
    ids = TEXTS[2].input_ids.tolist()
    words = encoder.word.weight[ids] + encoder.segment.weight[0]
    expected = []
    for width in (3, 4, 5):
        layer = encoder.network.get_submodule(f"filters.{width - 3}")
        assert isinstance(layer, nn.Conv1d)
        assert layer.bias is not None
        before, after = (width - 1) // 2, width // 2
        padded = torch.cat(
            [torch.zeros(before, 12), words, torch.zeros(after, 12)]
        )
        scores = [
            (layer.weight * padded[start : start + width].T).sum((1, 2))
            + layer.bias
            for start in range(len(ids))
        ]
        expected.append(torch.stack(scores).relu().amax(0))
    torch.testing.assert_close(encoder(pack(TEXTS))[2], torch.cat(expected))


def test_word_vectors_are_the_start_and_are_trained_on() -> None:
    vectors = np.full((NUM_WORDS, 12), 0.5, np.float32)
    config = WordEncoderConfig("bow", NUM_WORDS, width=12)
    encoder = WordEncoder(config, vectors)
    assert (encoder.word.weight == 0.5).all()
    assert encoder.word.weight.requires_grad
    with torch.no_grad():
        encoder.word.weight.zero_()
    assert (vectors == 0.5).all()
    with pytest.raises(ValueError, match="word vectors are"):
        WordEncoder(config, vectors[:5])


def test_a_config_goes_through_a_dict_unchanged() -> None:
    config = WordEncoderConfig("gru", 9, width=3, dropout=0.25)
    assert WordEncoderConfig.from_dict(config.to_dict()) == config


def test_a_wrong_config_is_refused() -> None:
    values = WordEncoderConfig("gru", 9).to_dict()
    with pytest.raises(BertError, match="must have the keys"):
        WordEncoderConfig.from_dict({**values, "layers": 2})
    with pytest.raises(BertError, match=r"'mlp'.*use one of bow, cnn"):
        WordEncoderConfig.from_dict({**values, "kind": "mlp"})
    with pytest.raises(BertError, match="hidden_size must be"):
        WordEncoderConfig.from_dict({**values, "hidden_size": 0})
    with pytest.raises(BertError, match="dropout must lie"):
        WordEncoderConfig.from_dict({**values, "dropout": 1.0})
