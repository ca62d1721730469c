"""Texts to vectors: ours beside those whose batches are padded.

    python benchmarks/embedding.py [--preset base] [--texts 256] [--rounds 3]
        [--device auto] [--reviews FILE] [--tokenizer DIR] [--out FILE.json]

One model with random weights is written to disk and loaded by all; all see the
same texts, IMDb's reviews or the lines of a file, truncated to 512 tokens, and
average over all tokens. Their vectors must agree: the table has the greatest
difference from ours on a CPU, one less the least cosine on a GPU. Measured are
the whole pipeline, text in, array out, and the model alone, on batches that lie
on the device. Hugging Face (HF) takes the texts in their order, and sorted by
length, which is the strongest that padding can do; both compiled and not, in
bf16 on a GPU. They take turns; the best of all rounds counts. A ratio over 1:
ours is faster.
"""

import argparse
import logging
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers

import report
import turns
from bert_from_scratch import BertConfig, BertModel, WordPieceTokenizer
from bert_from_scratch.data.batch import pack
from bert_from_scratch.data.token_budget import cut_by_tokens, longest_first
from bert_from_scratch.model.device import choose_device
from bert_from_scratch.model.inference import choose_batch_tokens
from bert_from_scratch.predict.embed import Embedder
from bert_from_scratch.tokenizer.vocabulary import read_vocabulary
from embedding_peer import (
    MAX_LENGTH,
    HuggingFace,
    OnnxRuntime,
    Peer,
    SentenceTransformers,
    Vectors,
    is_installed,
    share_of_padding,
)
from inference import SEED, interleave, read_review_texts, vocab_path

BATCH_SIZE = 32
# 排好序的批次没有多少填充，GPU 上更大的批对它有利
GPU_SORTED_BATCH_SIZE = 128
OURS = "ours"
DISTANCE = "distance"
MAX_DISTANCE, MAX_DIFFERENCE = 1e-3, 1e-4
IN_ORDER, SORTED = "HF in order", "HF sorted"


@dataclass(frozen=True)
class Contest:
    """What all contestants share.

    Attributes:
        texts: What to embed.
        lengths: Tokens of every text, the special ones included.
        model_dir: Model and tokenizer.
        device: Where to compute.
    """

    texts: list[str]
    lengths: list[int]
    model_dir: Path
    device: torch.device

    @property
    def is_gpu(self) -> bool:
        """Whether the device is one that is not to be waited for."""
        return self.device.type == "cuda"


def main() -> None:
    """Lets all of them embed the same texts."""
    # 截断是这里说好的，不必每轮都提醒；进度条会打乱表格
    logging.disable(logging.WARNING)
    transformers.utils.logging.disable_progress_bar()
    arguments = parse_arguments()
    device = choose_device(arguments.device)
    tokenizer = load_tokenizer(arguments.tokenizer)
    texts = read_texts(arguments.reviews, arguments.texts)
    lengths = list(map(len, tokenizer.encode_batch(texts, max_length=512)))
    with tempfile.TemporaryDirectory() as folder:
        config = BertConfig.preset(arguments.preset, vocab_size=len(tokenizer))
        torch.manual_seed(SEED)
        BertModel(config).save_pretrained(folder)
        tokenizer.save(folder)
        contest = Contest(texts, lengths, Path(folder), device)
        rows = hold(contest, arguments.rounds)
    run = report.describe_run(SEED)
    run["precision"] = "bf16" if contest.is_gpu else "fp32"
    run["preset"], run["tokens"] = arguments.preset, sum(lengths)
    report.write(arguments.out, run, rows)
    limit = MAX_DISTANCE if contest.is_gpu else MAX_DIFFERENCE
    # 先写结果再判：一家算得不同，不该让整次测量白跑
    others = [row["who"] for row in rows if row[DISTANCE] > limit]
    if others:
        sys.exit(f"error: further than {limit} from ours: {', '.join(others)}")


def parse_arguments() -> argparse.Namespace:
    """Reads the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--preset", default="base")
    parser.add_argument("--texts", type=int, default=256)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--device", default="auto")
    parser.add_argument(
        "--reviews", type=Path, help="one text a line, instead of IMDb"
    )
    parser.add_argument(
        "--tokenizer", type=Path, help="folder, instead of bert-base-uncased"
    )
    parser.add_argument("--out", type=Path, default="build/embedding.json")
    return parser.parse_args()


def load_tokenizer(folder: Path | None) -> WordPieceTokenizer:
    """Loads a tokenizer; None: the vocabulary of bert-base-uncased."""
    if folder is not None:
        return WordPieceTokenizer.load(folder)
    vocabulary = read_vocabulary(vocab_path(report.data_dir()))
    return WordPieceTokenizer(vocabulary)


def read_texts(path: Path | None, count: int) -> list[str]:
    """Reads the first lines of a file; None: draws reviews of IMDb."""
    if path is None:
        return read_review_texts(report.data_dir(), count)
    return path.read_text().rstrip("\n").split("\n")[:count]


def hold(contest: Contest, rounds: int) -> list[dict[str, Any]]:
    """Warms all up and compares their vectors, then times them in turn."""
    ours = Embedder.load(contest.model_dir, contest.device.type)
    peers = build_peers(contest)
    expected = ours.embed(contest.texts)
    whole = {OURS: pipeline(ours, contest)}
    alone = {OURS: our_model_alone(ours, contest)}
    distances = {OURS: 0.0}
    for name, peer in peers.items():
        begin = time.perf_counter()
        # 这一遍也是预热：所有形状都在这里编译好
        found = peer.embed(contest.texts)
        distances[name] = distance(found, expected, contest)
        seconds = time.perf_counter() - begin
        print(f"{name}: warm after {seconds:.1f} s", flush=True)
        whole[name] = pipeline(peer, contest)
        if isinstance(peer, HuggingFace):
            alone[name] = their_model_alone(peer, contest)
    turns.take(lambda: None)
    times = interleave(whole, 0, rounds)
    model_times = interleave(alone, 0, rounds)
    return [
        describe(name, peers.get(name), contest, times, model_times)
        | {DISTANCE: distances[name]}
        for name in whole
    ]


def build_peers(contest: Contest) -> dict[str, Peer]:
    """Makes all contestants that can take part here."""
    texts, folder = contest.texts, contest.model_dir
    sorted_size = GPU_SORTED_BATCH_SIZE if contest.is_gpu else BATCH_SIZE
    kinds = ((IN_ORDER, BATCH_SIZE), (SORTED, sorted_size))
    peers: dict[str, Peer] = {}
    for name, size in kinds:
        for is_compiled in (False, True):
            peers[f"{name}{' compiled' * is_compiled}"] = HuggingFace(
                folder,
                texts,
                contest.device,
                batch_size=size,
                is_sorted=name == SORTED,
                is_compiled=is_compiled,
            )
    if is_installed("sentence_transformers"):
        peers["sentence-transformers"] = SentenceTransformers(
            folder, texts, contest.device, sorted_size
        )
    else:
        print("sentence-transformers is left out: it is not installed")
    if contest.is_gpu:
        print("onnxruntime is left out: it is compared on a CPU alone")
    elif is_installed("onnx", "onnxscript", "onnxruntime"):
        for name, is_sorted in (("in order", False), ("sorted", True)):
            peers[f"onnxruntime {name}"] = OnnxRuntime(
                folder, texts, BATCH_SIZE, is_sorted=is_sorted
            )
    else:
        print("onnxruntime is left out: it needs onnx and onnxscript too")
    return peers


def pipeline(side: Peer | Embedder, contest: Contest) -> Callable[[int], Any]:
    """Returns a run from texts to an array of vectors."""
    return lambda _: side.embed(contest.texts)


def our_model_alone(ours: Embedder, contest: Contest) -> Callable[[int], Any]:
    """Returns a run of our model over batches that lie on the device."""
    size = choose_batch_tokens(None, contest.device)
    encodings = ours.tokenizer.encode_batch(
        contest.texts, max_length=MAX_LENGTH, specials_are_text=True
    )
    order = longest_first(contest.lengths)
    batches = [
        pack([encodings[row] for row in rows]).to(contest.device)
        for rows in cut_by_tokens(order, contest.lengths, size)
    ]

    def run(_: int) -> None:
        for batch in batches:
            ours.pool(batch)
        wait(contest)

    return run


def their_model_alone(
    peer: HuggingFace, contest: Contest
) -> Callable[[int], Any]:
    """Returns the same of a peer."""
    batches = []
    for numbers in peer.batches:
        inputs = peer.encode([contest.texts[number] for number in numbers])
        batches.append({k: v.to(contest.device) for k, v in inputs.items()})

    def run(_: int) -> None:
        for batch in batches:
            peer.pool(batch)
        wait(contest)

    return run


def wait(contest: Contest) -> None:
    """Waits until the device has done all its work."""
    if contest.is_gpu:
        torch.cuda.synchronize()


def distance(found: Vectors, expected: Vectors, contest: Contest) -> float:
    """Returns how far somebody's vectors are from ours."""
    if contest.is_gpu:
        lengths = np.linalg.norm(found, axis=1)
        lengths *= np.linalg.norm(expected, axis=1)
        return 1 - float(((found * expected).sum(1) / lengths).min())
    return float(np.abs(found - expected).max())


def describe(
    name: str,
    peer: Peer | None,
    contest: Contest,
    times: dict[str, float],
    model_times: dict[str, float],
) -> dict[str, Any]:
    """Makes the row of one contestant; a ratio over 1: ours is faster."""
    num_tokens = sum(contest.lengths)
    padding = share_of_padding(peer, contest.lengths) if peer else 0.0
    model_time = model_times.get(name)
    is_judged = name.startswith(IN_ORDER)
    if contest.is_gpu:
        is_judged = is_judged and name.endswith("compiled")
    return {
        "who": name,
        "padding": padding,
        "texts/s": len(contest.texts) / times[name],
        "tokens/s": round(num_tokens / times[name]),
        "ratio": times[name] / times[OURS],
        "model tokens/s": round(num_tokens / model_time) if model_time else "",
        "model ratio": model_time / model_times[OURS] if model_time else "",
        "bar": (2.0 if contest.is_gpu else 1.5) if is_judged else "",
    }


if __name__ == "__main__":
    report.run(main)
