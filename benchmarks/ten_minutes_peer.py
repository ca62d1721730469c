"""Hugging Face's classes for a given time: the rival of the ten-minute BERT.

    python benchmarks/ten_minutes_peer.py DATA --out DIR [--seconds 540]
        [--preset base] [--rows 512] [--lr 5e-4] [--warmup 0.1]
        [--dropout 0.1] [--no-compile]

`BertForPreTraining`, compiled, in bf16, fused AdamW, real pairs padded to rows
of one length. The pairs and masks are those of our own data pipeline; a thread
masks and pads them some steps ahead, into pinned memory, so that the peer never
waits for data. Its learning rate follows the clock as ours does; the time
counts from the start of the process.
"""

import argparse
import json
import math
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import torch
import transformers
from torch import Tensor, nn

import report
import turns
from bert_from_scratch import BertConfig, WordPieceTokenizer, atomic
from bert_from_scratch.data.assembly import SpecialIds, assemble
from bert_from_scratch.data.batch import IGNORE_INDEX, Batch
from bert_from_scratch.data.masking import MaskingRule, mask_tokens
from bert_from_scratch.data.pairs import plan_pairs
from bert_from_scratch.data.prefetch import prefetch
from bert_from_scratch.data.shards import TokenShards
from bert_from_scratch.train.budget import warmup_then_decay
from bert_from_scratch.train.clock import process_start

SECONDS_TO_SAVE = 3.0
NUM_AHEAD = 16


def main() -> None:
    """Trains until the time is over, and saves."""
    arguments = parse_arguments()
    begun = process_start()
    if arguments.out.exists():
        sys.exit(f"error: {arguments.out} exists\nhint: give another --out")
    atomic.check_writable(arguments.out)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    pairs = PaddedPairs(arguments.data, arguments.rows, arguments.length, 0)
    model = build(arguments, pairs.vocab_size, device)
    end = arguments.seconds - SECONDS_TO_SAVE
    log = train(model, pairs, arguments, device, begun, lambda _: end)
    model.save_pretrained(arguments.out)
    pairs.tokenizer.save(arguments.out)
    log["seconds"] = time.monotonic() - begun
    log["recipe"] = {k: str(v) for k, v in vars(arguments).items()}
    text = json.dumps(log, indent=2)
    (arguments.out / "peer.json").write_text(text + "\n")
    print(json.dumps({k: v for k, v in log.items() if k != "losses"}))


def parse_arguments(words: list[str] | None = None) -> argparse.Namespace:
    """Reads the command line, or some words like it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("--out", type=Path, default=Path("build/rival"))
    parser.add_argument("--seconds", type=float, default=540.0)
    parser.add_argument("--preset", default="base")
    parser.add_argument("--rows", type=int, default=512)
    parser.add_argument("--length", type=int, default=128)
    parser.add_argument("--lr", type=float, default=5e-4)
    parser.add_argument("--warmup", type=float, default=0.1)
    parser.add_argument("--dropout", type=float, default=0.1)
    parser.add_argument("--no-compile", action="store_true")
    arguments = parser.parse_args(words)
    if not SECONDS_TO_SAVE < arguments.seconds < math.inf:
        parser.error(f"--seconds must be over {SECONDS_TO_SAVE:g}")
    if min(arguments.rows, arguments.length) < 1:
        parser.error("--rows and --length must be at least 1")
    return arguments


class PaddedPairs:
    """Real sentence pairs with masks, in padded rows, without end."""

    def __init__(
        self, data_dir: Path, rows: int, length: int, seed: int
    ) -> None:
        self._shards = TokenShards.open(data_dir)
        self.tokenizer = WordPieceTokenizer.load(self._shards.tokenizer_dir)
        self.vocab_size = len(self.tokenizer)
        self._rows, self._length, self._seed = rows, length, seed
        self._rule = MaskingRule.of(self.tokenizer)
        self._special = SpecialIds(
            self.tokenizer.pad_token_id,
            self.tokenizer.cls_token_id,
            self.tokenizer.sep_token_id,
        )

    def packed(self) -> Iterator[Batch]:
        """Yields batches of a fixed number of pairs, on the CPU, unmasked."""
        epoch = 0
        while True:
            sequences = plan_pairs(
                self._shards.sentence_ends,
                self._shards.documents(),
                self._length,
                self._seed,
                epoch,
            )
            keys = torch.arange(len(sequences.lengths)).numpy()
            if len(keys) < self._rows:
                # 一批也凑不满的话，下面的循环永远给不出东西
                sys.exit(
                    f"error: {len(keys)} pairs do not fill {self._rows} rows\n"
                    "hint: prepare more text"
                )
            for first in range(0, len(keys) - self._rows + 1, self._rows):
                chosen = keys[first : first + self._rows]
                yield assemble(
                    self._shards.tokens,
                    sequences.take(chosen),
                    chosen,
                    self._special,
                    self._length,
                )
            epoch += 1

    def padded(self, is_pinned: bool) -> Iterator[dict[str, Tensor]]:
        """Yields batches in padded rows, with masks, on the CPU."""
        for step, batch in enumerate(self.packed()):
            rows = self.pad(batch, step)
            # 不锁页的话，每次拷贝都要等 GPU 做完手上的一步
            yield {
                k: v.pin_memory() if is_pinned else v for k, v in rows.items()
            }

    def pad(self, batch: Batch, step: int) -> dict[str, Tensor]:
        """Masks a batch where it lies, and spreads it out to rows."""
        # 槽位数固定；多余的槽位指向 [CLS]，没有标签
        size = self._rows * self._length
        num_slots = int(self._rule.mask_rate * size + self._rows / 2) + 1
        batch = mask_tokens(batch, self._rule, self._seed, step, num_slots)
        assert batch.mlm_positions is not None
        assert batch.mlm_labels is not None
        assert batch.nsp_labels is not None
        places = batch.token_owners() * self._length + batch.position_ids

        def spread(values: Tensor, filler: int) -> Tensor:
            out = torch.full((size,), filler, device=values.device)
            out[places] = values.long()
            return out.view(self._rows, self._length)

        labels = torch.full_like(batch.input_ids, IGNORE_INDEX).long()
        labels[batch.mlm_positions] = batch.mlm_labels
        return {
            "input_ids": spread(batch.input_ids, self._special.pad),
            "token_type_ids": spread(batch.token_type_ids, 0),
            "attention_mask": spread(torch.ones_like(batch.input_ids), 0),
            "labels": spread(labels, IGNORE_INDEX),
            "next_sentence_label": batch.nsp_labels,
        }


def build(
    arguments: argparse.Namespace, vocab_size: int, device: torch.device
) -> Any:
    """Builds Hugging Face's model with fresh weights."""
    torch.manual_seed(0)
    config = BertConfig.preset(arguments.preset, vocab_size=vocab_size)
    values = asdict(config) | {
        "hidden_dropout_prob": arguments.dropout,
        "attention_probs_dropout_prob": arguments.dropout,
    }
    theirs = transformers.BertConfig(**values, attn_implementation="sdpa")
    return transformers.BertForPreTraining(theirs).to(device)


def train(
    model: Any,
    pairs: PaddedPairs,
    arguments: argparse.Namespace,
    device: torch.device,
    begun: float,
    find_end: Callable[[float], float],
) -> dict[str, Any]:
    """Takes steps until the time is over.

    Args:
        model: Hugging Face's.
        pairs: What it learns from.
        arguments: The recipe.
        device: Where to train.
        begun: When the clock was 0.
        find_end: When to stop, if the first step was done then; both in
            seconds of the clock.
    """
    is_gpu = device.type == "cuda"
    is_compiled = is_gpu and not arguments.no_compile
    runner = torch.compile(model, dynamic=False) if is_compiled else model
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=arguments.lr, eps=1e-6, fused=True
    )
    losses: list[list[float]] = []
    first_step, end, step, num_tokens = 0.0, math.inf, 0, 0
    model.train()
    # 多备几步：换一轮要重新配对，那一两秒里也有批次可用
    for batch in prefetch(pairs.padded(is_pinned=is_gpu), NUM_AHEAD):
        now = time.monotonic() - begun
        # 编译不占热身的时间，与我们的日程一样从第一步之后算起
        if step == 1:
            first_step, end = now, find_end(now)
        if now >= end:
            break
        progress = (now - first_step) / (end - first_step) if step else 0.0
        rate = warmup_then_decay(max(progress, 1e-3), arguments.warmup)
        for group in optimizer.param_groups:
            group["lr"] = arguments.lr * rate
        if step == 0:
            turns.take(partial(take_step, runner, optimizer, batch, device))
        else:
            loss = take_step(runner, optimizer, batch, device)
        step += 1
        num_tokens += int(batch["attention_mask"].sum())
        if step % 50 == 0:
            losses.append([step, now, loss.item()])
            print(
                f"step {step}, {now:.0f} s, loss {losses[-1][2]:.3f}",
                flush=True,
            )
    return {
        "steps": step,
        "tokens": num_tokens,
        "seconds to first step": first_step,
        "tokens/s": num_tokens / max(end - first_step, 1e-9),
        "losses": losses,
    }


def take_step(
    runner: Any,
    optimizer: torch.optim.Optimizer,
    batch: dict[str, Tensor],
    device: torch.device,
) -> Tensor:
    """Takes one step; returns the loss, a scalar on the device."""
    is_gpu = device.type == "cuda"
    optimizer.zero_grad()
    with torch.autocast("cuda", torch.bfloat16) if is_gpu else nullcontext():
        loss = runner(
            **{k: v.to(device, non_blocking=True) for k, v in batch.items()}
        ).loss
    loss.backward()
    nn.utils.clip_grad_norm_(runner.parameters(), 1.0)
    optimizer.step()
    return loss.detach()


if __name__ == "__main__":
    report.run(main)
