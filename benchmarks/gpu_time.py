"""How long the GPU takes, by its own clock."""

from collections.abc import Callable

import torch


def time_on_gpu(
    launch: Callable[[], object], repeats: int, warm_ups: int = 3
) -> float:
    """Returns the mean time of a launch on the device, in milliseconds."""
    for _ in range(warm_ups):
        launch()
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    for _ in range(repeats):
        launch()
    end.record()
    end.synchronize()
    return begin.elapsed_time(end) / repeats
