"""Small shards, made of random ids."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from bert_from_scratch.data.shards import (
    DOCUMENTS,
    FORMAT_VERSION,
    SENTENCES,
    TOKENS,
    ShardsMeta,
    TokenShards,
    describe_file,
    fingerprint,
)
from bert_from_scratch.tokenizer import WordPieceTokenizer

VOCAB_SIZE = 1000
MakeShards = Callable[[list[list[int]]], TokenShards]


def make_tokenizer() -> WordPieceTokenizer:
    specials = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    return WordPieceTokenizer(
        specials + [f"w{number}" for number in range(VOCAB_SIZE - 5)]
    )


@pytest.fixture
def make_shards(tmp_path: Path) -> MakeShards:
    """Returns a function: sentence lengths by document to shards."""

    def make(documents: list[list[int]]) -> TokenShards:
        directory = tmp_path / f"data-{len(list(tmp_path.iterdir()))}"
        directory.mkdir()
        lengths = [n for document in documents for n in document]
        generator = np.random.default_rng(0)
        tokens = generator.integers(5, VOCAB_SIZE, sum(lengths), np.uint16)
        tokens.tofile(directory / TOKENS)
        np.array(lengths, np.uint32).tofile(directory / SENTENCES)
        sizes = np.array([len(d) for d in documents], np.uint32)
        sizes.tofile(directory / DOCUMENTS)
        tokenizer = make_tokenizer()
        tokenizer.save(directory / "tokenizer")
        names = (TOKENS, SENTENCES, DOCUMENTS)
        ShardsMeta(
            version=FORMAT_VERSION,
            dtype="uint16",
            vocab_size=VOCAB_SIZE,
            tokenizer_sha256=fingerprint(tokenizer),
            num_tokens=len(tokens),
            num_sentences=len(lengths),
            num_documents=len(documents),
            files={name: describe_file(directory / name) for name in names},
        ).save(directory / "meta.json")
        return TokenShards.open(directory)

    return make


@pytest.fixture
def corpus(make_shards: MakeShards) -> TokenShards:
    """200 documents of 1 to 40 sentences of 1 to 60 tokens."""
    generator = np.random.default_rng(1)
    return make_shards(
        [
            generator.integers(1, 60, generator.integers(1, 40)).tolist()
            for _ in range(200)
        ]
    )
