"""Vectors: pooled right, in the order given, whatever the batches are."""

import logging
from pathlib import Path

import numpy as np
import pytest
import torch

from bert_from_scratch import (
    BertConfig,
    BertError,
    BertModel,
    WordPieceTokenizer,
)
from bert_from_scratch.predict.embed import Embedder
from bert_from_scratch.predict.pooling import Pooling

TEXTS = ["a b c", "", "b", "c c c c c a b", "a [MASK] b", "a"]
TOKENS = [
    *("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"),
    *("a", "b", "c", "[", "]", "mask"),
]


@pytest.fixture(scope="module")
def embedder() -> Embedder:
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=len(TOKENS),
        hidden_size=32,
        num_hidden_layers=4,
        num_attention_heads=2,
        intermediate_size=64,
        max_position_embeddings=16,
    )
    return Embedder(BertModel(config), WordPieceTokenizer(TOKENS))


@pytest.mark.parametrize("pooling", ["cls", "mean", "last4"])
def test_batches_do_not_change_vectors(
    embedder: Embedder, pooling: Pooling
) -> None:
    together = embedder.embed(TEXTS, pooling)
    one_by_one = [embedder.embed([text], pooling)[0] for text in TEXTS]
    np.testing.assert_allclose(together, one_by_one, atol=1e-5)
    small = embedder.embed(TEXTS, pooling, batch_tokens=5)
    np.testing.assert_allclose(small, together, atol=1e-5)


def test_poolings_are_what_their_names_say(embedder: Embedder) -> None:
    encoding = embedder.tokenizer.encode("a b c")
    ids = torch.tensor([encoding.input_ids])
    x, layout = embedder.model.embed(ids)
    states = embedder.model.encoder.hidden_states(x, layout)
    last = states[-1][0].detach().numpy()
    four = torch.cat(states[-4:], -1)[0].mean(0).detach().numpy()
    expected = {"cls": last[0], "mean": last.mean(0), "last4": four}
    poolings: tuple[Pooling, ...] = ("cls", "mean", "last4")
    for pooling in poolings:
        vector = embedder.embed(["a b c"], pooling)[0]
        np.testing.assert_allclose(vector, expected[pooling], atol=1e-6)
        assert embedder.width(pooling) == len(vector)


def test_normalized_vectors_have_length_one(embedder: Embedder) -> None:
    vectors = embedder.embed(TEXTS, "mean", normalize=True)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-6)


def test_long_texts_are_truncated_and_counted(
    embedder: Embedder, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        vectors = embedder.embed(["a " * 50, "a", "b " * 14])
    assert "1 of 3 texts were truncated to 16 tokens" in caplog.text
    np.testing.assert_allclose(
        vectors[0], embedder.embed(["a " * 14])[0], atol=1e-6
    )
    with pytest.raises(BertError, match="Text 2 is longer than 16"):
        embedder.embed(["a", "a " * 50], strict=True)


def test_last4_needs_four_layers() -> None:
    config = BertConfig.preset("tiny", vocab_size=len(TOKENS))
    small = Embedder(BertModel(config), WordPieceTokenizer(TOKENS))
    with pytest.raises(BertError, match="has 2"):
        small.embed(["a"], "last4")


@pytest.mark.slow
def test_real_sentence_embeddings_are_sentence_transformers(
    minilm_dir: Path,
) -> None:
    from sentence_transformers import SentenceTransformer

    texts = ["A cat sits on the mat.", "猫在垫子上。", "Prices rose. " * 20, ""]
    peer = SentenceTransformer(str(minilm_dir), device="cpu")
    theirs = peer.encode(texts, normalize_embeddings=True)
    ours = Embedder.load(minilm_dir, "cpu").embed(texts, normalize=True)
    np.testing.assert_allclose(ours, theirs, atol=1e-5)
