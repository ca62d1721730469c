"""Fine-tuning from start to end: a plan, attempts, a result directory."""

import statistics
import threading
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from bert_from_scratch import atomic
from bert_from_scratch.config import read_json
from bert_from_scratch.data.tasks.recipes import TaskData
from bert_from_scratch.errors import BertError
from bert_from_scratch.finetune.advice import (
    warn_of_few_steps,
    warn_of_many_labels,
    warn_of_one_label,
    warn_of_spread,
    warn_of_unknown_tokens,
)
from bert_from_scratch.finetune.attempt import (
    Announce,
    Attempt,
    AttemptResult,
    load_weights,
    read_result,
)
from bert_from_scratch.finetune.inference import predict, run_model
from bert_from_scratch.finetune.items import Item
from bert_from_scratch.finetune.layers import (
    freeze_layers,
    rate_scales,
    set_attention_dropout,
)
from bert_from_scratch.finetune.loading import limit_data, load_data
from bert_from_scratch.finetune.outcome import Judged, Outcome, write_outcome
from bert_from_scratch.finetune.plan import FinetunePlan
from bert_from_scratch.finetune.result_directory import (
    check_new,
    claim,
    fingerprint,
    fingerprint_model,
)
from bert_from_scratch.finetune.source import ItemSource
from bert_from_scratch.finetune.task import Task
from bert_from_scratch.finetune.tasks import make_task
from bert_from_scratch.model.device import choose_device
from bert_from_scratch.model.directory import find
from bert_from_scratch.train.interruption import Interrupted, catch_signals
from bert_from_scratch.train.processes import Processes, join_processes
from bert_from_scratch.train.recorder import Progress
from bert_from_scratch.train.run_directory import RunDirectory
from bert_from_scratch.train.settings import TrainingSettings
from bert_from_scratch.train.trainer import BertTrainer


@dataclass(frozen=True)
class Where:
    """Which attempt is going on.

    Attributes:
        number: From 1.
        count: Of all.
        learning_rate: At its highest.
        seed: Of head, order and dropout.
    """

    number: int
    count: int
    learning_rate: float
    seed: int


Report = Callable[[Where, Progress], None]


def keep_silent(text: str) -> None:
    """Tells nobody."""
    del text


def start(
    plan: FinetunePlan,
    out: Path,
    report: Report,
    announce: Announce = keep_silent,
) -> Outcome | None:
    """Starts a new fine-tuning.

    Args:
        plan: What to do.
        out: The result directory to make.
        report: Told after every step, in the first process.
        announce: Told what was read, and the score of every epoch.

    Returns:
        What came of it; None in all processes but the first.
    """
    processes = join_processes(choose_device(plan.device))
    if processes.is_first:
        check_new(out)
    # 先读数据、编码、建任务：有错就在此停下，不留下任何目录
    run = _Run(plan, out, processes, report, announce)
    with claim(out, processes):
        if processes.is_first:
            # 读数据的工夫里，别的进程可能已经占了这个目录
            check_new(out)
            atomic.write_json(out / "data.json", run.checksums())
            atomic.write_json(out / "plan.json", plan.to_dict())
        processes.wait()
        return run.go()


def resume(
    out: Path, report: Report, announce: Announce = keep_silent
) -> Outcome | None:
    """Goes on with a fine-tuning that was interrupted; as `start`."""
    if not (out / "plan.json").is_file():
        raise BertError(f"{out} is no fine-tuning: it has no plan.json.")
    if (out / "metrics.json").is_file():
        raise BertError(
            f"The fine-tuning {out} is finished.",
            hint="to train again, choose another --out",
        )
    plan = FinetunePlan.from_dict(read_json(out / "plan.json"))
    processes = join_processes(choose_device(plan.device))
    run = _Run(plan, out, processes, report, announce)
    before = read_json(out / "data.json")
    for name, checksum in run.checksums().items():
        # 旧的目录没有记下模型的校验和
        if before.get(name, checksum) != checksum:
            what = "model" if name == "model_sha256" else "data"
            raise BertError(
                f"The {what} of {out} has changed since it began.",
                hint="restore the files, or start again with another --out",
            )
    with claim(out, processes):
        return run.go()


class _Run:
    """A plan with its data read and its task made."""

    def __init__(
        self,
        plan: FinetunePlan,
        out: Path,
        processes: Processes,
        report: Report,
        announce: Announce,
    ) -> None:
        self.plan = plan
        self.out = out
        self.processes = processes
        self.report = report
        self.announce = announce
        self.device = choose_device(plan.device)
        if self.device.type == "cpu" and plan.num_threads is not None:
            torch.set_num_threads(plan.num_threads)
        whole = load_data(plan)
        self.data: TaskData = limit_data(plan, whole)
        self.task: Task[Any, Any] = make_task(plan, whole, self.data.train)
        self.items = self._trained_items()
        self.num_steps = self._check()
        self.dev_items = self.task.items(self.data.dev)
        if processes.is_first:
            self._describe_data()

    def checksums(self) -> dict[str, str]:
        """Returns what must be the same when the run goes on."""
        found = {"sha256": fingerprint(self.data)}
        if self.plan.model is not None:
            model_dir = find(Path(self.plan.model))
            found["model_sha256"] = fingerprint_model(model_dir)
        return found

    def _check(self) -> int:
        """Finds what is wrong before anything is written.

        Returns:
            The steps of an attempt.
        """
        metrics = self.task.metrics()
        if self.task.metric not in metrics:
            raise BertError(
                f"{self.plan.task} cannot be decided by {self.task.metric!r}.",
                hint=f"use one of {', '.join(metrics)}",
            )
        # 真搭一遍再扔掉：层数、dropout、种子、特征的错误都在此暴露
        rate, seed = self.plan.attempts[0]
        trainer = self._trainer(Where(1, 1, rate, seed))
        return trainer.budget.total_steps or 0

    def _describe_data(self) -> None:
        num_train, num_dev = len(self.data.train), len(self.data.dev)
        self.announce(f"{num_train:,} examples to train on, {num_dev:,} in dev")
        for note in self.data.notes:
            self.announce(note)
        warn_of_unknown_tokens(self.task, self.items)
        warn_of_many_labels(self.task, self.data.train)
        warn_of_few_steps(self.num_steps)

    def _trained_items(self) -> list[Item]:
        items = [
            item
            for item in self.task.items(self.data.train)
            if item.labels is not None
        ]
        if not items:
            raise BertError(
                "No example is left to train on.",
                hint="are the labels there, and inside --max-length?",
            )
        return items

    def go(self) -> Outcome | None:
        """Makes all attempts, and keeps the best."""
        results = []
        attempts = self.plan.attempts
        with catch_signals() as stop:
            for number, (rate, seed) in enumerate(attempts, 1):
                where = Where(number, len(attempts), rate, seed)
                result = self._attempt(where, stop)
                if result is None:
                    raise Interrupted(
                        f"Stopped in attempt {number} of {len(attempts)}, as "
                        "asked; saved.",
                        hint=f"go on with: bert finetune resume {self.out}",
                    )
                results.append(result)
                if self.processes.is_first:
                    self._forget_all_but(choose_best(results, self.task.metric))
            if not self.processes.is_first:
                return None
            return self._conclude(results, stop)

    def _directory(self, rate: float, seed: int) -> Path:
        return self.out / "runs" / f"lr-{rate!r}-seed-{seed}"

    def _attempt(self, where: Where, stop: Any) -> AttemptResult | None:
        directory = self._directory(where.learning_rate, where.seed)
        done = read_result(directory)
        if done is not None:
            return done
        if self.processes.is_first:
            directory.mkdir(parents=True, exist_ok=True)
        self.processes.wait()
        trainer = self._trainer(where)
        run = RunDirectory(directory)
        with run if self.processes.is_first else nullcontext():
            attempt = Attempt(
                run,
                trainer,
                lambda model: self._judge(model).scores,
                self.task.metric,
                self.plan.patience,
                partial(self.report, where),
                self.announce,
                stop,
            )
            return attempt.train()

    def _trainer(self, where: Where) -> BertTrainer:
        plan = self.plan
        # 头的初始权重、次序、dropout 都由这一个种子决定
        torch.manual_seed(where.seed)
        model = self._new_model()
        freeze_layers(model, plan.freeze_layers)
        records_steps = (
            self.task.is_recordable
            and self.device.type == "cuda"
            and plan.precision == "bf16"
            and self.processes.count == 1
        )
        source = ItemSource(
            self.items,
            self.task.collate,
            batch_size=plan.batch_size,
            batch_tokens=plan.batch_tokens,
            seed=where.seed,
            processes=self.processes,
            has_few_shapes=records_steps,
        )
        total = plan.epochs * source.num_steps()
        settings = TrainingSettings(
            epochs=plan.epochs,
            learning_rate=where.learning_rate,
            warmup_steps=int(plan.warmup_share * total),
            weight_decay=plan.weight_decay,
            precision=plan.precision,
            compiles=plan.compiles,
            has_static_shapes=False,
            records_steps=records_steps,
            seed=where.seed,
            log_every=plan.log_every,
            checkpoint_every=plan.checkpoint_every,
        )
        return BertTrainer(
            model,
            source,
            settings,
            device=self.device,
            processes=self.processes,
            rate_scales=rate_scales(model, plan.layer_decay),
        )

    def _new_model(self) -> nn.Module:
        model = self.task.new_model(Path(self.plan.model or ""))
        if self.plan.attention_dropout is not None:
            set_attention_dropout(model, self.plan.attention_dropout)
        return model

    def _judge(self, model: nn.Module) -> Judged:
        """Predicts and scores dev, with what is tuned on dev tuned."""
        outputs = run_model(
            self.task,
            model,
            self.dev_items,
            self.device,
            batch_tokens=max(self.plan.batch_tokens, 8192),
            half=self.plan.precision == "bf16",
        )
        if not all(bool(np.isfinite(output).all()) for output in outputs):
            raise BertError(
                "Training has diverged: the model's numbers are infinite.",
                hint="start again with a lower --lr and another --out",
            )
        examples = self.data.dev
        predictions = self.task.decode(examples, self.dev_items, outputs)
        tuned = self.task.tune(examples, predictions)
        if tuned is not self.task:
            predictions = tuned.decode(examples, self.dev_items, outputs)
        scores = tuned.score(examples, predictions)
        return Judged(tuned, examples, predictions, scores)

    def _forget_all_but(self, best: AttemptResult) -> None:
        """Removes the weights of all attempts but the best so far."""
        kept = self._directory(best.learning_rate, best.seed)
        for path in (self.out / "runs").glob("*/weights.safetensors"):
            if path.parent != kept and read_result(path.parent) is not None:
                path.unlink()

    def _conclude(
        self, results: list[AttemptResult], stop: threading.Event
    ) -> Outcome:
        def check_stop(num_done: int) -> None:
            del num_done
            if stop.is_set():
                raise Interrupted(
                    "Stopped while scoring, as asked; all training is saved.",
                    hint=f"go on with: bert finetune resume {self.out}",
                )

        best = choose_best(results, self.task.metric)
        warn_of_spread(results, best, self.task.metric)
        directory = self._directory(best.learning_rate, best.seed)
        model = self._new_model()
        load_weights(model, directory)
        model.to(self.device)
        judged = self._judge(model)
        warn_of_one_label(judged)
        half = self.plan.precision == "bf16"
        tests = {}
        for name, examples in self.data.others().items():
            self.announce(f"scoring {name}: {len(examples):,} examples")
            found = predict(
                *(judged.task, model, examples, self.device),
                half=half,
                progress=check_stop,
            )
            tests[name] = judged.task.score(examples, found)
        outcome = write_outcome(
            self.out, self.plan, self.data, model, judged, tests, results, best
        )
        (directory / "weights.safetensors").unlink()
        return outcome


def choose_best(results: list[AttemptResult], metric: str) -> AttemptResult:
    """Returns the best seed of the learning rate with the best mean."""
    by_rate: dict[float, list[AttemptResult]] = {}
    for result in results:
        by_rate.setdefault(result.learning_rate, []).append(result)

    def mean(group: list[AttemptResult]) -> float:
        return statistics.fmean(result.scores[metric] for result in group)

    # 先按均值选学习率，再选种子：只看单次最高分，选中的多半是运气
    group = max(by_rate.values(), key=mean)
    return max(group, key=lambda result: result.scores[metric])
