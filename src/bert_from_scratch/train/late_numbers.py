"""LateNumbers: on their way from the device, read when it has other work."""

from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor


@dataclass(frozen=True)
class LateNumbers:
    """Numbers that may not have arrived yet."""

    _numbers: Tensor
    _arrival: torch.cuda.Event | None

    @classmethod
    def send(cls, numbers: Tensor) -> Self:
        """Sends numbers off to the CPU, without waiting for them."""
        if not numbers.is_cuda:
            return cls(numbers.cpu(), None)
        # 复制排在这一批之后、下一批之前；晚了就要等下一批算完
        here = torch.empty_like(numbers, device="cpu", pin_memory=True)
        here.copy_(numbers, non_blocking=True)
        arrival = torch.cuda.Event()
        arrival.record()
        return cls(here, arrival)

    def read(self) -> Tensor:
        """Waits until the numbers are here; returns them."""
        if self._arrival is None:
            return self._numbers
        self._arrival.synchronize()
        # 抄一份：锁页内存稀缺，要还给后面的批次用
        return self._numbers.clone()
