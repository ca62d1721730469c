"""WordPiece on one page: from text to pieces, and where the pieces come from.

The file follows the work: normalise the text, split it into words, train
(count words, start from characters, merge the most frequent pair again and
again), encode (longest known piece first). The results equal those of the Rust
`tokenizers` engine, faster as it updates its counts where this page recounts.
Its character classes are Unicode 8's: later additions and changes may differ.
"""

import re
import string
import unicodedata
from collections import Counter
from collections.abc import Container, Iterable, Mapping
from itertools import pairwise

SPECIAL_TOKENS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
MAX_WORD_LENGTH = 100
# 扩展 E 区的起点照搬引擎，比 Unicode 的晚一段，改正了反而与它不一致
IDEOGRAPH = re.compile(
    "[\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0002a6df"
    "\U0002a700-\U0002b81f\U0002b920-\U0002ceaf\U0002f800-\U0002fa1f]"
)
Pieces = tuple[str, ...]


def clean(char: str) -> str:
    """Drops a control character, turns any whitespace into a plain space."""
    if char in "\t\n\r":
        return " "
    # 看不见的字符会让同一个词有多种写法；未分配的码位引擎则会保留
    if char == "\ufffd" or unicodedata.category(char) in ("Cc", "Cf", "Co"):
        return ""
    return " " if char.isspace() else char


def normalise(text: str, lowercase: bool = True) -> str:
    """Writes text in the one way that the vocabulary knows."""
    text = "".join(map(clean, text))
    # 中文词之间没有空格：在每个汉字两边加空格，让它自成一词
    text = IDEOGRAPH.sub(r" \g<0> ", text)
    if lowercase:
        # 先分解再去掉重音符号，é 与 e 才会共用同一个片段
        text = unicodedata.normalize("NFD", text)
        text = "".join(c for c in text if unicodedata.category(c) != "Mn")
        # 逐字转小写：整串转换会把词尾的 Σ 变成 ς，而引擎不看位置
        text = "".join(map(str.lower, text))
    return text


def is_punctuation(char: str) -> bool:
    """Tells whether a character always stands alone, as punctuation does."""
    # Unicode 把 $ + = 等归为符号而非标点，BERT 同样把它们单独切开
    return char in string.punctuation or unicodedata.category(char)[0] == "P"


def split_words(text: str) -> list[str]:
    """Splits normalised text at spaces and around every punctuation mark."""
    return "".join(f" {c} " if is_punctuation(c) else c for c in text).split()


def count_pairs(words: Mapping[Pieces, int]) -> Counter[Pieces]:
    """Counts neighbouring pieces, given how often each word occurs."""
    pairs: Counter[Pieces] = Counter()
    for pieces, count in words.items():
        for pair in pairwise(pieces):
            pairs[pair] += count
    return pairs


def merge(pieces: Pieces, pair: Pieces) -> Pieces:
    """Joins a pair wherever it stands in a word, from left to right."""
    merged: list[str] = []
    for piece in pieces:
        if merged and (merged[-1], piece) == pair:
            merged[-1] += piece.removeprefix("##")
        else:
            merged.append(piece)
    return tuple(merged)


def train(
    lines: Iterable[str],
    vocab_size: int,
    lowercase: bool = True,
    *,
    min_count: int = 2,
) -> list[str]:
    """Learns a vocabulary from lines of text.

    Returns:
        The pieces in the order of their ids: special tokens, characters (all
        of them, even beyond `vocab_size`), their "##" forms, then the pieces
        merged from pairs seen at least `min_count` times, first to last.
    """
    texts = (normalise(line, lowercase) for line in lines)
    counts = Counter(word for text in texts for word in split_words(text))
    chars = sorted(set("".join(counts)))
    # 汉字和标点总是独自成词，不会出现在词中，不必占用 ## 的编号
    inside = [c for c in chars if not (IDEOGRAPH.match(c) or is_punctuation(c))]
    inner = [f"##{c}" for c in inside]
    words = {(w[0], *(f"##{c}" for c in w[1:])): n for w, n in counts.items()}
    # 只用来分平局：照引擎训练时的编号，## 形式在前，与词表的顺序不同
    rank = {piece: i for i, piece in enumerate(inner + chars)}
    merged: list[str] = []
    while len(SPECIAL_TOKENS) + len(rank) < vocab_size:
        pairs = count_pairs(words)
        if not pairs or max(pairs.values()) < min_count:
            break
        # 次数相同时取编号小的一对，结果才与语料的先后顺序无关
        pair = min(pairs, key=lambda p: (-pairs[p], rank[p[0]], rank[p[1]]))
        words = {merge(pieces, pair): n for pieces, n in words.items()}
        merged.append(pair[0] + pair[1].removeprefix("##"))
        rank[merged[-1]] = len(rank)
    return SPECIAL_TOKENS + chars + inner + merged


def encode_word(word: str, vocab: Container[str]) -> list[str]:
    """Cuts a word into pieces, each time the longest that is known."""
    if len(word) > MAX_WORD_LENGTH:
        return ["[UNK]"]
    pieces: list[str] = []
    start = 0
    while start < len(word):
        prefix = "##" if start else ""
        end = len(word)
        while end > start and prefix + word[start:end] not in vocab:
            end -= 1
        # 有一处拼不出来，整个词就是 [UNK]：半个词会误导模型
        if end == start:
            return ["[UNK]"]
        pieces.append(prefix + word[start:end])
        start = end
    return pieces


def encode(
    text: str, vocab: Container[str], lowercase: bool = True
) -> list[str]:
    """Cuts text into pieces; with a set or a dict for `vocab`, quickly.

    Example:
        >>> vocab = train(["hug hug hug", "pug pug hugs"], vocab_size=100)
        >>> " ".join(vocab[5:])  # u-g 6 times, h-ug 4, p-ug 2, hug-s only 1
        'g h p s u ##g ##h ##p ##s ##u ##ug hug pug'
        >>> encode("Hugs, PUG! 抱", vocab)
        ['hug', '##s', '[UNK]', 'pug', '[UNK]', '[UNK]']
    """
    words = split_words(normalise(text, lowercase))
    return [piece for word in words for piece in encode_word(word, vocab)]
