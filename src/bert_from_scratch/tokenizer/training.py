"""Learning a WordPiece vocabulary: the same text gives the same bytes.

Two passes over the text, neither of which holds it in memory: the first counts
characters, the second lets the engine count words and merge pieces.
"""

import logging
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from tokenizers import Tokenizer, models, trainers

from bert_from_scratch.corpus.progress import ProgressReport, keep_quiet
from bert_from_scratch.corpus.source import TextSource
from bert_from_scratch.errors import BertError
from bert_from_scratch.tokenizer.engine import TextRules, set_rules
from bert_from_scratch.tokenizer.vocabulary import (
    CONTINUATION,
    SPECIAL_TOKENS,
    UNK,
)

logger = logging.getLogger(__name__)

LINES_AT_A_TIME = 64


@dataclass(frozen=True)
class Alphabet:
    """The characters of a vocabulary, each list in code point order.

    Attributes:
        starting: Characters that can start a word, which is all of them.
        continuing: "##x" for those that can stand inside a word; punctuation
            and Chinese characters cannot, they are words of their own.
    """

    starting: list[str]
    continuing: list[str]

    def __len__(self) -> int:
        return len(self.starting) + len(self.continuing)


def train_vocabulary(
    source: TextSource,
    vocab_size: int,
    rules: TextRules,
    *,
    min_count: int = 2,
    min_char_count: int = 1,
    progress: ProgressReport = keep_quiet,
) -> list[str]:
    """Learns a vocabulary; arguments as in `WordPieceTokenizer.train`.

    Returns:
        WordPieces in id order: special tokens, characters, "##" characters,
        then merged pieces in the order in which they were found.
    """
    for name, value in (("vocab_size", vocab_size), ("min_count", min_count)):
        if not 0 <= value < 1 << 32:
            raise BertError(f"{name}={value} makes no sense.")
    engine = Tokenizer(models.WordPiece(unk_token=UNK))
    set_rules(engine, rules)
    characters = _count_characters(source, progress)
    alphabet = _choose_alphabet(engine, characters, min_char_count)
    _check_size(vocab_size, alphabet)
    # 引擎按哈希次序给 ##x 编号，同频合并又按编号定先后，于是每次结果不同；
    # 先把它们当作特殊词固定编号，训练就完全可重复
    fixed = [*SPECIAL_TOKENS, *alphabet.continuing]
    trainer = trainers.WordPieceTrainer(
        vocab_size=vocab_size,
        min_frequency=min_count,
        special_tokens=fixed,
        initial_alphabet=alphabet.starting,
        limit_alphabet=len(alphabet.starting),
        show_progress=False,
    )
    engine.train_from_iterator(_feed(source, progress), trainer)
    learned = engine.get_vocab(with_added_tokens=False)
    tokens = [*SPECIAL_TOKENS, *alphabet.starting, *alphabet.continuing]
    known = set(tokens)
    merged = [t for t in learned if t not in known]
    tokens += sorted(merged, key=learned.__getitem__)
    if len(tokens) < vocab_size:
        logger.warning(
            "The vocabulary has %d entries instead of %d: no more pieces of "
            "the text meet %d times or more.",
            len(tokens),
            vocab_size,
            min_count,
        )
    return tokens


def _count_characters(
    source: TextSource, progress: ProgressReport
) -> Counter[str]:
    """Counts the characters of the raw text."""
    counts = np.zeros(0x110000, dtype=np.int64)
    done = 0
    for block in source.blocks():
        # UTF-32 的每个码元就是一个码点，直接当整数数组计数，比逐字快百倍
        codes = np.frombuffer(
            "".join(block.lines).encode("utf-32-le"), dtype=np.uint32
        )
        found = np.bincount(codes)
        counts[: len(found)] += found
        done += block.num_bytes
        progress("counting characters", done, source.num_bytes)
    return Counter(
        {chr(code): int(counts[code]) for code in np.flatnonzero(counts)}
    )


def _choose_alphabet(
    engine: Tokenizer, characters: Counter[str], min_char_count: int
) -> Alphabet:
    """Returns the normalised characters that are frequent enough."""
    assert engine.normalizer is not None
    assert engine.pre_tokenizer is not None
    counts: Counter[str] = Counter()
    for character, count in characters.items():
        # 规范化是逐字符的，所以只需对出现过的每个字符做一次
        for normal in engine.normalizer.normalize_str(character):
            counts[normal] += count
    starting = sorted(
        character
        for character, count in counts.items()
        if count >= min_char_count and not character.isspace()
    )
    if not starting:
        raise BertError(
            "The text holds no characters to learn from.",
            hint="is the file empty?"
            if all(map(str.isspace, counts))
            else "lower --min-char-count",
        )
    continuing = [
        CONTINUATION + character
        for character in starting
        # 问引擎自己：夹在字母之间仍是一个词，才需要 ## 形式
        if len(
            engine.pre_tokenizer.pre_tokenize_str(
                engine.normalizer.normalize_str(f"a{character}a")
            )
        )
        == 1
    ]
    return Alphabet(starting, continuing)


def _check_size(vocab_size: int, alphabet: Alphabet) -> None:
    needed = len(SPECIAL_TOKENS) + len(alphabet)
    if vocab_size < needed:
        raise BertError(
            f"Vocabulary too small: vocab_size={vocab_size}, but the text "
            f"needs {len(alphabet.starting)} characters + "
            f"{len(alphabet.continuing)} ## forms + "
            f"{len(SPECIAL_TOKENS)} specials = {needed}.",
            hint="raise --vocab-size or drop rare characters with "
            "--min-char-count 2",
        )
    if 2 * needed > vocab_size > 1000:
        logger.warning(
            "Characters take %d of %d vocabulary entries; "
            "--min-char-count drops rare ones.",
            needed,
            vocab_size,
        )


def _feed(
    source: TextSource, progress: ProgressReport
) -> Iterator[Sequence[str]]:
    """Yields a few lines at a time, so that the engine buffers little."""
    done = 0
    for block in source.blocks():
        for start in range(0, len(block.lines), LINES_AT_A_TIME):
            yield block.lines[start : start + LINES_AT_A_TIME]
        done += block.num_bytes
        progress("counting words", done, source.num_bytes)
    progress("merging pieces", 0, 0)
