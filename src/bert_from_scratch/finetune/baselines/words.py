"""WordTokenizer: whole words to ids; Chinese by character."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import numpy as np
from numpy.typing import NDArray
from tokenizers import Encoding, Tokenizer, models, trainers

from bert_from_scratch import atomic
from bert_from_scratch.errors import BertError
from bert_from_scratch.tokenizer.engine import UNCASED, set_rules
from bert_from_scratch.tokenizer.truncation import lengths_to_keep
from bert_from_scratch.tokenizer.vocabulary import PAD, SEP, UNK

# 分词规则会拆开方括号，所以正文里的词不会与这三个名字相同
SPECIAL_WORDS = (PAD, UNK, SEP)
PAD_ID, UNK_ID, SEP_ID = range(len(SPECIAL_WORDS))
FILE_NAME = "words.txt"


@dataclass(frozen=True)
class WordSequence:
    """One text or pair as word ids.

    Attributes:
        input_ids: Numbers of the words, int32 [S]; at least one.
        token_type_ids: 0 in the text and its separator, 1 in the pair,
            int32 [S].
    """

    input_ids: NDArray[np.int32]
    token_type_ids: NDArray[np.int32]


class WordTokenizer:
    """Text to word ids, cut into words where BERT cuts before WordPiece.

    Words are lower-case and lose their accents. Punctuation marks and Chinese
    characters are words of their own.
    """

    def __init__(self, words: Sequence[str]) -> None:
        """Makes a tokenizer of a list of words.

        Args:
            words: In id order; the first are `SPECIAL_WORDS`.
        """
        if tuple(words[: len(SPECIAL_WORDS)]) != SPECIAL_WORDS:
            raise ValueError(f"words must start with {SPECIAL_WORDS}")
        self.words = tuple(words)
        numbers = {word: number for number, word in enumerate(words)}
        if len(numbers) < len(words):
            raise ValueError("a word stands twice")
        self._engine = Tokenizer(models.WordLevel(numbers, unk_token=UNK))
        set_rules(self._engine, UNCASED)

    @classmethod
    def build(
        cls, texts: Iterable[str], max_words: int = 50_000, min_count: int = 2
    ) -> Self:
        """Counts words and keeps the most frequent ones.

        Args:
            texts: What to count, in any order: the result is the same.
            max_words: Most words to keep, the special ones included.
            min_count: How often a word must occur to be kept.
        """
        if max_words < len(SPECIAL_WORDS):
            raise ValueError(f"{max_words=} leaves no room for special words")
        engine = Tokenizer(models.WordLevel({}, unk_token=UNK))
        set_rules(engine, UNCASED)
        # 引擎按次数从多到少编号，次数相同按字典序，结果与输入顺序无关
        trainer = trainers.WordLevelTrainer(
            vocab_size=max_words,
            min_frequency=min_count,
            show_progress=False,
            special_tokens=list(SPECIAL_WORDS),
        )
        engine.train_from_iterator(_check_texts(texts), trainer)
        numbers = engine.get_vocab()
        return cls(sorted(numbers, key=numbers.__getitem__))

    def __len__(self) -> int:
        return len(self.words)

    def encode_batch(
        self,
        texts: Sequence[str],
        pairs: Sequence[str] | None = None,
        max_length: int | None = None,
    ) -> list[WordSequence]:
        """Encodes texts, or pairs of texts.

        Args:
            texts: An empty text becomes one unknown word.
            pairs: The second text of each, or None.
            max_length: Keeps this many words, the separator included, and
                takes from the longer text first; None: no limit.
        """
        if pairs is None:
            _check_limit(max_length, 1)
            return [_single(ids[:max_length]) for ids in self._word_ids(texts)]
        if len(pairs) != len(texts):
            raise ValueError(f"{len(texts)} texts, but {len(pairs)} pairs")
        _check_limit(max_length, 3)
        firsts, seconds = self._word_ids(texts), self._word_ids(pairs)
        return [
            _pair(first, second, max_length)
            for first, second in zip(firsts, seconds, strict=True)
        ]

    def _word_ids(self, texts: Sequence[str]) -> list[NDArray[np.int32]]:
        encodings: list[Encoding] = self._engine.encode_batch(
            list(_check_texts(texts)), add_special_tokens=False
        )
        # 空文本也占一个位置：循环网络与取平均都需要至少一个词
        return [
            np.array(encoding.ids or [UNK_ID], np.int32)
            for encoding in encodings
        ]

    def save(self, directory: str | Path) -> None:
        """Writes `words.txt`, one word a line; its number is the line's."""
        text = "".join(f"{word}\n" for word in self.words)
        atomic.write_text(Path(directory) / FILE_NAME, text)

    @classmethod
    def load(cls, directory: str | Path) -> Self:
        """Reads `words.txt`.

        Raises:
            BertError: There is none, or it is no list of words.
        """
        path = Path(directory) / FILE_NAME
        try:
            words = path.read_bytes().decode().removesuffix("\n").split("\n")
            return cls(words)
        except FileNotFoundError:
            raise BertError(
                f"{directory} holds no {FILE_NAME}.",
                hint="give a folder that bert finetune --encoder wrote",
            ) from None
        except (OSError, ValueError) as error:
            raise BertError(f"{path} cannot be read: {error}.") from error


def _check_limit(max_length: int | None, smallest: int) -> None:
    if max_length is not None and max_length < smallest:
        raise BertError(
            f"max_length={max_length} is too short.",
            hint=f"set --max-length to {smallest} or more",
        )


def _check_texts(texts: Iterable[str]) -> Iterator[str]:
    for number, text in enumerate(texts):
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise BertError(
                f"Text {number + 1} has a lone surrogate at character "
                f"{error.start}; it is no valid Unicode.",
                hint='repair it: text.encode("utf-8", "replace").decode()',
            ) from error
        yield text


def _single(ids: NDArray[np.int32]) -> WordSequence:
    return WordSequence(ids, np.zeros_like(ids))


def _pair(
    first: NDArray[np.int32],
    second: NDArray[np.int32],
    max_length: int | None,
) -> WordSequence:
    num_first, num_second = len(first), len(second)
    if max_length is not None:
        num_first, num_second = lengths_to_keep(
            num_first, num_second, max_length - 1
        )
    separator = np.array([SEP_ID], np.int32)
    ids = np.concatenate([first[:num_first], separator, second[:num_second]])
    # 分隔符算在前一段，与 BERT 的第一个 [SEP] 一样
    segments = (np.arange(len(ids)) > num_first).astype(np.int32)
    return WordSequence(ids, segments)
