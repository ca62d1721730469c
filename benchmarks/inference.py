"""Our BERT beside Hugging Face's (sdpa) on a CPU, with IMDb's real lengths.

    python benchmarks/inference.py [--preset base] [--texts 64] [--rounds 8]

Both models have the same random weights; both see the same reviews. Hugging
Face pads each batch to its longest review, ours packs it. They take turns.
"""

import argparse
import random
import tarfile
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
import transformers

import report
from bert_from_scratch import BertConfig, BertModel, WordPieceTokenizer
from bert_from_scratch.data.batch import pack, pad
from bert_from_scratch.model import names
from bert_from_scratch.model.inference import for_inference
from bert_from_scratch.tokenizer import Encoding
from bert_from_scratch.tokenizer.vocabulary import read_vocabulary

SEED = 0


def main() -> None:
    """Compares batch 1 and batch 32."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--preset", default="base")
    parser.add_argument("--texts", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument(
        "--out", type=Path, default=Path("build/inference.json")
    )
    arguments = parser.parse_args()
    data_dir = report.data_dir()
    config = BertConfig.preset(arguments.preset)
    ours, peer = build_models(config)
    reviews = read_reviews(data_dir, arguments.texts)
    rows = []
    for batch_size, bar in ((1, 1.0), (32, 1.5)):
        batches = [
            reviews[start : start + batch_size]
            for start in range(0, len(reviews), batch_size)
        ]
        rows.append(compare(ours, peer, batches, arguments.rounds, bar))
    report.write(arguments.out, report.describe_run(SEED), rows)


def build_models(config: BertConfig) -> tuple[BertModel, Any]:
    """Builds both models with the same weights."""
    torch.manual_seed(SEED)
    ours = BertModel(config)
    peer = transformers.BertModel(
        transformers.BertConfig(**asdict(config), attn_implementation="sdpa")
    ).eval()
    tensors = {f"bert.{k}": v for k, v in ours.state_dict().items()}
    theirs = names.to_hugging_face(tensors)
    peer.load_state_dict(
        {k.removeprefix("bert."): v for k, v in theirs.items()}
    )
    return for_inference(ours), peer


def read_reviews(data_dir: Path, count: int) -> list[Encoding]:
    """Draws reviews from IMDb's test set, truncated to 512 tokens."""
    tokenizer = WordPieceTokenizer(read_vocabulary(vocab_path(data_dir)))
    texts = read_review_texts(data_dir, count)
    return tokenizer.encode_batch(texts, max_length=512)


def read_review_texts(data_dir: Path, count: int) -> list[str]:
    """Draws reviews from IMDb's test set, as they were written."""
    with tarfile.open(data_dir / "imdb.tar.xz") as archive:
        texts = []
        for member in archive:
            if "/test/" in f"/{member.name}" and member.name.endswith(".txt"):
                file = archive.extractfile(member)
                assert file is not None
                texts.append(file.read().decode())
    random.Random(SEED).shuffle(texts)
    return texts[:count]


def vocab_path(data_dir: Path) -> Path:
    """Returns where the vocabulary of bert-base-uncased lies."""
    return data_dir / "vocabs" / "bert-base-uncased-vocab.txt"


@torch.inference_mode()
def compare(
    ours: BertModel,
    peer: Any,
    batches: list[list[Encoding]],
    rounds: int,
    bar: float,
) -> dict[str, Any]:
    """Times both on the same batches; the outputs must agree."""
    packed = [pack(batch) for batch in batches]
    padded = [pad(batch) for batch in batches]

    def run_ours(index: int) -> torch.Tensor:
        return ours(**packed[index].inputs()).pooled

    def run_peer(index: int) -> torch.Tensor:
        batch = padded[index]
        mask = batch.attention_mask
        pooled: torch.Tensor = peer(
            input_ids=batch.input_ids,
            attention_mask=None if mask is None else mask.long(),
        ).pooler_output
        return pooled

    torch.testing.assert_close(run_ours(0), run_peer(0), atol=1e-4, rtol=1e-4)
    runs = {"peer": run_peer, "ours": run_ours}
    best = dict.fromkeys(runs, 0.0)
    for index in range(len(batches)):
        fastest = interleave(runs, index, rounds)
        best = {who: best[who] + fastest[who] for who in runs}
    num_tokens = sum(len(e) for batch in batches for e in batch)
    num_slots = sum(batch.input_ids.numel() for batch in padded)
    return {
        "batch size": len(batches[0]),
        "texts": sum(map(len, batches)),
        "real tokens": num_tokens,
        "share of padding": 1 - num_tokens / num_slots,
        "ours tokens/s": num_tokens / best["ours"],
        "Hugging Face tokens/s": num_tokens / best["peer"],
        "ratio": best["peer"] / best["ours"],
        "bar": bar,
    }


def interleave(
    runs: Mapping[str, Callable[[int], Any]], index: int, rounds: int
) -> dict[str, float]:
    """Times one batch by all in turn, in changing order; returns the best.

    Taking turns batch by batch keeps a machine that speeds up or slows down
    from favouring one of them.
    """
    best = dict.fromkeys(runs, float("inf"))
    for number in range(rounds):
        order = list(runs)[:: 1 if number % 2 else -1]
        for who in order:
            start = time.perf_counter()
            runs[who](index)
            best[who] = min(best[who], time.perf_counter() - start)
    return best


if __name__ == "__main__":
    main()
