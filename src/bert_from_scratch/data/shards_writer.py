"""Writing token shards as the text streams by."""

from contextlib import ExitStack
from pathlib import Path
from typing import BinaryIO, Self

import numpy as np
from numpy.typing import NDArray

from bert_from_scratch.data.chunk_encoder import EncodedChunk
from bert_from_scratch.data.shards import (
    DOCUMENTS,
    FORMAT_VERSION,
    SENTENCES,
    TOKENIZER_DIR,
    TOKENS,
    WORDS,
    ShardsMeta,
    describe_file,
    fingerprint,
)
from bert_from_scratch.errors import BertError
from bert_from_scratch.tokenizer import WordPieceTokenizer
from bert_from_scratch.tokenizer.bulk import id_dtype


class ShardsWriter:
    """Appends encoded chunks to the files of a shards directory."""

    def __init__(self, directory: Path, marks_words: bool) -> None:
        self._directory = directory
        self._names = [TOKENS, SENTENCES, DOCUMENTS]
        self._names += [WORDS] if marks_words else []
        self._files: dict[str, BinaryIO] = {}
        self._stack = ExitStack()
        self._num_sentences = 0
        self._num_documents = 0
        # 当前文档还没结束：它的句数要等下一篇开始才知道
        self._sentences_so_far = 0
        self._owes_start = False
        self._bits = np.empty(0, dtype=np.bool_)

    def __enter__(self) -> Self:
        for name in self._names:
            file = (self._directory / name).open("wb")
            self._files[name] = self._stack.enter_context(file)
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def write(self, chunk: EncodedChunk) -> None:
        """Appends one chunk."""
        if len(chunk.lengths):
            starts = chunk.starts.copy()
            starts[0] |= self._owes_start
            self._owes_start = False
            self._files[TOKENS].write(chunk.ids)
            self._files[SENTENCES].write(chunk.lengths.tobytes())
            self._write_documents(np.flatnonzero(starts), len(starts))
            self._num_sentences += len(starts)
        self._owes_start |= chunk.owes_start
        if chunk.word_starts is not None:
            self._write_bits(chunk.word_starts)

    def _write_documents(self, starts: NDArray[np.intp], count: int) -> None:
        """Writes the sizes of the documents that end in this chunk.

        Args:
            starts: Sentences of the chunk that begin a document.
            count: Number of sentences in the chunk.
        """
        edges = np.concatenate([[-self._sentences_so_far], starts])
        sizes = np.diff(edges)
        finished = sizes[sizes > 0].astype(np.uint32)
        self._files[DOCUMENTS].write(finished.tobytes())
        self._num_documents += len(finished)
        self._sentences_so_far = count - int(edges[-1])

    def _write_bits(self, marks: NDArray[np.bool_]) -> None:
        """Writes whole bytes of bits; keeps the rest for the next chunk."""
        bits = np.concatenate([self._bits, marks])
        whole = len(bits) - len(bits) % 8
        self._files[WORDS].write(np.packbits(bits[:whole]).tobytes())
        self._bits = bits[whole:]

    def finish(self, tokenizer: WordPieceTokenizer) -> ShardsMeta:
        """Closes the files, adds the tokenizer and, last, `meta.json`."""
        # 最后一篇没有下一篇来宣告它的结束，在此补记
        self._write_documents(np.array([0]), 0)
        if WORDS in self._files:
            self._files[WORDS].write(np.packbits(self._bits).tobytes())
        self._stack.close()
        if not self._num_sentences:
            raise BertError(
                "The files hold no text.", hint="are they empty, or blank?"
            )
        tokenizer.save(self._directory / TOKENIZER_DIR)
        dtype = id_dtype(tokenizer)
        files = {n: describe_file(self._directory / n) for n in self._names}
        meta = ShardsMeta(
            version=FORMAT_VERSION,
            dtype=dtype.name,
            vocab_size=len(tokenizer),
            tokenizer_sha256=fingerprint(tokenizer),
            num_tokens=files[TOKENS]["bytes"] // dtype.itemsize,
            num_sentences=self._num_sentences,
            num_documents=self._num_documents,
            files=files,
        )
        meta.save(self._directory / "meta.json")
        return meta
