"""A vocabulary with more words: domain terms that were cut into pieces."""

from collections.abc import Sequence
from pathlib import Path

from bert_from_scratch.corpus.files import find_files, read_blocks
from bert_from_scratch.errors import BertError
from bert_from_scratch.tokenizer.engine import find_rules
from bert_from_scratch.tokenizer.wordpiece import WordPieceTokenizer


def read_words(path: Path) -> list[str]:
    """Reads words to add: one a line, blank lines left out."""
    lines = [
        line.strip()
        for file in find_files([path])
        for block in read_blocks(file)
        for line in block.lines
    ]
    words = [line for line in lines if line]
    if not words:
        raise BertError(f"{path} holds no words.", hint="write one a line")
    return words


def add_words(
    tokenizer: WordPieceTokenizer, words: Sequence[str]
) -> WordPieceTokenizer:
    """Returns a tokenizer that knows more words; old ids stay as they are.

    Words are cleaned as text is (an uncased tokenizer lowers them); those that
    the vocabulary has already are left out.

    Raises:
        BertError: A word can never be found in text, because text is split
            inside it; or nothing is left to add.
    """
    rules = find_rules(tokenizer.engine)
    if rules is None:
        raise BertError(
            "Words can only be added to a tokenizer with BERT's own rules."
        )
    known = tokenizer.vocabulary
    tokens = sorted(known, key=known.__getitem__)
    for word in dict.fromkeys(_clean(tokenizer, word) for word in words):
        if word not in known:
            tokens.append(word)
    if len(tokens) == len(known):
        raise BertError("The vocabulary has all of these words already.")
    return WordPieceTokenizer(tokens, rules, tokenizer.max_length)


def _clean(tokenizer: WordPieceTokenizer, word: str) -> str:
    """Returns a word as the engine sees it, or refuses it."""
    normalizer = tokenizer.engine.normalizer
    splitter = tokenizer.engine.pre_tokenizer
    assert normalizer is not None
    assert splitter is not None
    parts = splitter.pre_tokenize_str(normalizer.normalize_str(word))
    if len(parts) != 1:
        pieces = " + ".join(part for part, _ in parts)
        raise BertError(
            f"{word!r} cannot be a WordPiece: text is split inside it "
            f"({pieces or 'nothing is left'}).",
            hint="add its parts, or leave it out",
        )
    return parts[0][0]
