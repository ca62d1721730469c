"""vocab.txt: one WordPiece a line, its number is the line's."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from bert_from_scratch.errors import BertError

PAD, UNK, CLS, SEP, MASK = "[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"
SPECIAL_TOKENS = (PAD, UNK, CLS, SEP, MASK)
CONTINUATION = "##"


def read_vocabulary(path: Path) -> list[str]:
    r"""Reads a vocabulary, split at \n only.

    Raises:
        BertError: A special token is missing, or a token stands twice.
    """
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise BertError(f"{path} cannot be read: {error}.") from error
    # 不可用 splitlines()：中文词表里 U+2028 本身就是一个词，会错位
    tokens = text.split("\n")
    if tokens[-1] == "":
        tokens.pop()
    tokens = [token.removesuffix("\r") for token in tokens]
    check_vocabulary(tokens, str(path))
    return tokens


def check_vocabulary(tokens: Sequence[str], source: str) -> None:
    """Raises BertError unless `tokens` can be a BERT vocabulary."""
    for token, count in Counter(tokens).most_common(1):
        if count > 1:
            lines = [i + 1 for i, t in enumerate(tokens) if t == token]
            raise BertError(
                f"{source} has {token!r} {count} times, in lines "
                f"{', '.join(map(str, lines[:4]))}.",
                hint="every WordPiece must stand once: its line is its id",
            )
    present = set(tokens)
    missing = [token for token in SPECIAL_TOKENS if token not in present]
    if missing:
        raise BertError(
            f"{source} lacks the special tokens {', '.join(missing)}.",
            hint="a BERT vocabulary needs all of " + " ".join(SPECIAL_TOKENS),
        )
