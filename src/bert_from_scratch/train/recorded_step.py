"""RecordedStep: forward and backward as one launch (CUDA graphs).

A small model finishes its kernels faster than Python can launch them. A GPU
that has recorded all launches of a step once repeats them by itself.
"""

from collections.abc import Callable, Hashable
from dataclasses import dataclass, fields

import torch
from torch import Tensor

from bert_from_scratch.data.batch import Batch
from bert_from_scratch.objectives.output import Part

Counts = dict[str, Tensor]
Parts = dict[str, Part]
Backward = Callable[[Batch, Counts], Parts]


@dataclass(frozen=True)
class Recording:
    """What was recorded, and the memory that it reads and writes."""

    graph: torch.cuda.CUDAGraph
    batch: Batch
    counts: Counts
    parts: Parts

    def replay(self, batch: Batch, counts: Counts) -> Parts:
        """Repeats the step with other numbers."""
        # 录下的内核只认固定的地址：新的批次先抄进去
        for own, new in zip(_tensors(self.batch), _tensors(batch), strict=True):
            own.copy_(new)
        for name, count in counts.items():
            self.counts[name].copy_(count)
        self.graph.replay()
        return self.parts


class RecordedStep:
    """Runs a step; from the second batch of a shape on, replays it.

    Gradients must stay where they are: they are set to zero, never dropped.
    """

    def __init__(self, backward: Backward) -> None:
        """Wraps a step.

        Args:
            backward: Computes the loss of a batch and adds its gradients;
                never waits for the device, and returns no gradients' tape.
        """
        self._backward = backward
        self._seen: set[Hashable] = set()
        self._recordings: dict[Hashable, Recording] = {}
        self._pool = torch.cuda.graph_pool_handle()

    def __call__(self, batch: Batch, counts: Counts) -> Parts:
        """Adds the gradients of a batch; its sums hold until the next call."""
        shape = _shape(batch)
        if shape not in self._seen:
            # 第一次照常运行：编译、选内核、分配梯度都不能录
            self._seen.add(shape)
            return self._backward(batch, counts)
        if shape not in self._recordings:
            self._recordings[shape] = self._record(batch, counts)
        return self._recordings[shape].replay(batch, counts)

    def _record(self, batch: Batch, counts: Counts) -> Recording:
        own_batch = batch.clone()
        own_counts = {name: count.clone() for name, count in counts.items()}
        graph = torch.cuda.CUDAGraph()
        # 各形状轮流使用同一块显存；读数据的线程此时可以照常工作
        with torch.cuda.graph(
            graph, pool=self._pool, capture_error_mode="thread_local"
        ):
            parts = self._backward(own_batch, own_counts)
        return Recording(graph, own_batch, own_counts, parts)


def _tensors(batch: Batch) -> list[Tensor]:
    values = (getattr(batch, field.name) for field in fields(batch))
    return [value for value in values if isinstance(value, Tensor)]


def _shape(batch: Batch) -> Hashable:
    return batch.max_seqlen, *(
        (field.name, tuple(value.shape))
        for field in fields(batch)
        if isinstance(value := getattr(batch, field.name), Tensor)
    )
