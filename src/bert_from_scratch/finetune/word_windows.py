"""Sentences of words to sequences in which every word is asked for once.

A sentence is one sequence. One that is too long becomes several, cut between
words. What room is left may be filled with what stands before and after.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Self

import numpy as np
from numpy.typing import NDArray

from bert_from_scratch.tokenizer import WordPieceTokenizer

# [CLS] 与 [SEP] 各占一个位置
NUM_SPECIAL = 2
Words = Sequence[str]


@dataclass(frozen=True)
class WordSequence:
    """Some words of a sentence, maybe with neighbours around them.

    Attributes:
        input_ids: WordPiece ids, int32 [S].
        token_type_ids: All 0, uint8 [S].
        positions: First token of every word that is asked for, int32 [W];
            a word without tokens has none.
        words: The numbers of these words in their sentence, int32 [W].
    """

    input_ids: NDArray[np.int32]
    token_type_ids: NDArray[np.uint8]
    positions: NDArray[np.int32]
    words: NDArray[np.int32]


class WordEncoder:
    """Encodes sentences; every distinct word passes the tokenizer once."""

    def __init__(
        self,
        tokenizer: WordPieceTokenizer,
        sentences: Sequence[Words],
        max_length: int,
    ) -> None:
        """Encodes all words.

        Args:
            tokenizer: Of the model.
            sentences: Everything that will be asked for.
            max_length: Longest sequence in tokens.
        """
        if max_length <= NUM_SPECIAL:
            raise ValueError(f"{max_length=} leaves no room for words")
        self._room = max_length - NUM_SPECIAL
        self._cls = np.array([tokenizer.cls_token_id], np.int32)
        self._sep = np.array([tokenizer.sep_token_id], np.int32)
        words = list(dict.fromkeys(chain.from_iterable(sentences)))
        # 词长不得超过一个窗口：这样总能在词与词之间切开
        encodings = tokenizer.encode_batch(
            words,
            max_length=self._room,
            specials_are_text=True,
            add_special_tokens=False,
        )
        self._ids = {
            word: encoding.input_ids
            for word, encoding in zip(words, encodings, strict=True)
        }

    def encode(
        self, document: Sequence[Words], *, with_context: bool
    ) -> list[list[WordSequence]]:
        """Returns the sequences of every sentence of a document.

        Args:
            document: Sentences that follow each other.
            with_context: Whether neighbouring sentences fill the room that is
                left; otherwise only a sentence that is too long for one
                sequence lends words to its parts.
        """
        stream = _Stream.join(
            [self._ids[word] for sentence in document for word in sentence]
        )
        encoded = []
        first = 0
        for sentence in document:
            last = first + len(sentence)
            bounds = (first, last)
            if with_context:
                bounds = (0, len(stream.starts) - 1)
            encoded.append(
                [
                    self._make(stream, part, bounds, first)
                    for part in _cut(stream.starts, first, last, self._room)
                ]
            )
            first = last
        return encoded

    def _make(
        self,
        stream: "_Stream",
        part: tuple[int, int],
        bounds: tuple[int, int],
        sentence: int,
    ) -> WordSequence:
        left, right = _widen(stream.starts, part, bounds, self._room)
        begin, end = stream.starts[left], stream.starts[right]
        input_ids = np.concatenate(
            [self._cls, stream.tokens[begin:end], self._sep]
        )
        first, last = part
        starts = stream.places[first : last + 1]
        # 没有词元的词（如控制字符）不占位置，也不让后面的词错位
        words = np.flatnonzero(np.diff(starts))
        return WordSequence(
            input_ids,
            np.zeros(len(input_ids), np.uint8),
            (starts[words] - begin + 1).astype(np.int32),
            (words + first - sentence).astype(np.int32),
        )


@dataclass(frozen=True)
class _Stream:
    """The words of a document, end to end.

    Attributes:
        tokens: Of all words, int32 [T].
        starts: First token of every word, and the end.
        places: The same as an array, int64 [number of words + 1].
    """

    tokens: NDArray[np.int32]
    starts: list[int]
    places: NDArray[np.int64]

    @classmethod
    def join(cls, words: Sequence[Sequence[int]]) -> Self:
        """Lays the ids of words end to end."""
        tokens = np.fromiter(chain.from_iterable(words), np.int32)
        places = np.zeros(len(words) + 1, np.int64)
        np.cumsum([len(ids) for ids in words], out=places[1:])
        # 二分查找用列表更快，成段取用则用数组
        return cls(tokens, places.tolist(), places)


def _cut(
    starts: list[int], first: int, last: int, room: int
) -> Iterator[tuple[int, int]]:
    """Cuts words `first` to `last` into runs of at most `room` tokens.

    Args:
        starts: First token of every word, and the end.
        first: Number of the first word.
        last: Number after the last word.
        room: Tokens a run may have; no word has more.
    """
    while True:
        end = min(bisect_right(starts, starts[first] + room) - 1, last)
        yield first, end
        if end == last:
            return
        first = end


def _widen(
    starts: list[int],
    part: tuple[int, int],
    bounds: tuple[int, int],
    room: int,
) -> tuple[int, int]:
    """Adds whole words left and right of a run until the room is used up.

    Both sides get the same share; what one side cannot use goes to the other.
    """
    first, last = part
    spare = room - (starts[last] - starts[first])
    before = starts[first] - starts[bounds[0]]
    after = starts[bounds[1]] - starts[last]
    share = min(before, max(spare // 2, spare - after))
    left = bisect_left(starts, starts[first] - share)
    # 左边在词边界上取整，剩下的零头让给右边
    end = starts[left] + room
    right = min(bisect_right(starts, end) - 1, bounds[1])
    return left, right
