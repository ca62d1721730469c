"""One attempt: one learning rate, one seed, from a fresh head to a score.

runs/lr-2e-05-seed-0/
metrics.jsonl        one object a logged step
evaluations.jsonl    one object an epoch, with the scores on dev
checkpoints/         to go on from; gone when the attempt is done
weights.safetensors  of the model to keep
result.json          that it is done, and what came of it
"""

import shutil
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from torch import nn

from bert_from_scratch import atomic
from bert_from_scratch.config import read_json
from bert_from_scratch.errors import BertError
from bert_from_scratch.model.tensor_file import read_tensors, write_tensors
from bert_from_scratch.train.checkpoint import (
    remove_old_checkpoints,
    save_checkpoint,
    whole_weights,
)
from bert_from_scratch.train.recorder import Pace, Progress
from bert_from_scratch.train.restoring import restore_newest
from bert_from_scratch.train.run_directory import RunDirectory
from bert_from_scratch.train.step_result import StepResult
from bert_from_scratch.train.trainer import BertTrainer

Report = Callable[[Progress], None]
Announce = Callable[[str], None]
Scores = dict[str, float]


@dataclass(frozen=True)
class AttemptResult:
    """What came of one attempt.

    Attributes:
        learning_rate: At its highest.
        seed: Of head, order and dropout.
        scores: On dev, of the weights that were kept.
        epoch: When they were reached.
        num_steps: Steps taken.
        num_tokens: Tokens trained on.
        seconds: Time for training, over all sittings; evaluation excluded.
    """

    learning_rate: float
    seed: int
    scores: Scores
    epoch: int
    num_steps: int
    num_tokens: int
    seconds: float


class Attempt:
    """Trains once and keeps the last weights, or the best."""

    def __init__(
        self,
        run: RunDirectory,
        trainer: BertTrainer,
        evaluate: Callable[[nn.Module], Scores],
        metric: str,
        patience: int | None,
        report: Report,
        announce: Announce,
        stop: threading.Event,
    ) -> None:
        """Prepares an attempt, or goes on with one that was interrupted.

        Args:
            run: Its directory; the lock is held.
            trainer: Model and data.
            evaluate: Scores a model on dev.
            metric: The score that decides.
            patience: Epochs without a better score until it stops; None:
                all epochs, and the last weights are kept.
            report: Told after every step, in the first process.
            announce: Told the score of every epoch, likewise.
            stop: Whether somebody asked to stop.
        """
        self._run = run
        self._trainer = trainer
        self._evaluate = evaluate
        self._metric = metric
        self._patience = patience
        self._report = report
        self._announce = announce
        self._stop = stop
        self._writes = trainer.processes.is_first
        # 微调只有几分钟：全坏了就重来，好过停在那里等人
        restore_newest(trainer, run.checkpoints_dir, may_start_anew=True)
        self._seconds_before = trainer.state.seconds
        self._pace = Pace()
        self._start = time.monotonic()
        step = trainer.state.step
        self._evaluations = [
            line
            for line in run.read_log("evaluations.jsonl")
            if line["step"] <= step and {"epoch", metric} <= line.keys()
        ]
        if self._writes:
            self._metrics_log = run.continue_log("metrics.jsonl", step)
            self._evaluations_log = run.continue_log("evaluations.jsonl", step)

    @property
    def weights_path(self) -> Path:
        """The weights to keep."""
        return self._run.directory / "weights.safetensors"

    def train(self) -> AttemptResult | None:
        """Trains to the end; None: somebody asked to stop, and it is saved."""
        if self._stopped_before_evaluation():
            self._end_epoch()
        while not self._is_done():
            if self._trainer.fit(self._after_step) or self._is_done():
                break
            # 每轮结束时停下来评估；真被叫停时存档离开
            if self._trainer.processes.any(self._stop.is_set()):
                self._save()
                return None
            self._end_epoch()
        if not self._is_evaluated():
            self._end_epoch()
        if self._writes and not self._trainer.is_over:
            self._announce(
                f"stopped early: no better score in {self._patience} epoch(s)"
            )
        return self._finish()

    def _after_step(self, result: StepResult) -> bool:
        settings = self._trainer.settings
        is_over = self._trainer.is_over
        if self._writes:
            progress = self._progress(result)
            is_first = result.step == 1
            if is_first or is_over or result.step % settings.log_every == 0:
                self._metrics_log.write(_to_line(progress))
            self._report(progress)
        every = settings.checkpoint_every
        if every and result.step % every == 0:
            self._save()
        is_epoch_end = self._trainer.state.position.cursor == 0
        return is_epoch_end or self._stop.is_set()

    def _progress(self, result: StepResult) -> Progress:
        seconds = max(self._seconds, 1e-9)
        state, progress = self._trainer.state, self._trainer.progress
        return Progress(
            result,
            progress,
            seconds,
            state.num_tokens / seconds,
            None,
            None,
            self._pace.seconds_left(seconds, progress),
        )

    @property
    def _seconds(self) -> float:
        return self._seconds_before + time.monotonic() - self._start

    def _end_epoch(self) -> None:
        """Scores the model on dev, and keeps it where it is the best."""
        trainer = self._trainer
        state = trainer.state
        used = self._seconds
        # 先存检查点再评估：评估途中断电，也不必重训这一轮
        self._save()
        scores = self._evaluate(trainer.model)
        # 各进程的评估可能差一丝：以第一个为准，才会同时停
        decisive = trainer.processes.of_first(scores[self._metric])
        scores = {**scores, self._metric: decisive}
        epoch = round(trainer.source.epochs_done(state.position))
        line: dict[str, Any] = {"step": state.step, "epoch": epoch, **scores}
        is_best = all(
            scores[self._metric] > before[self._metric]
            for before in self._evaluations
        )
        self._evaluations.append(line)
        if self._writes:
            if is_best or self._patience is None:
                self._keep_weights()
            self._evaluations_log.write(line)
            self._announce(f"epoch {epoch}: {self._metric} {decisive:.4f}")
        self._seconds_before = used
        self._start = time.monotonic()

    def _keep_weights(self) -> None:
        with atomic.replace_file(self.weights_path) as scratch_path:
            write_tensors(scratch_path, whole_weights(self._trainer.model))

    def _is_evaluated(self) -> bool:
        last = self._evaluations[-1]["step"] if self._evaluations else -1
        return bool(last == self._trainer.state.step)

    def _stopped_before_evaluation(self) -> bool:
        state = self._trainer.state
        is_epoch_end = state.step > 0 and state.position.cursor == 0
        return is_epoch_end and not self._is_evaluated()

    def _is_done(self) -> bool:
        if self._trainer.is_over:
            return True
        if self._patience is None or not self._is_evaluated():
            return False
        since = len(self._evaluations) - 1 - self._best_number()
        return since >= self._patience

    def _best_number(self) -> int:
        values = [line[self._metric] for line in self._evaluations]
        if self._patience is None:
            return len(values) - 1
        return values.index(max(values))

    def _save(self) -> None:
        state = self._trainer.state
        checkpoints_dir = self._run.checkpoints_dir
        save_checkpoint(
            checkpoints_dir,
            self._trainer.model,
            self._trainer.optimizer,
            replace(state, seconds=self._seconds),
            writes=self._writes,
        )
        if self._writes:
            remove_old_checkpoints(checkpoints_dir, 1, None)
        self._trainer.processes.wait()

    def _tell_of_better(self, kept: dict[str, Any]) -> None:
        best = max(self._evaluations, key=lambda line: line[self._metric])
        if self._writes and best[self._metric] > kept[self._metric]:
            self._announce(
                f"epoch {best['epoch']} was better "
                f"({best[self._metric]:.4f}); --patience keeps the best"
            )

    def _finish(self) -> AttemptResult:
        kept = dict(self._evaluations[self._best_number()])
        self._tell_of_better(kept)
        state = self._trainer.state
        del kept["step"]
        result = AttemptResult(
            learning_rate=self._trainer.settings.learning_rate,
            seed=self._trainer.settings.seed,
            epoch=kept.pop("epoch"),
            scores=kept,
            num_steps=state.step,
            num_tokens=state.num_tokens,
            seconds=self._seconds,
        )
        if self._writes:
            write_result(self._run.directory, result)
            shutil.rmtree(self._run.checkpoints_dir, ignore_errors=True)
        self._trainer.processes.wait()
        return result


def write_result(directory: Path, result: AttemptResult) -> None:
    """Marks an attempt as done."""
    atomic.write_json(directory / "result.json", asdict(result))


def read_result(directory: Path) -> AttemptResult | None:
    """Reads what came of an attempt; None: it is not done."""
    path = directory / "result.json"
    if not path.is_file():
        return None
    try:
        return AttemptResult(**read_json(path))
    except TypeError as error:
        raise BertError(
            f"{path} is damaged: {error}.",
            hint=f"remove {directory} to make this attempt again",
        ) from error


def load_weights(model: nn.Module, directory: Path) -> None:
    """Fills a model with the weights that an attempt kept."""
    path = directory / "weights.safetensors"
    if not path.is_file():
        raise BertError(
            f"{path} is gone.", hint="start again with another --out"
        )
    model.load_state_dict(read_tensors(path))


def _to_line(progress: Progress) -> dict[str, Any]:
    result = progress.result
    return {
        "step": result.step,
        "loss": result.loss,
        "accuracy": next(iter(result.parts.values())).accuracy,
        "lr": result.learning_rate,
        "gradient_norm": result.gradient_norm,
        "tokens_per_second": progress.tokens_per_second,
        "seconds": progress.seconds,
    }
