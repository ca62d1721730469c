"""Pairs, packing and masks: tokens a second on one core, beside two peers.

    python benchmarks/data.py [--megabytes 40]

The peers are Google's recipe in plain Python (as its script works: lists of
ids, one document after the other, masks included) and Hugging Face's masking
collator on ready-made blocks of 128 ids, which makes no pairs at all.
"""

import argparse
import lzma
import random
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
import transformers

import report
from bert_from_scratch import WordPieceTokenizer
from bert_from_scratch.data.masking import MaskingRule
from bert_from_scratch.data.prepare import prepare
from bert_from_scratch.data.pretraining import BatchShape, PretrainingData
from bert_from_scratch.data.shards import TokenShards
from bert_from_scratch.data.steps import Position
from bert_from_scratch.tokenizer.vocabulary import read_vocabulary

SEED = 0
LENGTH = 128


def main() -> None:
    """Prepares real text once, then times all three."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=int, default=40)
    parser.add_argument("--out", type=Path, default=Path("build/data.json"))
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    data_dir = report.data_dir()
    with tempfile.TemporaryDirectory() as folder:
        shards, tokenizer, row = prepare_text(
            data_dir, Path(folder), arguments.megabytes
        )
        ours = time_ours(shards, tokenizer)
        google = time_google(shards, tokenizer)
        hugging_face = time_hugging_face(shards, Path(folder))
    rows = [
        row,
        {
            "what": "pairs + packing + masks, tokens/s",
            "ours": ours,
            "peer": google,
            "peer is": "Google's recipe in Python",
            "ratio": ours / google,
        },
        {
            "what": "masks, tokens/s",
            "ours": ours,
            "peer": hugging_face,
            "peer is": "Hugging Face's collator",
            "ratio": ours / hugging_face,
        },
    ]
    report.write(arguments.out, report.describe_run(SEED), rows)


def prepare_text(
    data_dir: Path, folder: Path, megabytes: int
) -> tuple[TokenShards, WordPieceTokenizer, dict[str, Any]]:
    """Runs `prepare` on the beginning of English Wikipedia."""
    text_path = folder / "text.txt"
    with lzma.open(data_dir / "wiki_en.txt.xz") as file:
        data = file.read(megabytes * 1_000_000)
    text_path.write_bytes(data[: data.rfind(b"\n\n") + 1])
    vocab_path = data_dir / "vocabs" / "bert-base-uncased-vocab.txt"
    tokenizer = WordPieceTokenizer(read_vocabulary(vocab_path))
    tokenizer.save(folder / "tokenizer")
    start = time.perf_counter()
    prepare([text_path], folder / "tokenizer", folder / "data")
    seconds = time.perf_counter() - start
    shards = TokenShards.open(folder / "data")
    size = sum(file["bytes"] for file in shards.meta.files.values())
    row = {
        "what": f"prepare {megabytes} MB, MB/s",
        "ours": text_path.stat().st_size / 1e6 / seconds,
        "peer": "-",
        "peer is": f"{size / shards.meta.num_tokens:.2f} bytes a token",
        "ratio": "-",
    }
    return shards, tokenizer, row


def time_ours(shards: TokenShards, tokenizer: WordPieceTokenizer) -> float:
    """Times whole steps, the plan of the epoch included."""
    shape = BatchShape(LENGTH, row_tokens=65536, num_rows=1)
    rule = MaskingRule.of(tokenizer)
    data = PretrainingData(shards, tokenizer, shape, rule, SEED)
    start = time.process_time()
    num_tokens = 0
    for step, made in enumerate(data.steps(Position())):
        for batch in made.micro_batches:
            data.finish(batch, step)
        num_tokens += made.num_tokens
        if made.following.epoch == 1:
            break
    return num_tokens / (time.process_time() - start)


def time_google(shards: TokenShards, tokenizer: WordPieceTokenizer) -> float:
    """Times the recipe document by document, on lists."""
    documents = to_lists(shards, limit=400)
    generator = random.Random(SEED)
    start = time.process_time()
    num_tokens = 0
    for number in range(len(documents)):
        for pair in google_pairs(documents, number, generator):
            google_mask(pair, tokenizer, generator)
            num_tokens += len(pair)
    return num_tokens / (time.process_time() - start)


def to_lists(shards: TokenShards, limit: int) -> list[list[list[int]]]:
    """Turns shards into documents of sentences of ids."""
    ends = shards.sentence_ends
    return [
        [
            shards.tokens[ends[i] : ends[i + 1]].tolist()
            for i in range(
                shards.document_ends[number], shards.document_ends[number + 1]
            )
        ]
        for number in range(min(limit, shards.meta.num_documents))
    ]


def google_pairs(
    documents: list[list[list[int]]], number: int, generator: random.Random
) -> Iterator[list[int]]:
    """Makes the pairs of one document as the published recipe says."""
    document = documents[number]
    budget = LENGTH - 3
    target = budget
    if generator.random() < 0.1:
        target = generator.randint(2, budget)
    chunk: list[list[int]] = []
    size = 0
    place = 0
    while place < len(document):
        chunk.append(document[place])
        size += len(document[place])
        if place == len(document) - 1 or size >= target:
            cut = 1
            if len(chunk) >= 2:
                cut = generator.randint(1, len(chunk) - 1)
            first = [i for sentence in chunk[:cut] for i in sentence]
            if len(chunk) == 1 or generator.random() < 0.5:
                wanted = target - len(first)
                second = google_random(documents, number, wanted, generator)
                place -= len(chunk) - cut
            else:
                second = [i for sentence in chunk[cut:] for i in sentence]
            google_truncate(first, second, budget, generator)
            yield [101, *first, 102, *second, 102]
            chunk, size = [], 0
        place += 1


def google_random(
    documents: list[list[list[int]]],
    number: int,
    wanted: int,
    generator: random.Random,
) -> list[int]:
    """Takes a second segment from a random document, as a rule another."""
    other = number
    for _ in range(10):
        other = generator.randint(0, len(documents) - 1)
        if other != number:
            break
    start = generator.randint(0, len(documents[other]) - 1)
    second: list[int] = []
    for sentence in documents[other][start:]:
        second += sentence
        if len(second) >= wanted:
            break
    return second


def google_truncate(
    first: list[int],
    second: list[int],
    budget: int,
    generator: random.Random,
) -> None:
    """Takes tokens off the longer segment, from random sides."""
    while len(first) + len(second) > budget:
        longer = first if len(first) > len(second) else second
        if generator.random() < 0.5:
            del longer[0]
        else:
            longer.pop()


def google_mask(
    ids: list[int], tokenizer: WordPieceTokenizer, generator: random.Random
) -> tuple[list[int], list[int], list[int]]:
    """Hides 15 % of a pair, 80/10/10."""
    places = [i for i, token in enumerate(ids) if token not in (101, 102)]
    generator.shuffle(places)
    output = list(ids)
    count = max(1, round(0.15 * len(ids)))
    chosen = sorted(places[:count])
    for place in chosen:
        if generator.random() < 0.8:
            output[place] = tokenizer.mask_token_id
        elif generator.random() < 0.5:
            output[place] = generator.randint(0, len(tokenizer) - 1)
    return output, chosen, [ids[place] for place in chosen]


def time_hugging_face(shards: TokenShards, folder: Path) -> float:
    """Times `DataCollatorForLanguageModeling` on batches of 512 blocks."""
    peer = transformers.AutoTokenizer.from_pretrained(folder / "tokenizer")
    collator = transformers.DataCollatorForLanguageModeling(peer)
    count = 512 * 20
    blocks = shards.tokens[: count * LENGTH].reshape(-1, LENGTH).tolist()
    start = time.process_time()
    for first in range(0, len(blocks), 512):
        collator([{"input_ids": b} for b in blocks[first : first + 512]])
    return len(blocks) * LENGTH / (time.process_time() - start)


if __name__ == "__main__":
    main()
