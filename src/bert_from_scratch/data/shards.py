"""Token shards: the ids of a corpus in flat, memory-mapped files.

tokens.bin      ids, uint16 or uint32, sentence after sentence
sentences.bin   tokens of every sentence, uint32
documents.bin   sentences of every document, uint32
words.bin       one bit a token: does a word start here? (only --words)
meta.json       version, tokenizer, counts, sizes and checksums
tokenizer/      the tokenizer that made the ids
"""

import hashlib
import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from bert_from_scratch import atomic
from bert_from_scratch.config import read_json
from bert_from_scratch.data.counter_random import uniform
from bert_from_scratch.errors import BertError
from bert_from_scratch.tokenizer import WordPieceTokenizer

FORMAT_VERSION = 1
TOKENS, SENTENCES, DOCUMENTS, WORDS = (
    "tokens.bin",
    "sentences.bin",
    "documents.bin",
    "words.bin",
)
TOKENIZER_DIR = "tokenizer"


@dataclass(frozen=True)
class ShardsMeta:
    """What `meta.json` says.

    Attributes:
        version: Of this format.
        dtype: Of the ids, "uint16" or "uint32".
        vocab_size: Ids are below it.
        tokenizer_sha256: Of the tokenizer's vocabulary and rules.
        num_tokens: Ids in all, without special tokens.
        num_sentences: Sentences in all.
        num_documents: Documents in all.
        files: Size and SHA-256 of every binary file.
    """

    version: int
    dtype: str
    vocab_size: int
    tokenizer_sha256: str
    num_tokens: int
    num_sentences: int
    num_documents: int
    files: dict[str, dict[str, Any]]

    @property
    def sha256(self) -> str:
        """Of all files together: another order or boundary is other data."""
        # 只看词元不够：文档边界变了，句对与次序就都变了
        text = json.dumps({name: f["sha256"] for name, f in self.files.items()})
        return hashlib.sha256(text.encode()).hexdigest()

    def save(self, path: Path) -> None:
        """Writes `meta.json`; it comes last, and makes the data valid."""
        atomic.write_text(path, json.dumps(asdict(self), indent=2) + "\n")


@dataclass(frozen=True)
class Documents:
    """Some documents of a corpus, as ranges of sentences.

    Attributes:
        first: Number of each document's first sentence, int64.
        last: Number after its last sentence, int64.
    """

    first: NDArray[np.int64]
    last: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.first)

    def split(self, share: float, seed: int) -> tuple[Self, Self]:
        """Divides documents at random; returns the rest, and the share."""
        # 抽签只看文档编号：无论何时、几个进程，留出的都是同一批
        is_taken = uniform(seed, _SPLIT, np.arange(len(self))) < share
        return (
            type(self)(self.first[~is_taken], self.last[~is_taken]),
            type(self)(self.first[is_taken], self.last[is_taken]),
        )


_SPLIT = 0x5917


@dataclass(frozen=True)
class TokenShards:
    """A corpus as ids.

    Attributes:
        directory: Where it lies.
        meta: Its description.
        tokens: All ids, memory-mapped, [num_tokens].
        sentence_ends: Offsets of sentences in `tokens`, int64
            [num_sentences + 1], from 0 to num_tokens.
        document_ends: Offsets of documents in sentences, int64
            [num_documents + 1].
        word_starts: Bits, 8 a byte, or None.
    """

    directory: Path
    meta: ShardsMeta
    tokens: NDArray[Any]
    sentence_ends: NDArray[np.int64]
    document_ends: NDArray[np.int64]
    word_starts: NDArray[np.uint8] | None

    @classmethod
    def open(cls, directory: str | Path) -> "TokenShards":
        """Opens shards after checking sizes and checksums.

        Raises:
            BertError: Not shards, of another version, or damaged.
        """
        directory = Path(directory)
        meta = _read_meta(directory)
        for name, expected in meta.files.items():
            _check_file(directory / name, expected)
        words_path = directory / WORDS
        return cls(
            directory,
            meta,
            np.memmap(directory / TOKENS, dtype=meta.dtype, mode="r"),
            _read_ends(directory / SENTENCES),
            _read_ends(directory / DOCUMENTS),
            np.memmap(words_path, dtype=np.uint8, mode="r")
            if WORDS in meta.files
            else None,
        )

    def documents(self) -> "Documents":
        """Returns all documents."""
        return Documents(self.document_ends[:-1], self.document_ends[1:])

    @property
    def tokenizer_dir(self) -> Path:
        """Where the tokenizer lies that made the ids."""
        return self.directory / TOKENIZER_DIR


def fingerprint(tokenizer: WordPieceTokenizer) -> str:
    """Returns the SHA-256 of all that decides a tokenizer's ids."""
    return hashlib.sha256(tokenizer.engine.to_str().encode()).hexdigest()


def describe_file(path: Path) -> dict[str, Any]:
    """Returns the size and SHA-256 of a file, as `meta.json` keeps them."""
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return {"bytes": path.stat().st_size, "sha256": digest}


def _read_meta(directory: Path) -> ShardsMeta:
    path = directory / "meta.json"
    if not path.is_file():
        raise BertError(
            f"{directory} holds no token shards: it has no meta.json.",
            hint="make them: bert prepare FILES --tokenizer DIR --out DATA",
        )
    values = read_json(path)
    if values.get("version") != FORMAT_VERSION:
        raise BertError(
            f"{directory} has shards of version {values.get('version')}; "
            f"this program reads version {FORMAT_VERSION}.",
            hint="run bert prepare again",
        )
    try:
        meta = ShardsMeta(**values)
    except TypeError as error:
        raise BertError(f"{path} is damaged: {error}.") from error
    numbers = (meta.vocab_size, meta.num_tokens, meta.num_documents)
    are_numbers = all(isinstance(number, int) for number in numbers)
    if meta.dtype not in ("uint16", "uint32") or not are_numbers:
        raise BertError(f"{path} is damaged.", hint="run bert prepare again")
    return meta


def _check_file(path: Path, expected: dict[str, Any]) -> None:
    hint = "the data is damaged; run bert prepare again"
    if not path.is_file():
        raise BertError(f"{path} is missing.", hint=hint)
    size = path.stat().st_size
    if size != expected["bytes"]:
        raise BertError(
            f"{path} has {size} bytes instead of {expected['bytes']}.",
            hint=hint,
        )
    if describe_file(path)["sha256"] != expected["sha256"]:
        raise BertError(f"{path} does not match its checksum.", hint=hint)


def _read_ends(path: Path) -> NDArray[np.int64]:
    lengths = np.fromfile(path, dtype=np.uint32)
    ends = np.zeros(len(lengths) + 1, dtype=np.int64)
    # 前缀和：第 i 项就是第 i 句（篇）的起点，切片只需两次取值
    np.cumsum(lengths, out=ends[1:])
    return ends
