"""One process or many: who am I, and sums over all of us."""

import atexit
import os
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import Tensor


@dataclass(frozen=True)
class Processes:
    """The group of processes that train together.

    Attributes:
        rank: This process; 0 writes files and talks.
        count: All processes.
        device: Where tensors must lie to be summed.
    """

    rank: int = 0
    count: int = 1
    device: str = "cpu"

    @property
    def is_first(self) -> bool:
        """Whether this process writes and talks."""
        return self.rank == 0

    def sum(self, values: Tensor) -> Tensor:
        """Adds up a tensor over all processes, in place."""
        if self.count > 1:
            dist.all_reduce(values)
        return values

    def of_first(self, value: float) -> float:
        """Returns what the first process gives."""
        if self.count == 1:
            return value
        return float(self.sum(self._tensor(value if self.is_first else 0.0)))

    def any(self, claim: bool) -> bool:
        """Returns whether the claim is true anywhere."""
        if self.count == 1:
            return claim
        return bool(self.sum(self._tensor(float(claim))) > 0)

    def _tensor(self, value: float) -> Tensor:
        return torch.tensor(value, dtype=torch.float64, device=self.device)

    def wait(self) -> None:
        """Waits until all processes have come here."""
        if self.count > 1:
            dist.barrier()


def join_processes(device: torch.device) -> Processes:
    """Joins the group that `torchrun` started, if it did."""
    count = int(os.environ.get("WORLD_SIZE", "1"))
    if count == 1:
        return Processes()
    if not dist.is_initialized():
        backend = "nccl" if device.type == "cuda" else "gloo"
        dist.init_process_group(backend)
        # 不道别就退出，后台线程偶尔会让进程在最后一刻崩溃
        atexit.register(_leave)
    if device.type == "cuda":
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    return Processes(dist.get_rank(), count, device.type)


def _leave() -> None:
    if dist.is_initialized():
        dist.destroy_process_group()
