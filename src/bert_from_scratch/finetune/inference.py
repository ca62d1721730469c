"""Running a model over many items: batches by length, results in order."""

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any, cast

import numpy as np
import torch
from torch import nn

from bert_from_scratch.data.token_budget import cut_by_tokens, longest_first
from bert_from_scratch.finetune.items import Item
from bert_from_scratch.finetune.task import Output, Task, TaskModel

BATCH_TOKENS = 8192


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
    batch_tokens: int = BATCH_TOKENS,
    half: bool = False,
    progress: Callable[[int], None] | None = None,
) -> list[Output]:
    """Computes the raw numbers of every item, in their order.

    Args:
        task: Packs the items.
        model: Of this task, on `device`.
        items: What to compute.
        device: Where.
        batch_tokens: Tokens that go through at once.
        half: Whether to compute in bf16.
        progress: Told the number of items done since the last call.
    """
    model.eval()
    outputs: dict[int, Output] = {}
    lengths = [item.num_tokens for item in items]
    context = (
        torch.autocast(device.type, torch.bfloat16) if half else nullcontext()
    )
    with context:
        for numbers in cut_by_tokens(
            longest_first(lengths), lengths, batch_tokens
        ):
            some = [items[number] for number in numbers]
            batch = task.collate(some).to(device)
            found = cast("TaskModel", model).outputs(batch)
            outputs.update(zip(numbers, _join(found, some), strict=True))
            if progress:
                progress(len(numbers))
    return [outputs[number] for number in range(len(items))]


def _join(found: list[Output], items: Sequence[Item]) -> list[Output]:
    """Puts the numbers of an item's sequences together."""
    if len(found) == len(items):
        return found
    # 一道题有几个选项就有几条序列；各题的选项数不必相同
    ends = np.cumsum([len(item.sequences) for item in items])[:-1]
    return np.split(np.concatenate(found), ends)
