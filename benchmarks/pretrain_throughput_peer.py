"""The other side of `pretrain_throughput.py`: Hugging Face, padded rows."""

import time
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from itertools import cycle
from typing import Any

import torch
import transformers
from torch import Tensor, nn

import turns
from bert_from_scratch import BertConfig
from bert_from_scratch.data.batch import IGNORE_INDEX, Batch
from bert_from_scratch.data.pretraining import PretrainingData
from bert_from_scratch.data.steps import Position
from bert_from_scratch.train.memory import is_out_of_memory

NUM_BATCHES = 8
LEARNING_RATE = 1e-4
# 不带掩码的满行未必最快：两种都量，让对手用它最好的一种
FILLS = {
    "padded": "padded",
    "full": "full rows",
    "marked": "full rows, with a mask",
}


@dataclass(frozen=True)
class PeerSpeed:
    """What came of a peer.

    Attributes:
        speed: Real tokens a second.
        peak_gb: Most memory allocated, in GB; None on a CPU.
        seconds_to_start: Until the first step was done, compiling included.
        tokens_a_step: Real ones.
    """

    speed: float
    peak_gb: float | None
    seconds_to_start: float
    tokens_a_step: float


def try_peer(
    config: BertConfig, data: PretrainingData, **options: Any
) -> PeerSpeed | None:
    """Measures a peer; None: its batch does not fit into memory."""
    try:
        return measure_peer(config, data, **options)
    except RuntimeError as error:
        # 编译时用尽显存，错误会被包上一层，只剩文字可认
        if not (is_out_of_memory(error) or "out of memory" in str(error)):
            raise
    # 离开 except 之后才返回：错误的调用栈会留住整个模型
    return None


def measure_peer(
    config: BertConfig,
    data: PretrainingData,
    *,
    rows: int,
    length: int,
    num_steps: int,
    warm_steps: int,
    device: torch.device,
    fill: str,
) -> PeerSpeed:
    """Trains Hugging Face's class for some steps.

    Args:
        config: Shape and dropout of the model.
        data: Where real pairs come from.
        rows: Batch size.
        length: Of a row.
        num_steps: Steps that are timed.
        warm_steps: Steps before them.
        device: Where to train; compiled and in bf16 on a GPU.
        fill: One of `FILLS`: real pairs, or rows without padding.
    """
    torch.manual_seed(0)
    is_gpu = device.type == "cuda"
    batches = list(
        padded_rows(data, rows, length)
        if fill == "padded"
        else full_rows(config, rows, length, is_marked=fill == "marked")
    )
    if is_gpu:
        batches = [{k: v.pin_memory() for k, v in b.items()} for b in batches]
    peer: Any = transformers.BertForPreTraining(
        transformers.BertConfig(**asdict(config), attn_implementation="sdpa")
    ).to(device)
    model = torch.compile(peer, dynamic=False) if is_gpu else peer
    optimizer = torch.optim.AdamW(peer.parameters(), LEARNING_RATE, fused=True)
    counts = [count_tokens(batch) for batch in batches]
    begin, start, num_tokens = time.perf_counter(), 0.0, 0
    seconds_to_start = 0.0

    def take_step(batch: dict[str, Tensor]) -> None:
        moved = {k: v.to(device, non_blocking=True) for k, v in batch.items()}
        with (
            torch.autocast("cuda", torch.bfloat16) if is_gpu else nullcontext()
        ):
            loss = model(**moved).loss
        loss.backward()
        nn.utils.clip_grad_norm_(peer.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()

    def compile_step() -> None:
        nonlocal seconds_to_start
        optimizer.zero_grad()
        take_step(batches[0])
        seconds_to_start = wait(device) - begin

    turns.take(compile_step)
    for step, batch in zip(range(warm_steps + num_steps), cycle(batches)):
        if step == warm_steps:
            start, num_tokens = wait(device), 0
            if is_gpu:
                torch.cuda.reset_peak_memory_stats()
        take_step(batch)
        num_tokens += counts[step % len(counts)]
    seconds = wait(device) - start
    peak = torch.cuda.max_memory_allocated() / 1e9 if is_gpu else None
    return PeerSpeed(
        num_tokens / seconds,
        peak,
        seconds_to_start,
        num_tokens / num_steps,
    )


def count_tokens(batch: dict[str, Tensor]) -> int:
    """Counts the real tokens of a batch; without a mask, all are."""
    if "attention_mask" in batch:
        return int(batch["attention_mask"].sum())
    return batch["input_ids"].numel()


def wait(device: torch.device) -> float:
    """Waits for the device; returns the time."""
    if device.type == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter()


def padded_rows(
    data: PretrainingData, rows: int, length: int
) -> Iterator[dict[str, Tensor]]:
    """Yields real pairs with masks, padded as Hugging Face's collator does."""
    steps = data.steps(Position(cursor=data.num_steps(0) // 2))
    pairs: list[dict[str, Tensor]] = []
    for _ in range(NUM_BATCHES):
        while len(pairs) < rows:
            step = next(steps)
            for batch in step.micro_batches:
                pairs += unpack(data.finish(batch, 0))
        yield collate(pairs[:rows], length)
        pairs = pairs[rows:]


def unpack(batch: Batch) -> list[dict[str, Tensor]]:
    """Cuts a packed batch into its pairs, labels at every place."""
    assert batch.cu_seqlens is not None
    assert batch.nsp_labels is not None
    assert batch.mlm_positions is not None
    assert batch.mlm_labels is not None
    labels = torch.full_like(batch.input_ids, IGNORE_INDEX, dtype=torch.long)
    is_used = batch.mlm_labels != IGNORE_INDEX
    labels[batch.mlm_positions[is_used]] = batch.mlm_labels[is_used]
    sizes = batch.cu_seqlens.diff().tolist()
    found = zip(
        batch.input_ids.split(sizes),
        batch.token_type_ids.split(sizes),
        labels.split(sizes),
        batch.nsp_labels,
        strict=True,
    )
    return [
        {"input_ids": i, "token_type_ids": t, "labels": y, "nsp": nsp}
        for i, t, y, nsp in found
        # 末尾凑整的填充序列不是句对
        if nsp != IGNORE_INDEX
    ]


def collate(pairs: list[dict[str, Tensor]], length: int) -> dict[str, Tensor]:
    """Pads pairs to rows of one length, so that code compiled once fits all."""
    shape = (len(pairs), length)
    batch = {
        "input_ids": torch.zeros(shape, dtype=torch.long),
        "token_type_ids": torch.zeros(shape, dtype=torch.long),
        "attention_mask": torch.zeros(shape, dtype=torch.long),
        "labels": torch.full(shape, IGNORE_INDEX),
    }
    for row, pair in enumerate(pairs):
        size = len(pair["input_ids"])
        for name in ("input_ids", "token_type_ids", "labels"):
            batch[name][row, :size] = pair[name]
        batch["attention_mask"][row, :size] = 1
    batch["next_sentence_label"] = torch.stack([p["nsp"] for p in pairs])
    return batch


def full_rows(
    config: BertConfig, rows: int, length: int, *, is_marked: bool
) -> Iterator[dict[str, Tensor]]:
    """Yields rows without padding; marked: a mask says that all is text."""
    for _ in range(NUM_BATCHES):
        ids = torch.randint(5, config.vocab_size, (rows, length))
        labels = torch.where(torch.rand(rows, length) < 0.15, ids, IGNORE_INDEX)
        batch = {
            "input_ids": ids,
            "token_type_ids": torch.zeros_like(ids),
            "labels": labels,
            "next_sentence_label": torch.randint(2, (rows,)),
        }
        if is_marked:
            batch["attention_mask"] = torch.ones_like(ids)
        yield batch
