"""Where words start: by the ## of pieces, or by stored bits."""

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from bert_from_scratch.data.pairs import IntArray
from bert_from_scratch.data.shards import TokenShards
from bert_from_scratch.errors import BertError
from bert_from_scratch.tokenizer import WordPieceTokenizer


class WordStarts(Protocol):
    """Tells of any token of the corpus whether a word starts there."""

    def __getitem__(self, places: IntArray) -> NDArray[np.bool_]:
        """Looks up places in `TokenShards.tokens`."""


class PieceStarts:
    """Words start at every piece without ##."""

    def __init__(
        self, tokens: NDArray[Any], tokenizer: WordPieceTokenizer
    ) -> None:
        self._tokens = tokens
        self._is_start = np.ones(len(tokenizer), dtype=np.bool_)
        for token, number in tokenizer.vocabulary.items():
            self._is_start[number] = not token.startswith("##")

    def __getitem__(self, places: IntArray) -> NDArray[np.bool_]:
        return self._is_start[self._tokens[places]]


class StoredStarts:
    """Words start where `bert prepare --words` found them."""

    def __init__(self, bits: NDArray[np.uint8]) -> None:
        self._bits = bits

    def __getitem__(self, places: IntArray) -> NDArray[np.bool_]:
        # 每字节八位，高位在前，与 packbits 的写法一致
        shifts = (7 - (places & 7)).astype(np.uint8)
        return (self._bits[places >> 3] >> shifts & 1).astype(np.bool_)


def find_word_starts(
    shards: TokenShards, tokenizer: WordPieceTokenizer
) -> WordStarts:
    """Returns what is known of word starts.

    Raises:
        BertError: Chinese text without stored word starts: each character
            would be a word, and whole words would mean nothing.
    """
    if shards.word_starts is not None:
        return StoredStarts(shards.word_starts)
    sample = np.asarray(shards.tokens[:100_000])
    is_han = np.zeros(len(tokenizer), dtype=np.bool_)
    for token, number in tokenizer.vocabulary.items():
        is_han[number] = len(token) == 1 and "\u4e00" <= token <= "\u9fff"
    if is_han[sample].mean() > 0.2:
        raise BertError(
            "--whole-word needs word starts for Chinese text.",
            hint="run bert prepare again with --words",
        )
    return PieceStarts(shards.tokens, tokenizer)
