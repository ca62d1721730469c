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
from bert_from_scratch.predict import embed
from bert_from_scratch.predict.embed import Embedder
from bert_from_scratch.predict.pooling import Pooling

TEXTS = ["a b c", "", "b", "c c c c c a b", "a [MASK] b", "a"]
TOKENS = [
    *("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"),
    *("a", "b", "c", "[", "]", "mask"),
]


def make_embedder(device: str = "cpu", precision: str = "auto") -> Embedder:
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=len(TOKENS),
        hidden_size=32,
        num_hidden_layers=4,
        num_attention_heads=2,
        intermediate_size=64,
        max_position_embeddings=16,
    )
    tokenizer = WordPieceTokenizer(TOKENS)
    return Embedder(BertModel(config), tokenizer, device, precision)


@pytest.fixture(scope="module")
def embedder() -> Embedder:
    return make_embedder()


def make_texts(count: int) -> list[str]:
    """Texts of 0 to 19 words, no two of them alike up to 16 tokens."""
    return [
        " ".join(
            "abc"[number // 3**place % 3]
            for place in range(5 + number * 7 % 15)
        )
        for number in range(count)
    ]


@pytest.mark.parametrize("pooling", ["cls", "mean", "last4"])
def test_batches_do_not_change_vectors(
    embedder: Embedder, pooling: Pooling
) -> None:
    together = embedder.embed(TEXTS, pooling)
    one_by_one = [embedder.embed([text], pooling)[0] for text in TEXTS]
    np.testing.assert_allclose(together, one_by_one, atol=1e-5)
    small = embedder.embed(TEXTS, pooling, batch_tokens=5)
    np.testing.assert_allclose(small, together, atol=1e-5)


@pytest.mark.parametrize("batch_tokens", [1, 20, 33])
@pytest.mark.parametrize("count", [0, 1, 2, 7, 101])
def test_no_vector_is_lost_or_swapped(
    embedder: Embedder,
    monkeypatch: pytest.MonkeyPatch,
    count: int,
    batch_tokens: int,
) -> None:
    texts = make_texts(count)
    alone = [embedder.embed([text])[0] for text in texts]
    monkeypatch.setattr(embed, "TEXTS_AT_A_TIME", 9)
    counts: list[int] = []
    found = embedder.embed(
        texts, batch_tokens=batch_tokens, progress=counts.append
    )
    assert found.shape == (count, 32)
    assert sum(counts) == count
    for vector, expected in zip(found, alone, strict=True):
        np.testing.assert_allclose(vector, expected, atol=1e-5)
    if count > 1:
        distances = np.abs(found[1:] - found[:-1]).max(axis=1)
        assert distances.min() > 1e-3


@pytest.mark.parametrize("pooling", ["cls", "mean", "last4"])
def test_half_precision_is_near_and_still_float32(pooling: Pooling) -> None:
    texts = make_texts(30)
    exact = make_embedder(precision="fp32").embed(texts, pooling)
    half = make_embedder(precision="bf16").embed(texts, pooling)
    assert half.dtype == exact.dtype == np.float32
    size = np.linalg.norm(exact, axis=1)
    error = np.linalg.norm(half - exact, axis=1) / size
    assert 0 < error.max() < 2e-2
    unit = make_embedder(precision="bf16").embed(texts, pooling, normalize=True)
    np.testing.assert_allclose(np.linalg.norm(unit, axis=1), 1, atol=1e-6)


def test_the_mean_of_a_long_text_in_half_precision_is_not_rounded_off() -> None:
    model = make_embedder(precision="bf16")
    config = BertConfig.preset("tiny", vocab_size=len(TOKENS))
    torch.manual_seed(0)
    long = Embedder(BertModel(config), model.tokenizer, precision="bf16")
    text = " ".join("abc"[n % 3] for n in range(510))
    encoding = long.tokenizer.encode(text)
    with torch.inference_mode():
        output = long.model(torch.tensor([encoding.input_ids]))
    # 逐个词的向量相同，只有求和的精度不同：用 float64 求和作标准
    expected = output.hidden_state[0].double().mean(0).numpy()
    found = long.embed([text])[0]
    np.testing.assert_allclose(found, expected, atol=2e-3)


def test_an_unknown_precision_is_refused() -> None:
    with pytest.raises(BertError, match="Unknown precision 'half'"):
        make_embedder(precision="half")


def test_batches_hold_the_ids_of_the_tokenizer(embedder: Embedder) -> None:
    texts = [*TEXTS, *make_texts(20)]
    too_long: list[int] = []
    found: dict[int, list[int]] = {}
    for numbers, batch in embedder._batches(
        texts, 10, 64, too_long, strict=False
    ):
        assert batch.cu_seqlens is not None
        parts = batch.input_ids.split(batch.cu_seqlens.diff().tolist())
        found.update(zip(numbers, (p.tolist() for p in parts), strict=True))
        assert not batch.token_type_ids.any()
    expected = embedder.tokenizer.encode_batch(
        texts, max_length=10, specials_are_text=True
    )
    assert [found[n] for n in range(len(texts))] == [
        encoding.input_ids for encoding in expected
    ]
    assert too_long == [
        number for number, text in enumerate(texts) if len(text.split()) > 8
    ]


def test_a_lone_surrogate_is_named(embedder: Embedder) -> None:
    with pytest.raises(BertError, match="lone surrogate at character 2"):
        embedder.embed(["a", "b \ud800"])


@pytest.mark.gpu
@pytest.mark.parametrize("pooling", ["cls", "mean", "last4"])
def test_a_gpu_gives_the_vectors_of_a_cpu(pooling: Pooling) -> None:
    texts = make_texts(3001)
    expected = make_embedder("cpu").embed(texts, pooling, normalize=True)
    exact = make_embedder("cuda", "fp32")
    found = exact.embed(texts, pooling, normalize=True)
    np.testing.assert_allclose(found, expected, atol=1e-3)
    half = make_embedder("cuda")
    assert half.precision == "bf16"
    for batch_tokens in (None, 100):
        found = half.embed(
            texts, pooling, normalize=True, batch_tokens=batch_tokens
        )
        assert (found * expected).sum(1).min() > 0.999


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
