"""Files to token shards, on all cores, in bounded memory."""

import os
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import dataclass, field, replace
from multiprocessing import get_context
from pathlib import Path

from bert_from_scratch import atomic
from bert_from_scratch.corpus.documents import (
    LOOK_FIRST,
    Chunk,
    ReadingOptions,
    find_layout,
    read_chunks,
)
from bert_from_scratch.corpus.progress import ProgressReport, keep_quiet
from bert_from_scratch.data.chunk_encoder import ChunkEncoder, EncodedChunk
from bert_from_scratch.data.duplicates import SeenLines
from bert_from_scratch.data.shards_writer import ShardsWriter
from bert_from_scratch.tokenizer import WordPieceTokenizer

NEAR_EMPTY = 3


@dataclass
class Counts:
    """What is counted on the way, for the report."""

    structures: Counter[str] = field(default_factory=Counter)
    num_lines: int = 0
    num_duplicates: int = 0
    num_near_empty: int = 0
    num_unknown: int = 0
    num_special: int = 0


def prepare(
    paths: Sequence[Path],
    tokenizer_dir: Path,
    out: Path,
    *,
    options: ReadingOptions = LOOK_FIRST,
    drops_duplicates: bool = False,
    marks_words: bool = False,
    num_workers: int | None = None,
    progress: ProgressReport = keep_quiet,
) -> Counts:
    """Turns text files into token shards.

    Args:
        paths: Files, as `find_files` lists them.
        tokenizer_dir: Whose ids to write; copied into the shards.
        out: The directory to make; nothing appears there before it is whole.
        options: How files are laid out; by default found by looking.
        drops_duplicates: Whether a line seen before is left out.
        marks_words: Whether Chinese word starts are stored.
        num_workers: Processes; None: one a core.
        progress: Told how far the work is.
    """
    # 先在这里读一遍：词表不对，要在启动各进程之前就说清楚
    tokenizer = WordPieceTokenizer.load(tokenizer_dir)
    counts = Counts()
    total = sum(path.stat().st_size for path in paths)
    chunks = _read_all(paths, options, counts, drops_duplicates)
    with atomic.new_directory(out) as scratch_dir:
        done = 0
        with ShardsWriter(scratch_dir, marks_words) as writer:
            for num_bytes, encoded in _encode_all(
                chunks, tokenizer_dir, marks_words, num_workers
            ):
                writer.write(encoded)
                counts.num_unknown += encoded.num_unknown
                counts.num_special += encoded.num_special
                done += num_bytes
                progress("encoding text", done, total)
            writer.finish(tokenizer)
    return counts


def _read_all(
    paths: Iterable[Path],
    options: ReadingOptions,
    counts: Counts,
    drops_duplicates: bool,
) -> Iterator[Chunk]:
    """Reads all files, counting and, if asked to, dropping lines."""
    seen = SeenLines()
    for path in paths:
        layout = find_layout(path, options)
        counts.structures[str(layout.structure)] += 1
        for chunk in read_chunks(path, layout, options.errors):
            yield _filter(chunk, seen, counts, drops_duplicates)


def _filter(
    chunk: Chunk, seen: SeenLines, counts: Counts, drops_duplicates: bool
) -> Chunk:
    is_known = [seen.add(line) for line in chunk.paragraphs]
    counts.num_lines += len(is_known)
    counts.num_duplicates += sum(is_known)
    counts.num_near_empty += sum(
        len(line) <= NEAR_EMPTY for line in chunk.paragraphs
    )
    if not drops_duplicates:
        return chunk
    # 丢掉的行改为空文本而不删除：文档的起点标记仍由编码器往后传
    kept = [
        "" if known else line
        for line, known in zip(chunk.paragraphs, is_known, strict=True)
    ]
    return replace(chunk, paragraphs=kept)


def _encode_all(
    chunks: Iterator[Chunk],
    tokenizer_dir: Path,
    marks_words: bool,
    num_workers: int | None,
) -> Iterator[tuple[int, EncodedChunk]]:
    """Encodes chunks in parallel; yields them in their order."""
    num_workers = num_workers or os.cpu_count() or 1
    with ProcessPoolExecutor(
        num_workers,
        # 不用 fork：分词引擎有自己的线程，复制到子进程会死锁
        mp_context=get_context("spawn"),
        initializer=_start_worker,
        initargs=(tokenizer_dir, marks_words),
    ) as pool:
        waiting: deque[tuple[int, Future[EncodedChunk]]] = deque()
        for chunk in chunks:
            waiting.append((chunk.num_bytes, pool.submit(_encode, chunk)))
            # 在途的块数有上限：读得再快，内存也不会堆积
            while len(waiting) > 3 * num_workers:
                num_bytes, future = waiting.popleft()
                yield num_bytes, future.result()
        for num_bytes, future in waiting:
            yield num_bytes, future.result()


_encoder: ChunkEncoder | None = None


def _start_worker(tokenizer_dir: Path, marks_words: bool) -> None:
    global _encoder
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    _encoder = ChunkEncoder(tokenizer_dir, marks_words=marks_words)


def _encode(chunk: Chunk) -> EncodedChunk:
    assert _encoder is not None
    return _encoder.encode(chunk)
