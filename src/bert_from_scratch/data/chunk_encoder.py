"""One chunk of text to ids: the work of one `bert prepare` process."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bert_from_scratch.corpus.documents import Chunk
from bert_from_scratch.tokenizer import BulkEncoder, WordPieceTokenizer
from bert_from_scratch.tokenizer.vocabulary import SPECIAL_TOKENS


@dataclass(frozen=True)
class EncodedChunk:
    """The sentences of a chunk as ids.

    Attributes:
        ids: All ids, flat, as bytes of the tokenizer's id type.
        lengths: Tokens of every sentence, uint32; none is 0.
        starts: Whether a sentence begins a document, bool.
        word_starts: Whether a token begins a word, bool; None: not asked.
        owes_start: Whether a document began in this chunk, but none of its
            sentences had a token.
        num_unknown: How many ids are [UNK].
        num_special: How often a special token was written out as text.
    """

    ids: bytes
    lengths: NDArray[np.uint32]
    starts: NDArray[np.bool_]
    word_starts: NDArray[np.bool_] | None
    owes_start: bool
    num_unknown: int
    num_special: int


class ChunkEncoder:
    """Splits paragraphs into sentences and encodes them."""

    def __init__(self, tokenizer_dir: Path, *, marks_words: bool) -> None:
        self._tokenizer = WordPieceTokenizer.load(tokenizer_dir)
        self._bulk = BulkEncoder(self._tokenizer)
        self._marks_words = marks_words

    def encode(self, chunk: Chunk) -> EncodedChunk:
        """Encodes a chunk; sentences without any token are left out."""
        sentences, starts = _split(chunk)
        encoded = self._bulk.encode_lines(sentences)
        is_kept = encoded.lengths > 0
        kept_starts, owes_start = _move_starts(starts, is_kept)
        word_starts = None
        if self._marks_words:
            word_starts = self._mark_words(sentences)
        return EncodedChunk(
            encoded.ids.tobytes(),
            encoded.lengths[is_kept].astype(np.uint32),
            kept_starts,
            word_starts,
            owes_start,
            int((encoded.ids == self._tokenizer.unk_token_id).sum()),
            sum(
                sentence.count(token)
                for sentence in sentences
                if "[" in sentence
                for token in SPECIAL_TOKENS
            ),
        )

    def _mark_words(self, sentences: Sequence[str]) -> NDArray[np.bool_]:
        """Finds word starts by a Chinese word segmenter."""
        # 分词器只在需要时导入：英文用户不必安装
        import rjieba

        encodings = self._tokenizer.literal_engine.encode_batch(
            sentences, add_special_tokens=False
        )
        marks: list[bool] = []
        for sentence, encoding in zip(sentences, encodings, strict=True):
            begins = {start for _, start, _ in rjieba.tokenize(sentence)}
            marks += [
                # 汉字看分词边界；西文仍按 ## 判断，与英文全词遮盖一致
                start in begins if _is_han(token) else not _is_inside(token)
                for token, (start, _) in zip(
                    encoding.tokens, encoding.offsets, strict=True
                )
            ]
        return np.array(marks, dtype=np.bool_)


def _split(chunk: Chunk) -> tuple[list[str], list[bool]]:
    if not chunk.splits:
        return chunk.paragraphs, chunk.starts
    from sentencex import segment

    sentences: list[str] = []
    starts: list[bool] = []
    for paragraph, is_start in zip(chunk.paragraphs, chunk.starts, strict=True):
        found = segment(chunk.language, paragraph)
        sentences += found
        starts += [is_start] + [False] * (len(found) - 1)
    return sentences, starts


def _move_starts(
    starts: Sequence[bool], is_kept: NDArray[np.bool_]
) -> tuple[NDArray[np.bool_], bool]:
    """Passes the start of a document on when its first sentence is empty."""
    moved: list[bool] = []
    pending = False
    for is_start, kept in zip(starts, is_kept, strict=True):
        pending = pending or is_start
        if kept:
            moved.append(pending)
            pending = False
    return np.array(moved, dtype=np.bool_), pending


def _is_inside(token: str) -> bool:
    return token.startswith("##")


def _is_han(token: str) -> bool:
    return len(token) == 1 and "\u3400" <= token <= "\u9fff"
