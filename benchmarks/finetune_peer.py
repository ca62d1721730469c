"""The other side of `finetune.py`: Hugging Face's classes, padded batches."""

import time
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import torch
import transformers
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from bert_from_scratch.data.batch import IGNORE_INDEX
from bert_from_scratch.data.prefetch import prefetch
from bert_from_scratch.data.token_budget import longest_first
from bert_from_scratch.finetune.items import Item
from bert_from_scratch.finetune.source import ItemSource
from bert_from_scratch.finetune.task import Output, Task
from bert_from_scratch.train.budget import warmup_then_decay
from bert_from_scratch.train.optimizer import build_optimizer
from bert_from_scratch.train.settings import TrainingSettings

CLASSES = {
    "classify": transformers.AutoModelForSequenceClassification,
    "regress": transformers.AutoModelForSequenceClassification,
    "choose": transformers.AutoModelForMultipleChoice,
    "tag": transformers.AutoModelForTokenClassification,
    "answer": transformers.AutoModelForQuestionAnswering,
}
# 头几步在编译、预热、填缓存，不算进速度
WARM_STEPS = 5
SCORING_BATCH_SIZE = 64


class Stopwatch:
    """Measures tokens a second, the first steps left out."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.num_tokens = 0
        self.start = time.perf_counter()

    def note(self, step: int, num_tokens: int) -> None:
        """Counts one step; starts anew when the machine is warm."""
        self.num_tokens += num_tokens
        if step == WARM_STEPS:
            self._wait()
            self.num_tokens = 0
            self.start = time.perf_counter()

    def speed(self) -> float:
        """Returns tokens a second."""
        self._wait()
        return self.num_tokens / (time.perf_counter() - self.start)

    def _wait(self) -> None:
        if self.device.type == "cuda":
            torch.cuda.synchronize()


class Peer:
    """A model of Hugging Face's, trained by the book."""

    def __init__(
        self,
        model_dir: Path,
        name: str,
        task: Task[Any, Any],
        device: torch.device,
    ) -> None:
        """Loads the weights that our side starts from.

        Args:
            model_dir: Where they lie.
            name: Of the kind of task, as in the plan.
            task: Makes the batches.
            device: Where to compute; in bf16 on a GPU.
        """
        self.model = CLASSES[name].from_pretrained(model_dir).to(device)
        self.name = name
        self.task = task
        self.device = device

    def train(
        self,
        source: ItemSource,
        items: Sequence[Item],
        settings: TrainingSettings,
    ) -> float:
        """Trains on the steps of `source`; returns real tokens a second."""
        assert settings.epochs is not None
        optimizer = build_optimizer(self.model, settings)
        total = settings.epochs * source.num_steps()
        warmup = settings.warmup_steps or 0
        torch.manual_seed(settings.seed)
        self.model.train()
        watch = Stopwatch(self.device)
        steps = prefetch(self._padded_steps(source, items, settings.epochs))
        for step, (inputs, num_tokens) in enumerate(steps):
            rate = (step + 1) / warmup if step < warmup else 0.0
            if step >= warmup:
                rate = warmup_then_decay(step / total, warmup / total)
            for group in optimizer.param_groups:
                group["lr"] = rate * settings.learning_rate
            moved = {k: v.to(self.device) for k, v in inputs.items()}
            with self._autocast():
                loss = self.model(**moved).loss
            loss.backward()
            nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
            watch.note(step + 1, num_tokens)
        return watch.speed()

    @torch.inference_mode()
    def outputs(self, items: Sequence[Item]) -> list[Output]:
        """Runs the model over items, in batches of like lengths."""
        self.model.eval()
        found: dict[int, Output] = {}
        order = longest_first([item.num_tokens for item in items])
        for start in range(0, len(order), SCORING_BATCH_SIZE):
            numbers = order[start : start + SCORING_BATCH_SIZE]
            batch = [items[number] for number in numbers]
            inputs = {
                name: tensor.to(self.device)
                for name, tensor in self._pad(batch).items()
                if name.endswith(("ids", "mask"))
            }
            with self._autocast():
                output = self.model(**inputs)
            found.update(zip(numbers, self._split(output, batch), strict=True))
        return [found[number] for number in range(len(order))]

    def _padded_steps(
        self, source: ItemSource, items: Sequence[Item], epochs: int
    ) -> Iterator[tuple[dict[str, Tensor], int]]:
        for epoch in range(epochs):
            for numbers in source.order(epoch):
                batch = [items[number] for number in numbers]
                yield self._pad(batch), sum(item.num_tokens for item in batch)

    def _pad(self, items: Sequence[Item]) -> dict[str, Tensor]:
        """Makes Hugging Face's inputs of items."""
        batch = self.task.collate(items)
        assert batch.cu_seqlens is not None
        lengths = batch.cu_seqlens.diff().tolist()
        inputs = {
            "input_ids": _rows(batch.input_ids, lengths, 0),
            "token_type_ids": _rows(batch.token_type_ids, lengths, 0),
            "attention_mask": _rows(
                torch.ones_like(batch.input_ids), lengths, 0
            ),
        }
        if self.name == "choose":
            shape = (len(items), -1, inputs["input_ids"].shape[1])
            inputs = {name: ids.view(shape) for name, ids in inputs.items()}
        if self.name == "answer":
            if batch.start_positions is not None:
                assert batch.end_positions is not None
                inputs["start_positions"] = batch.start_positions
                inputs["end_positions"] = batch.end_positions
        elif batch.labels is not None:
            inputs["labels"] = (
                _rows(batch.labels, lengths, IGNORE_INDEX)
                if self.name == "tag"
                else batch.labels
            )
        return inputs

    def _split(self, output: Any, items: Sequence[Item]) -> list[Output]:
        """Cuts the numbers of a padded batch into those of its items."""
        if self.name == "answer":
            logits = torch.stack((output.start_logits, output.end_logits), -1)
        else:
            logits = output.logits
        rows = logits.float().cpu().numpy()
        if self.name in ("tag", "answer"):
            return [
                row[: len(item.sequences[0].input_ids)]
                for row, item in zip(rows, items, strict=True)
            ]
        return list(rows)

    def _autocast(self) -> Any:
        if self.device.type != "cuda":
            return nullcontext()
        return torch.autocast("cuda", torch.bfloat16)


def _rows(packed: Tensor, lengths: list[int], fill: int) -> Tensor:
    return pad_sequence(
        packed.split(lengths), batch_first=True, padding_value=fill
    )
