"""Pairs, packing and masks: tokens a second on one core, beside two peers.

    python benchmarks/data.py [--repeat 10]

The peers are Google's recipe in plain Python (as its script works: lists of
ids, one document after the other, masks included) and Hugging Face's masking
collator on ready-made blocks of 128 ids, which makes no pairs at all.
"""

import argparse
import lzma
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers

import report
from bert_from_scratch import WordPieceTokenizer
from bert_from_scratch.data.masking import MaskingRule
from bert_from_scratch.data.packing import pack_rows
from bert_from_scratch.data.pairs import plan_pairs
from bert_from_scratch.data.pretraining import BatchShape, PretrainingData
from bert_from_scratch.data.shards import TokenShards
from bert_from_scratch.data.steps import Position
from bert_from_scratch.tokenizer.vocabulary import read_vocabulary

SEED = 0
LENGTH = 128
BATCH_TOKENS = 65536
# Google 官方词表的编号与其脚本的默认上限
MASK_ID, VOCAB_SIZE, MAX_PREDICTIONS = 103, 30522, 20


def main() -> None:
    """Prepares real text, then times pairs and masks of all three."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeat", type=int, default=10)
    parser.add_argument("--out", type=Path, default=Path("build/data.json"))
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        tokenizer = set_up(report.data_dir(), folder)
        rows = prepare_text(folder, times=1)
        shards = TokenShards.open(folder / "data-1")
        if arguments.repeat > 1:
            rows += prepare_text(folder, arguments.repeat)
        for length in (128, 512):
            rows += audit_labels(shards, length)
        ours = time_ours(shards, tokenizer)
        late = time_resume(shards, tokenizer, 100_000) / time_resume(
            shards, tokenizer, 10
        )
        peers = {
            "Google's recipe in Python": time_google(shards),
            "Hugging Face's collator, no pairs": time_hugging_face(
                shards, folder
            ),
        }
    rows.append(row("pairs + packing + masks, tokens/s", ours, bar=10e6))
    rows.append(row("seconds to resume, step 100,000 / step 10", late, 1.5))
    for peer, speed in peers.items():
        rows.append(row(f"beside {peer}", ours, 8.0, speed))
    report.write(arguments.out, report.describe_run(SEED), rows)


def row(
    what: str, ours: float, bar: float, peer: float | None = None
) -> dict[str, Any]:
    """Makes one line of the table."""
    return {
        "what": what,
        "ours": ours,
        "peer": "-" if peer is None else peer,
        "ratio": "-" if peer is None else ours / peer,
        "bar": bar,
    }


def set_up(data_dir: Path, folder: Path) -> WordPieceTokenizer:
    """Unpacks English Wikipedia and saves the official vocabulary."""
    with (
        lzma.open(data_dir / "wiki_en.txt.xz") as source,
        (folder / "text.txt").open("wb") as target,
    ):
        shutil.copyfileobj(source, target)
    vocab_path = data_dir / "vocabs" / "bert-base-uncased-vocab.txt"
    tokenizer = WordPieceTokenizer(read_vocabulary(vocab_path))
    tokenizer.save(folder / "tokenizer")
    return tokenizer


def prepare_text(folder: Path, times: int) -> list[dict[str, Any]]:
    """Runs `bert prepare` on the text, some times over."""
    corpus_dir, out = folder / f"corpus-{times}", folder / f"data-{times}"
    corpus_dir.mkdir()
    for number in range(times):
        os.link(folder / "text.txt", corpus_dir / f"{number}.txt")
    bert = Path(sys.executable).with_name("bert")
    start = time.perf_counter()
    process = subprocess.Popen(
        [
            *(bert, "prepare", corpus_dir, "--out", out),
            *("--tokenizer", folder / "tokenizer"),
        ],
        stderr=subprocess.DEVNULL,
    )
    peak = 0
    while process.poll() is None:
        peak = max(peak, resident_bytes(process.pid))
        time.sleep(0.2)
    seconds = time.perf_counter() - start
    assert process.returncode == 0
    megabytes = times * (folder / "text.txt").stat().st_size / 1e6
    meta = TokenShards.open(out).meta
    size = sum(file["bytes"] for file in meta.files.values())
    text = f"prepare {megabytes:,.0f} MB"
    return [
        row(f"{text}, MB/s", megabytes / seconds, bar=5.0),
        row(f"{text}, peak MB of all processes", peak / 1e6, bar=1500.0),
        row(f"{text}, bytes a token", size / meta.num_tokens, bar=2.3),
    ]


def resident_bytes(pid: int) -> int:
    """Returns the memory of a process and of all that it started."""
    total = 0
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            # 第四栏是父进程号；共享页按份额计（PSS），不重复数
            parent = int(
                (folder / "stat").read_text().rsplit(")")[1].split()[1]
            )
            if pid in (parent, int(folder.name)):
                rollup = (folder / "smaps_rollup").read_text()
                line = next(x for x in rollup.split("\n") if x[:4] == "Pss:")
                total += 1024 * int(line.split()[1])
        except (OSError, StopIteration):
            continue
    return total


def audit_labels(shards: TokenShards, length: int) -> list[dict[str, Any]]:
    """Counts the labels of an epoch, and how full its rows are."""
    pairs = plan_pairs(
        shards.sentence_ends, shards.documents(), length, SEED, epoch=0
    )
    assert pairs.nsp_labels is not None
    is_random = pairs.nsp_labels == 1
    ends = shards.sentence_ends[shards.document_ends]
    first, second = (
        np.searchsorted(ends, starts, side="right")
        for starts in (pairs.a_start, pairs.b_start)
    )
    row_tokens = BatchShape.plan(BATCH_TOKENS, length).row_tokens
    num_rows = len(pack_rows(pairs.lengths, row_tokens))
    same = int((first == second)[is_random].sum())
    full = pairs.lengths.sum() / (num_rows * row_tokens)
    text = f"length {length}"
    return [
        row(f"{text}, % random", 100 * float(is_random.mean()), bar=50.0),
        row(f"{text}, random from the same document", float(same), bar=0.0),
        row(f"{text}, % of a row filled", 100 * float(full), bar=99.0),
    ]


def time_ours(shards: TokenShards, tokenizer: WordPieceTokenizer) -> float:
    """Times whole steps, the plan of the epoch included."""
    shape = BatchShape.plan(BATCH_TOKENS, LENGTH)
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


def time_resume(
    shards: TokenShards, tokenizer: WordPieceTokenizer, step: int
) -> float:
    """Times the way from nothing to the batch of a step."""
    shape = BatchShape.plan(BATCH_TOKENS, LENGTH)
    rule = MaskingRule.of(tokenizer)
    data = PretrainingData(shards, tokenizer, shape, rule, SEED)
    epoch, cursor = divmod(step, shards.meta.num_tokens // BATCH_TOKENS)
    start = time.process_time()
    next(data.steps(Position(epoch, cursor)))
    return time.process_time() - start


def time_google(shards: TokenShards) -> float:
    """Times the recipe document by document, to batches of 512 rows."""
    documents = to_lists(shards, limit=400)
    generator = random.Random(SEED)
    start = time.process_time()
    num_tokens = 0
    rows: list[Features] = []
    for number in range(len(documents)):
        for pair in google_pairs(documents, number, generator):
            num_tokens += len(pair[0])
            masked = google_mask(pair[0], generator)
            rows.append(google_features(*pair, *masked))
            if len(rows) == 512:
                to_tensors(rows)
                rows = []
    to_tensors(rows)
    return num_tokens / (time.process_time() - start)


Features = dict[str, list[int]]


def to_tensors(rows: list[Features]) -> dict[str, torch.Tensor]:
    """Makes what a model can be given."""
    return {name: torch.tensor([row[name] for row in rows]) for name in rows[0]}


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
) -> Iterator[tuple[list[int], list[int], int]]:
    """Makes the pairs of one document as the published recipe says.

    Yields:
        Ids with special tokens, segments, and whether the second is random.
    """
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
            is_random = len(chunk) == 1 or generator.random() < 0.5
            if is_random:
                wanted = target - len(first)
                second = google_random(documents, number, wanted, generator)
                place -= len(chunk) - cut
            else:
                second = [i for sentence in chunk[cut:] for i in sentence]
            google_truncate(first, second, budget, generator)
            yield (*google_join(first, second), int(is_random))
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


def google_join(
    first: list[int], second: list[int]
) -> tuple[list[int], list[int]]:
    """Puts special tokens around two segments, token by token."""
    ids, segments = [101], [0]
    for number in first:
        ids.append(number)
        segments.append(0)
    ids.append(102)
    segments.append(0)
    for number in second:
        ids.append(number)
        segments.append(1)
    ids.append(102)
    segments.append(1)
    return ids, segments


def google_mask(
    ids: list[int], generator: random.Random
) -> tuple[list[int], list[int], list[int]]:
    """Hides 15 % of a pair, 80/10/10, candidate by candidate."""
    # 与原版一样：候选是一组组的下标（全词遮盖时一组不止一个），逐组检查
    groups = []
    for place, number in enumerate(ids):
        if number in (101, 102):
            continue
        groups.append([place])
    generator.shuffle(groups)
    output = list(ids)
    count = max(1, round(0.15 * len(ids)))
    hidden: list[tuple[int, int]] = []
    covered: set[int] = set()
    for group in groups:
        if len(hidden) >= count:
            break
        if len(hidden) + len(group) > count:
            continue
        if any(place in covered for place in group):
            continue
        for place in group:
            covered.add(place)
            if generator.random() < 0.8:
                shown = MASK_ID
            elif generator.random() < 0.5:
                shown = ids[place]
            else:
                shown = generator.randint(0, VOCAB_SIZE - 1)
            output[place] = shown
            hidden.append((place, ids[place]))
    hidden.sort(key=lambda pair: pair[0])
    return output, [p for p, _ in hidden], [n for _, n in hidden]


def google_features(
    ids: list[int],
    segments: list[int],
    is_random: int,
    shown: list[int],
    places: list[int],
    labels: list[int],
) -> Features:
    """Pads one pair to the full length, as its files store it."""
    padding = [0] * (LENGTH - len(ids))
    unused = [0] * (MAX_PREDICTIONS - len(places))
    return {
        "input_ids": shown + padding,
        "input_mask": [1] * len(ids) + padding,
        "segment_ids": segments + padding,
        "masked_lm_positions": places + unused,
        "masked_lm_ids": labels + unused,
        "masked_lm_weights": [1] * len(places) + unused,
        "next_sentence_labels": [is_random],
    }


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
