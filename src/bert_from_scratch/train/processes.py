"""One process or many: who am I, and sums over all of us."""

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
    """

    rank: int = 0
    count: int = 1

    @property
    def is_first(self) -> bool:
        """Whether this process writes and talks."""
        return self.rank == 0

    def sum(self, values: Tensor) -> Tensor:
        """Adds up a tensor over all processes, in place."""
        if self.count > 1:
            dist.all_reduce(values)
        return values

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
    if device.type == "cuda":
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    return Processes(dist.get_rank(), count)
