"""Tokenizer speed beside the bare `tokenizers` engine, on real text.

    python benchmarks/tokenizer.py [--megabytes 137] [--repeat 10]

Training is timed in a fresh process each, which also gives the peak memory.
Encoding is timed per CPU second, block by block in turn, and every line's ids
are compared.
"""

import argparse
import itertools
import json
import lzma
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, trainers

import report
from bert_from_scratch import WordPieceTokenizer
from bert_from_scratch.tokenizer import BulkEncoder
from bert_from_scratch.tokenizer.vocabulary import (
    SPECIAL_TOKENS,
    read_vocabulary,
)

VOCAB_SIZE = 30522
LINES_A_BLOCK = 2000


def main() -> None:
    """Runs all parts, or in a child process one training."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=int, default=137)
    parser.add_argument("--repeat", type=int, default=10)
    parser.add_argument(
        "--out", type=Path, default=Path("build/tokenizer.json")
    )
    parser.add_argument("--train", nargs=3, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.train:
        who, path, times = arguments.train
        print(json.dumps(measure_training(who, [Path(path)] * int(times))))
        return
    data_dir = report.data_dir()
    with tempfile.TemporaryDirectory() as folder:
        english = unpack(data_dir, "wiki_en", folder, arguments.megabytes)
        chinese = unpack(data_dir, "wiki_zh", folder, arguments.megabytes)
        rows = compare_training(english)
        rows += show_bounded_memory(english, arguments.repeat)
        vocabs = data_dir / "vocabs"
        rows += compare_encoding(
            "English", english, vocabs / "bert-base-uncased-vocab.txt"
        )
        rows += compare_encoding(
            "Chinese", chinese, vocabs / "bert-base-chinese-vocab.txt"
        )
    report.write(arguments.out, report.describe_run(), rows)


def unpack(data_dir: Path, name: str, folder: str, megabytes: int) -> Path:
    """Unpacks the beginning of a corpus to a plain file."""
    path = Path(folder) / f"{name}.txt"
    with lzma.open(data_dir / f"{name}.txt.xz") as file:
        data = file.read(megabytes * 1_000_000)
    path.write_bytes(data[: data.rfind(b"\n") + 1])
    return path


def measure_training(who: str, paths: list[Path]) -> dict[str, float]:
    """Trains once in this process."""
    start = time.perf_counter()
    if who == "ours":
        # 同一文件重复多次，模拟更大的语料：内存不应随之增长
        lines = (line for path in paths for line in path.open(encoding="utf-8"))
        WordPieceTokenizer.train(
            paths if len(paths) == 1 else lines, VOCAB_SIZE
        )
    else:
        engine = Tokenizer(models.WordPiece(unk_token="[UNK]"))
        engine.normalizer = normalizers.BertNormalizer()
        engine.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        trainer = trainers.WordPieceTrainer(
            vocab_size=VOCAB_SIZE,
            special_tokens=list(SPECIAL_TOKENS),
            show_progress=False,
        )
        engine.train([str(path) for path in paths], trainer)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"seconds": time.perf_counter() - start, "peak_mb": peak}


def run_training(who: str, path: Path, times: int = 1) -> dict[str, float]:
    """Trains in a fresh process."""
    command = [sys.executable, __file__, "--train", who, str(path), str(times)]
    output = subprocess.run(
        command, check=True, capture_output=True, text=True
    ).stdout
    measured: dict[str, float] = json.loads(output)
    return measured


def compare_training(path: Path) -> list[dict[str, Any]]:
    """Trains both in turn, three times, and compares the medians."""
    runs: dict[str, list[dict[str, float]]] = {"bare": [], "ours": []}
    for _ in range(3):
        for who, measured in runs.items():
            measured.append(run_training(who, path))
    seconds = {
        who: float(np.median([run["seconds"] for run in measured]))
        for who, measured in runs.items()
    }
    megabytes = path.stat().st_size / 1e6
    return [
        {
            "what": f"train {VOCAB_SIZE} on {megabytes:.0f} MB",
            "ours": f"{seconds['ours']:.1f} s",
            "engine": f"{seconds['bare']:.1f} s",
            "ratio": seconds["ours"] / seconds["bare"],
            "bar": "<= 1.2",
            "peak MB": max(run["peak_mb"] for run in runs["ours"]),
        }
    ]


def show_bounded_memory(path: Path, times: int) -> list[dict[str, Any]]:
    """Trains on the corpus several times over: memory must not follow."""
    measured = run_training("ours", path, times)
    megabytes = times * path.stat().st_size / 1e6
    return [
        {
            "what": f"train {VOCAB_SIZE} on {megabytes:.0f} MB, streamed",
            "ours": f"{measured['seconds']:.1f} s",
            "engine": "-",
            "ratio": "-",
            "bar": "peak < 2000",
            "peak MB": measured["peak_mb"],
        }
    ]


def blocks(path: Path) -> Iterator[list[str]]:
    """Yields the lines of a file, some thousand at a time."""
    with path.open(encoding="utf-8") as file:
        lines = (line.rstrip("\n") for line in file)
        while block := list(itertools.islice(lines, LINES_A_BLOCK)):
            yield block


def compare_encoding(
    language: str, path: Path, vocab_path: Path
) -> list[dict[str, Any]]:
    """Encodes every block by both, timing all threads; compares all ids."""
    tokenizer = WordPieceTokenizer(read_vocabulary(vocab_path))
    bulk = BulkEncoder(tokenizer)
    engine = tokenizer.literal_engine
    bare = ours = 0.0
    for block in blocks(path):
        start = time.process_time()
        encodings = [
            encoding.ids
            for encoding in engine.encode_batch_fast(
                block, add_special_tokens=False
            )
        ]
        middle = time.process_time()
        encoded = bulk.encode_lines(block)
        bare += middle - start
        ours += time.process_time() - middle
        assert encoded.ids.tolist() == list(itertools.chain(*encodings))
        assert encoded.lengths.tolist() == [len(ids) for ids in encodings]
    megabytes = path.stat().st_size / 1e6
    return [
        {
            "what": f"{language} text to ids, {megabytes:.0f} MB",
            "ours": f"{megabytes / ours:.2f} MB/CPU s",
            "engine": f"{megabytes / bare:.2f} MB/CPU s",
            "ratio": bare / ours,
            "bar": ">= 1.3" if language == "English" else ">= 1.0",
            "peak MB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            / 1024,
        }
    ]


if __name__ == "__main__":
    main()
