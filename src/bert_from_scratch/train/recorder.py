"""What a run leaves behind while it goes on: metrics, checkpoints, progress."""

import math
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

from bert_from_scratch.data.batch import Batch
from bert_from_scratch.train.checkpoint import (
    checkpoint_path,
    remove_old_checkpoints,
    save_checkpoint,
)
from bert_from_scratch.train.evaluation import PartResult
from bert_from_scratch.train.run_directory import RunDirectory
from bert_from_scratch.train.step_result import StepResult
from bert_from_scratch.train.tensorboard import TensorBoard
from bert_from_scratch.train.trainer import BertTrainer


@dataclass(frozen=True)
class Progress:
    """What is told after every step.

    Attributes:
        result: The step itself.
        progress: Part of the budget that is used up, 0 to 1.
        seconds: Time used, over all sittings.
        tokens_per_second: Real tokens since the last logged step.
        mfu: Share of the device's peak that does the model's arithmetic;
            None where the peak is not known.
        evaluation: The newest held-out losses, or None.
        seconds_left: Until the budget is used up; None: not known yet.
    """

    result: StepResult
    progress: float
    seconds: float
    tokens_per_second: float
    mfu: float | None
    evaluation: dict[str, PartResult] | None
    seconds_left: float | None


class Pace:
    """How fast a budget is used up in this sitting."""

    def __init__(self) -> None:
        self._first: tuple[float, float] | None = None

    def seconds_left(self, seconds: float, progress: float) -> float | None:
        """Returns the time until the budget is used up, or None at first.

        Args:
            seconds: Used so far.
            progress: Part of the budget that is used up.
        """
        if self._first is None:
            self._first = seconds, progress
        # 从第一步之后算起：启动与编译的时间不会再来一次
        start, before = self._first
        if progress <= before:
            return None
        return (seconds - start) * (1 - progress) / (progress - before)


class Recorder:
    """Writes metrics and checkpoints, and knows when to stop."""

    def __init__(
        self,
        run: RunDirectory,
        trainer: BertTrainer,
        report: Callable[[Progress], None],
        stop: threading.Event,
        *,
        held_out: Callable[[], Iterable[Batch]] | None = None,
        speed_limit: float | None = None,
    ) -> None:
        """Opens the logs, cut back to where the trainer is.

        Args:
            run: Where they lie; its lock is held.
            trainer: What is recorded.
            report: Called after every step, in the first process.
            stop: Whether somebody asked to stop.
            held_out: Labelled batches to evaluate on.
            speed_limit: Tokens a second at the devices' peak, for MFU.
        """
        self._run = run
        self._trainer = trainer
        self._report = report
        self._stop = stop
        self._held_out = held_out
        self._speed_limit = speed_limit
        self._logs = trainer.processes.is_first
        self.evaluation: dict[str, PartResult] | None = None
        self._evaluated_step = -1
        self._pace = Pace()
        if self._logs:
            step = trainer.state.step
            self._metrics = run.continue_log("metrics.jsonl", step)
            self._evaluations = run.continue_log("evaluations.jsonl", step)
            self._board = TensorBoard(run.directory, step + 1)
        self._start_interval()

    def _start_interval(self) -> None:
        self._time = time.monotonic()
        self._num_tokens = 0
        self._wait_seconds = 0.0

    def after_step(self, result: StepResult) -> bool:
        """Logs and saves when it is time; returns whether to stop."""
        settings = self._trainer.settings
        self._num_tokens += result.num_tokens
        self._wait_seconds += result.wait_seconds
        if self._logs:
            self._log(result)
        if result.step % settings.log_every == 0:
            self._start_interval()
        if _is_time(result.step, settings.evaluate_every):
            self.evaluate()
        if _is_time(result.step, settings.checkpoint_every):
            self.save()
        return self._stop.is_set()

    def _log(self, result: StepResult) -> None:
        trainer = self._trainer
        is_logged = result.step % trainer.settings.log_every == 0
        # 被叫停的那一步也要记：短的一程里，它可能是唯一的一行
        if is_logged or trainer.is_over or self._stop.is_set():
            self.write(result)
        self._report(self._progress(result))

    def write(self, result: StepResult) -> None:
        """Writes a line of metrics."""
        if self._logs:
            seconds = max(time.monotonic() - self._time, 1e-9)
            line = _to_line(
                self._progress(result), self._wait_seconds / seconds
            )
            self._metrics.write(line)
            self._board.write(result.step, line, "train")

    def _progress(self, result: StepResult) -> Progress:
        seconds = max(time.monotonic() - self._time, 1e-9)
        speed = self._num_tokens / seconds
        limit = self._speed_limit
        used, progress = self._trainer.state.seconds, self._trainer.progress
        return Progress(
            result,
            progress,
            used,
            speed,
            None if limit is None else speed / limit,
            self.evaluation,
            self._pace.seconds_left(used, progress),
        )

    def evaluate(self) -> None:
        """Computes the held-out losses."""
        trainer = self._trainer
        is_done = self._evaluated_step == trainer.state.step
        if self._held_out is None or is_done:
            return
        self._evaluated_step = trainer.state.step
        self.evaluation = trainer.evaluate(self._held_out())
        if self._logs:
            step = trainer.state.step
            line = {"step": step, **_flatten(self.evaluation)}
            line["perplexity"] = math.exp(min(_main_loss(self.evaluation), 700))
            self._evaluations.write(line)
            self._board.write(step, line, "held_out")
        self._start_interval()

    def _remember_best(self) -> None:
        """Notes the step whose checkpoint has the lowest held-out loss."""
        state = self._trainer.state
        if self.evaluation is None or self._evaluated_step != state.step:
            return
        loss = _main_loss(self.evaluation)
        if state.best_loss is None or loss < state.best_loss:
            self._trainer.state = replace(
                state, best_loss=loss, best_step=state.step
            )

    def save(self) -> None:
        """Writes a checkpoint of where the trainer is; keeps the best one."""
        self._remember_best()
        trainer = self._trainer
        checkpoints_dir = self._run.checkpoints_dir
        save_checkpoint(
            checkpoints_dir,
            trainer.model,
            trainer.optimizer,
            trainer.state,
            writes=self._logs,
        )
        if self._logs:
            best = trainer.state.best_step
            remove_old_checkpoints(
                checkpoints_dir,
                trainer.settings.keep_checkpoints,
                None
                if best is None
                else checkpoint_path(checkpoints_dir, best),
            )
        trainer.processes.wait()

    def close(self) -> None:
        """Writes what is still in memory."""
        if self._logs:
            self._board.close()


def _main_loss(parts: dict[str, PartResult]) -> float:
    # 预训练看 MLM：NSP 容易，总损失会被它带偏
    return next(iter(parts.values())).loss


def _is_time(step: int, every: int) -> bool:
    return every > 0 and step % every == 0


def _flatten(parts: dict[str, PartResult]) -> dict[str, Any]:
    return {
        f"{name}_{kind}": value
        for name, part in parts.items()
        for kind, value in (("loss", part.loss), ("accuracy", part.accuracy))
    }


def _to_line(progress: Progress, wait_share: float) -> dict[str, Any]:
    result = progress.result
    line = {
        "step": result.step,
        "loss": result.loss,
        # 即使不做 NSP 也写出这一栏，读取的脚本不必分情况
        "nsp_loss": None,
        **_flatten(result.parts),
        "lr": result.learning_rate,
        "gradient_norm": result.gradient_norm,
        "tokens_per_second": progress.tokens_per_second,
        "data_wait": wait_share,
        "seconds": progress.seconds,
    }
    if progress.mfu is not None:
        line["mfu"] = progress.mfu
    return line
