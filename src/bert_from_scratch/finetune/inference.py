"""Running a model over many items: batches by length, results in order."""

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing, nullcontext
from typing import Any, TypeVar, cast

import numpy as np
import torch
from torch import Tensor, nn

from bert_from_scratch.data.batch import Batch
from bert_from_scratch.data.prefetch import prefetch
from bert_from_scratch.data.token_budget import cut_by_tokens, longest_first
from bert_from_scratch.finetune.items import Item
from bert_from_scratch.finetune.task import Output, Task, TaskModel
from bert_from_scratch.model.inference import choose_batch_tokens
from bert_from_scratch.train.late_numbers import LateNumbers

Key = TypeVar("Key")

# 备好的批次数：编码一大块文字的时间里，GPU 要有足够的活干
BATCHES_AHEAD = 8


def predict(
    task: Task[Any, Any],
    model: nn.Module,
    examples: Sequence[Any],
    device: torch.device,
    **options: Any,
) -> list[Any]:
    """Predicts for examples, in their order.

    Args:
        task: Encodes and decodes.
        model: Of this task, on `device`.
        examples: Labelled or not.
        device: Where to compute.
        **options: Of `run_model`.
    """
    items = task.items(examples)
    outputs = run_model(task, model, items, device, **options)
    return task.decode(examples, items, outputs)


@torch.inference_mode()
def run_model(
    task: Task[Any, Any],
    model: nn.Module,
    items: Sequence[Item],
    device: torch.device,
    *,
    batch_tokens: int | None = None,
    half: bool = False,
    progress: Callable[[int], None] | None = None,
) -> list[Output]:
    """Computes the raw numbers of every item, in their order.

    Args:
        task: Packs the items.
        model: Of this task, on `device`.
        items: What to compute.
        device: Where.
        batch_tokens: Tokens that go through at once; None: by the device.
        half: Whether to compute in bf16.
        progress: Told the number of items done since the last call.
    """
    model.eval()
    lengths = [item.num_tokens for item in items]
    batch_tokens = choose_batch_tokens(batch_tokens, device)
    batches = (
        # 一批之内由短到长，与预训练的一样：注意力的内核从后面开工
        (numbers[::-1], task.collate([items[n] for n in reversed(numbers)]))
        for numbers in cut_by_tokens(
            longest_first(lengths), lengths, batch_tokens
        )
    )
    outputs: dict[int, Output] = {}
    context = (
        torch.autocast(device.type, torch.bfloat16) if half else nullcontext()
    )
    compute = cast("TaskModel", model).logits
    with context, closing(run_batches(batches, compute, device)) as results:
        for numbers, logits in results:
            some = [items[number] for number in numbers]
            outputs.update(zip(numbers, _divide(logits, some), strict=True))
            if progress:
                progress(len(numbers))
    return [outputs[number] for number in range(len(items))]


def run_batches(
    batches: Iterator[tuple[Key, Batch]],
    compute: Callable[[Batch], Tensor],
    device: torch.device,
) -> Generator[tuple[Key, Output]]:
    """Computes one batch after the other, without waiting for a GPU.

    Beside a GPU the batches are made in a thread, some ahead. The numbers of
    a batch are read when the device already has the next one.

    Args:
        batches: What to compute, each with a key that its numbers keep.
        compute: What to do with a batch on `device`.
        device: Where.

    Yields:
        Key and float32 numbers of every batch, in their order.
    """
    with closing(_make_ready(batches, device)) as ready:
        before: tuple[Key, LateNumbers] | None = None
        for key, batch in ready:
            sent = LateNumbers.send(compute(batch.to(device)).float())
            if before is not None:
                # 设备已有下一批可算，这时才等上一批的数字
                yield before[0], before[1].read().numpy()
            before = key, sent
        if before is not None:
            yield before[0], before[1].read().numpy()


def _make_ready(
    batches: Iterator[tuple[Key, Batch]], device: torch.device
) -> Generator[tuple[Key, Batch]]:
    """Yields batches; beside a GPU from a thread, where it can fetch them."""
    if device.type != "cuda":
        yield from batches
        return
    pinned = ((key, batch.pin_memory()) for key, batch in batches)
    with closing(prefetch(pinned, BATCHES_AHEAD)) as ready:
        yield from ready


def _divide(logits: Output, items: Sequence[Item]) -> list[Output]:
    """Cuts the numbers of a packed batch into those of its items.

    Args:
        logits: Of sequences, float32 [B] or [B, C], or of tokens, [T, C].
        items: Of the batch, in its order.
    """
    lengths = [len(s.input_ids) for item in items for s in item.sequences]
    rows = logits.reshape(len(logits), -1)
    if len(rows) == len(lengths):
        found = list(rows)
    else:
        found = np.split(rows, np.cumsum(lengths)[:-1])
    if len(found) == len(items):
        return found
    # 一道题有几个选项就有几条序列；各题的选项数不必相同
    ends = np.cumsum([len(item.sequences) for item in items])[:-1]
    return np.split(np.concatenate(found), ends)
