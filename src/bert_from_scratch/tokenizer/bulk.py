"""Much text to ids, fast: most words repeat, so each is looked up once."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bert_from_scratch.tokenizer.engine import find_rules
from bert_from_scratch.tokenizer.wordpiece import WordPieceTokenizer

IdArray = NDArray[np.unsignedinteger[Any]]

# 切分处必须是 BERT 自己也会切开的地方：空格、汉字、标点。只列规范化后
# 不变的字符；没列到的留在块内，由引擎照常切分，所以结果逐个相同
_HAN = (
    "\u4e00-\u9fff\u3400-\u4dbf\uf900-\ufaff\U00020000-\U0002a6df"
    "\U0002a700-\U0002b73f\U0002b740-\U0002b81f\U0002f800-\U0002fa1f"
)
_PUNCTUATION = r"!-/:-@\[-`{-~" + "、。〈-】《》，：；！？（）“”‘’—…·"
_PIECE = re.compile(f"[{_HAN}{_PUNCTUATION}]|[^ {_HAN}{_PUNCTUATION}]+")
_PIECE_NO_HAN = re.compile(f"[{_PUNCTUATION}]|[^ {_PUNCTUATION}]+")


def id_dtype(
    tokenizer: WordPieceTokenizer,
) -> np.dtype[np.unsignedinteger[Any]]:
    """Returns the smallest type that holds all ids of a tokenizer."""
    return np.dtype(np.uint16 if len(tokenizer) <= 1 << 16 else np.uint32)


@dataclass(frozen=True)
class EncodedLines:
    """The ids of some lines, end to end.

    Attributes:
        ids: WordPiece ids without special tokens, flat.
        lengths: Number of ids of every line.
    """

    ids: IdArray
    lengths: NDArray[np.int64]


class BulkEncoder:
    """Encodes lines of plain text, with a memory of the words seen.

    The ids are those of `WordPieceTokenizer.encode` without special tokens and
    with a literal "[SEP]" read as text.
    """

    def __init__(
        self,
        tokenizer: WordPieceTokenizer,
        max_cached_characters: int = 8_000_000,
    ) -> None:
        """Prepares the encoder.

        Args:
            tokenizer: Whose ids to produce.
            max_cached_characters: How much text is remembered as distinct
                words, in all; bounds the memory.
        """
        self.dtype = id_dtype(tokenizer)
        self._engine = tokenizer.literal_engine
        self._rules = find_rules(tokenizer.engine)
        self._max_cached_characters = max_cached_characters
        self._num_cached_characters = 0
        self._cache: dict[str, bytes] = {}

    def encode_lines(self, lines: Sequence[str]) -> EncodedLines:
        """Encodes lines; best some thousand at a time."""
        if self._rules is None:
            # 词表另有自己的切分规则：不能按词缓存，逐行交给引擎
            encoded = self._encode(lines)
        else:
            pattern = _PIECE if self._rules.split_chinese else _PIECE_NO_HAN
            pieces = [pattern.findall(line) for line in lines]
            self._learn(set[str]().union(*pieces))
            lookup = self._cache.__getitem__
            encoded = [b"".join(map(lookup, words)) for words in pieces]
        num_bytes = np.fromiter(map(len, encoded), np.int64, len(encoded))
        return EncodedLines(
            np.frombuffer(b"".join(encoded), self.dtype),
            num_bytes // self.dtype.itemsize,
        )

    def _learn(self, words: set[str]) -> None:
        """Makes sure that all of `words` are in the cache."""
        unknown = list(words - self._cache.keys())
        num_new = sum(map(len, unknown))
        if self._num_cached_characters + num_new > self._max_cached_characters:
            # 简单地清空：高频词转眼就回来，而内存有了上界
            self._cache.clear()
            self._num_cached_characters = 0
            unknown = list(words)
            num_new = sum(map(len, unknown))
        self._cache.update(zip(unknown, self._encode(unknown), strict=True))
        self._num_cached_characters += num_new

    def _encode(self, texts: Sequence[str]) -> list[bytes]:
        encodings = self._engine.encode_batch_fast(
            texts, add_special_tokens=False
        )
        return [
            np.array(encoding.ids, dtype=self.dtype).tobytes()
            for encoding in encodings
        ]
