"""WordPieceTokenizer: a typed face on the Rust engine."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import tokenizers

from bert_from_scratch.corpus.files import DecodeErrors
from bert_from_scratch.corpus.progress import ProgressReport, keep_quiet
from bert_from_scratch.corpus.source import open_source
from bert_from_scratch.errors import BertError
from bert_from_scratch.tokenizer import storage
from bert_from_scratch.tokenizer.engine import UNCASED, TextRules, build_engine
from bert_from_scratch.tokenizer.training import train_vocabulary
from bert_from_scratch.tokenizer.truncation import lengths_to_keep
from bert_from_scratch.tokenizer.vocabulary import (
    CLS,
    MASK,
    PAD,
    SEP,
    UNK,
    check_vocabulary,
)


@dataclass(frozen=True)
class Encoding:
    """One text or pair as BERT reads it; all lists have one entry a token.

    Attributes:
        tokens: The WordPieces, special tokens included.
        input_ids: Their numbers in the vocabulary.
        token_type_ids: 0 in segment A, 1 in segment B.
        attention_mask: 1, since nothing here is padding.
        offsets: (start, end) in the text that the token came from; (0, 0)
            for special tokens that were added.
        word_ids: Which word of its text the token belongs to; None for
            special tokens that were added.
    """

    tokens: list[str]
    input_ids: list[int]
    token_type_ids: list[int]
    attention_mask: list[int]
    offsets: list[tuple[int, int]]
    word_ids: list[int | None]

    def __len__(self) -> int:
        return len(self.input_ids)


class WordPieceTokenizer:
    """Text to WordPiece ids and back, exactly as Hugging Face's BERT does it.

    >>> tokenizer = WordPieceTokenizer.train([Path("corpus")], vocab_size=8000)
    >>> tokenizer.encode("The cat sat.").tokens
    ['[CLS]', 'the', 'cat', 'sat', '.', '[SEP]']
    """

    def __init__(
        self,
        tokens: Sequence[str],
        rules: TextRules = UNCASED,
        max_length: int | None = 512,
    ) -> None:
        """Makes a tokenizer of a vocabulary.

        Args:
            tokens: WordPieces in id order, the special ones included.
            rules: How text is cleaned and split into words.
            max_length: Longest sequence of the model; None: no limit.
        """
        check_vocabulary(tokens, "The vocabulary")
        self._set_up(build_engine(tokens, rules), max_length)

    def _set_up(
        self, engine: tokenizers.Tokenizer, max_length: int | None
    ) -> None:
        self.max_length = max_length
        self.engine = engine
        # 另备一个把 [SEP] 等字样当普通文字的引擎：语料里的字样不是指令
        self.literal_engine = tokenizers.Tokenizer.from_str(engine.to_str())
        self.literal_engine.encode_special_tokens = True

    @classmethod
    def train(
        cls,
        files_or_lines: Path | Iterable[str | Path],
        vocab_size: int = 30522,
        *,
        lowercase: bool = True,
        strip_accents: bool | None = None,
        split_chinese: bool = True,
        min_count: int = 2,
        min_char_count: int = 1,
        errors: DecodeErrors = "strict",
        progress: ProgressReport = keep_quiet,
    ) -> Self:
        """Learns a vocabulary from text, streaming; same text, same result.

        Args:
            files_or_lines: `Path` objects (files or folders), or strings,
                which are lines of text.
            vocab_size: Number of WordPieces to learn, the special ones and
                all characters included.
            lowercase: Whether to make an uncased vocabulary.
            strip_accents: Whether to drop accents; None: as `lowercase`.
            split_chinese: Whether each Chinese character is a word.
            min_count: How often two pieces must meet to be merged.
            min_char_count: How often a character must occur to be kept.
            errors: "strict" or "replace", for bytes that are not UTF-8.
            progress: Told how far the work is.
        """
        rules = TextRules(lowercase, strip_accents, split_chinese)
        with open_source(files_or_lines, errors) as source:
            tokens = train_vocabulary(
                source,
                vocab_size,
                rules,
                min_count=min_count,
                min_char_count=min_char_count,
                progress=progress,
            )
        return cls(tokens, rules)

    @classmethod
    def load(cls, directory: str | Path) -> Self:
        """Loads `tokenizer.json`, or `vocab.txt` and its settings."""
        tokenizer = cls.__new__(cls)
        tokenizer._set_up(*storage.load(Path(directory)))
        return tokenizer

    def save(self, directory: str | Path) -> None:
        """Writes the three files that Hugging Face reads."""
        storage.save(self.engine, self.max_length, Path(directory))

    def __len__(self) -> int:
        return self.engine.get_vocab_size()

    @property
    def vocabulary(self) -> dict[str, int]:
        """All WordPieces and their ids, added tokens included."""
        return self.engine.get_vocab()

    def token_to_id(self, token: str) -> int:
        """Returns the id of a WordPiece, that of [UNK] when it has none."""
        found = self.engine.token_to_id(token)
        return self.unk_token_id if found is None else found

    def id_to_token(self, token_id: int) -> str:
        """Returns the WordPiece of an id; raises for one out of range."""
        is_inside = 0 <= token_id < len(self)
        token = self.engine.id_to_token(token_id) if is_inside else None
        if token is None:
            raise BertError(
                f"Token id {token_id} lies outside 0 ... {len(self) - 1}."
            )
        return token

    @property
    def pad_token_id(self) -> int:
        """The id of [PAD]."""
        return self._special_id(PAD)

    @property
    def unk_token_id(self) -> int:
        """The id of [UNK]."""
        return self._special_id(UNK)

    @property
    def cls_token_id(self) -> int:
        """The id of [CLS]."""
        return self._special_id(CLS)

    @property
    def sep_token_id(self) -> int:
        """The id of [SEP]."""
        return self._special_id(SEP)

    @property
    def mask_token_id(self) -> int:
        """The id of [MASK]."""
        return self._special_id(MASK)

    def _special_id(self, token: str) -> int:
        found = self.engine.token_to_id(token)
        assert found is not None, "checked when the vocabulary was read"
        return found

    def encode(
        self,
        text: str,
        pair: str | None = None,
        max_length: int | None = None,
        *,
        specials_are_text: bool = False,
        add_special_tokens: bool = True,
    ) -> Encoding:
        """Encodes a text, or a pair of texts, for BERT.

        Args:
            text: Segment A.
            pair: Segment B.
            max_length: Truncates to this many tokens, special ones
                included, taking from the longer segment first. When None,
                a text over the model's maximum is an error.
            specials_are_text: Whether "[SEP]" or "[MASK]" written in the
                text are plain characters; by default they are the special
                tokens, as in Hugging Face.
            add_special_tokens: Whether to add [CLS] and [SEP].
        """
        return self.encode_batch(
            [text],
            None if pair is None else [pair],
            max_length,
            specials_are_text=specials_are_text,
            add_special_tokens=add_special_tokens,
        )[0]

    def encode_batch(
        self,
        texts: Sequence[str],
        pairs: Sequence[str] | None = None,
        max_length: int | None = None,
        *,
        specials_are_text: bool = False,
        add_special_tokens: bool = True,
    ) -> list[Encoding]:
        """Encodes many texts, in parallel; arguments as in `encode`."""
        if pairs is not None and len(pairs) != len(texts):
            raise ValueError(f"{len(texts)} texts, but {len(pairs)} pairs")
        engine = self.literal_engine if specials_are_text else self.engine
        firsts = engine.encode_batch(
            [_check_text(text) for text in texts], add_special_tokens=False
        )
        seconds: Sequence[tokenizers.Encoding | None] = [None] * len(firsts)
        if pairs is not None:
            seconds = engine.encode_batch(
                [_check_text(pair) for pair in pairs], add_special_tokens=False
            )
        encodings = []
        for first, second in zip(firsts, seconds, strict=True):
            self._truncate(first, second, max_length, add_special_tokens)
            joined = engine.post_process(first, second, add_special_tokens)
            encodings.append(_to_encoding(joined))
        return encodings

    def _truncate(
        self,
        first: tokenizers.Encoding,
        second: tokenizers.Encoding | None,
        max_length: int | None,
        add_special_tokens: bool,
    ) -> None:
        num_special = 0
        if add_special_tokens:
            num_special = 2 if second is None else 3
        num_first = len(first.ids)
        num_second = 0 if second is None else len(second.ids)
        total = num_first + num_second + num_special
        if max_length is None:
            if self.max_length is not None and total > self.max_length:
                raise BertError(
                    f"The text has {total} tokens, over the maximum of "
                    f"{self.max_length}.",
                    hint=f"truncate it: --max-length {self.max_length} "
                    f"(max_length={self.max_length} from Python)",
                )
            return
        if max_length < num_special:
            raise BertError(
                f"max_length={max_length} leaves no room for the "
                f"{num_special} special tokens."
            )
        keep_first, keep_second = lengths_to_keep(
            num_first, num_second, max_length - num_special
        )
        first.truncate(keep_first)
        if second is not None:
            second.truncate(keep_second)

    def decode(
        self, ids: Sequence[int], *, skip_special_tokens: bool = True
    ) -> str:
        """Joins WordPieces back to text.

        Args:
            ids: Token ids; one out of range is an error.
            skip_special_tokens: Whether [CLS], [SEP] and so on are left out.
        """
        for token_id in ids:
            self.id_to_token(token_id)
        return self.engine.decode(
            list(ids), skip_special_tokens=skip_special_tokens
        )


def _check_text(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise BertError(
            f"The text has a lone surrogate at character {error.start}; it "
            "is no valid Unicode.",
            hint='repair it: text.encode("utf-8", "replace").decode()',
        ) from error
    return text


def _to_encoding(encoding: tokenizers.Encoding) -> Encoding:
    return Encoding(
        tokens=encoding.tokens,
        input_ids=encoding.ids,
        token_type_ids=encoding.type_ids,
        attention_mask=encoding.attention_mask,
        offsets=encoding.offsets,
        word_ids=encoding.word_ids,
    )
