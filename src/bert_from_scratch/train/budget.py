"""How much of a run is used up, and the learning rate that follows from it."""

import time

from bert_from_scratch.data.steps import Position, StepSource
from bert_from_scratch.train.processes import Processes
from bert_from_scratch.train.settings import TrainingSettings

MAX_WARMUP_STEPS = 10_000
WARMUP_SHARE = 0.1


class Budget:
    """Steps, epochs or minutes, whichever the settings give.

    The minutes begin when the run is started. Their schedule begins with the
    first step: what loading and compiling took is not missing from the warm-up.
    """

    def __init__(
        self,
        settings: TrainingSettings,
        source: StepSource,
        seconds_before: float = 0.0,
        schedule_start: float | None = None,
    ) -> None:
        """Starts the clock.

        Args:
            settings: Which budget, and which warm-up.
            source: Knows the length of an epoch.
            seconds_before: Time used in earlier sittings of the same run.
            schedule_start: How much of it had passed at the first step.
        """
        self._settings = settings
        self._source = source
        self._start = time.monotonic() - seconds_before
        self.seconds = seconds_before
        self.schedule_start = schedule_start
        if settings.steps is not None:
            self.total_steps: int | None = settings.steps
        elif settings.epochs is not None:
            self.total_steps = settings.epochs * source.num_steps(0)
        else:
            self.total_steps = None

    def tick(self, processes: Processes = Processes()) -> None:  # noqa: B008
        """Reads the clock: the time used, over all sittings."""
        # 所有进程看同一只钟：否则有的进程多走一步，其余的永远等它
        self.seconds = processes.of_first(time.monotonic() - self._start)

    def start_schedule(self) -> None:
        """Says that the first step is done, so compiling is over."""
        if self.schedule_start is None:
            self.schedule_start = self.seconds

    def progress(self, step: int, position: Position) -> float:
        """Returns the part of the budget that is used up, 0 to 1."""
        settings = self._settings
        if settings.steps is not None:
            return min(step / settings.steps, 1.0)
        if settings.epochs is not None:
            # 由数据位置算出，不看时钟：恢复后的学习率逐位相同
            return min(self._source.epochs_done(position) / settings.epochs, 1)
        assert settings.minutes is not None
        if self.schedule_start is None:
            return 0.0
        end = 60 * settings.minutes - settings.reserved_seconds
        available = end - self.schedule_start
        used = self.seconds - self.schedule_start
        return min(max(used / max(available, 1e-9), 0.0), 1.0)

    def rate_factor(self, step: int, position: Position) -> float:
        """Returns what the learning rate is multiplied by at this step."""
        progress = self.progress(step, position)
        warmup_steps = self._settings.warmup_steps
        if warmup_steps is None and self.total_steps is not None:
            share = int(WARMUP_SHARE * self.total_steps)
            warmup_steps = min(MAX_WARMUP_STEPS, share)
        if warmup_steps is None:
            # 机器慢时一成的时间走不了几步，学习率升得太陡会毁掉训练
            limit = (step + 1) / max(self._settings.min_warmup_steps, 1)
            return min(warmup_then_decay(progress, WARMUP_SHARE), limit)
        if step < warmup_steps:
            # 第一步就有学习率，不白走
            return min((step + 1) / warmup_steps, self._clock_limit(progress))
        total = self.total_steps or max(step / max(progress, 1e-9), 1.0)
        factor = warmup_then_decay(progress, min(warmup_steps / total, 0.999))
        return min(factor, self._clock_limit(progress))

    def _clock_limit(self, progress: float) -> float:
        """Returns what the factor cannot be above, by the clock."""
        # 按钟点结束的训练，热身到一半时间还没完，就从那里起降到 0：走得慢的
        # 机器不会停在最高的学习率上
        return 1.0 if self.total_steps is not None else 2 * (1 - progress)


def warmup_then_decay(progress: float, warmup: float) -> float:
    """Goes up in a line until `warmup`, then down in a line to 0 at 1.

    >>> [warmup_then_decay(p, 0.1) for p in (0.05, 0.1, 0.55, 1.0)]
    [0.5, 1.0, 0.5, 0.0]
    """
    if progress < warmup:
        return progress / warmup
    return (1 - progress) / (1 - warmup)
