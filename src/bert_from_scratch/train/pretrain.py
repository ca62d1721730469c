"""Pre-training from start to end: model, data, trainer and run together.

The one file of this room that knows BERT.
"""

import math
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch

from bert_from_scratch.config import BertConfig
from bert_from_scratch.data.masking import MaskingRule
from bert_from_scratch.data.pretraining import BatchShape, PretrainingData
from bert_from_scratch.data.shards import Documents, TokenShards
from bert_from_scratch.errors import BertError
from bert_from_scratch.model.device import choose_device
from bert_from_scratch.objectives.pretraining import BertForPreTraining
from bert_from_scratch.tokenizer import WordPieceTokenizer
from bert_from_scratch.train.checkpoint import (
    load_checkpoint,
    newest_checkpoint,
    remove_old_checkpoints,
    save_checkpoint,
)
from bert_from_scratch.train.processes import Processes, join_processes
from bert_from_scratch.train.run_directory import RunDirectory
from bert_from_scratch.train.settings import TrainingSettings
from bert_from_scratch.train.trainer import (
    BertTrainer,
    NonFiniteLossError,
    StepResult,
)


@dataclass(frozen=True)
class PretrainingPlan:
    """Everything that decides a pre-training run, as kept in its config.json.

    Attributes:
        data_dir: Token shards.
        data_sha256: Checksum of their tokens; the data must not change.
        model: The shape of the model.
        training: How to train.
        init_dir: A BERT to start from; None: fresh weights.
        batch_tokens: Tokens a step.
        max_length: Longest sequence.
        with_pairs: Whether there is next sentence prediction.
        mask_rate: Share of tokens that are hidden.
        whole_word: Whether whole words are hidden.
        held_out_share: Share of documents that are only evaluated on.
        device: Where to train.
    """

    data_dir: str
    data_sha256: str
    model: BertConfig
    training: TrainingSettings
    init_dir: str | None = None
    batch_tokens: int = 8192
    max_length: int = 128
    with_pairs: bool = True
    mask_rate: float = 0.15
    whole_word: bool = False
    held_out_share: float = 0.0
    device: str = "auto"

    def to_dict(self) -> dict[str, Any]:
        """Returns the contents of the run's config.json."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> "PretrainingPlan":
        """Reads the contents of a run's config.json."""
        training = dict(values["training"])
        training["betas"] = tuple(training["betas"])
        return cls(
            **{
                **values,
                "model": BertConfig.from_dict(values["model"]),
                "training": TrainingSettings(**training),
            }
        )


@dataclass(frozen=True)
class Progress:
    """What is told after every step.

    Attributes:
        result: The step itself.
        progress: Part of the budget that is used up, 0 to 1.
        tokens_per_second: Real tokens since the last logged step.
    """

    result: StepResult
    progress: float
    tokens_per_second: float


class Interrupted(BertError):  # noqa: N818
    """The run was asked to stop; it was saved and can be resumed."""


def start(
    plan: PretrainingPlan, out: Path, report: Callable[[Progress], None]
) -> Path:
    """Starts a new run.

    Returns:
        The directory of the final model.
    """
    processes = join_processes(choose_device(plan.device))
    run = RunDirectory(out)
    if processes.is_first:
        run.create(plan.to_dict())
    processes.wait()
    return _train(plan, run, processes, report)


def resume(directory: Path, report: Callable[[Progress], None]) -> Path:
    """Goes on with a run from its newest checkpoint."""
    run = RunDirectory(directory)
    plan = PretrainingPlan.from_dict(run.read_config())
    processes = join_processes(choose_device(plan.device))
    return _train(plan, run, processes, report)


def _train(
    plan: PretrainingPlan,
    run: RunDirectory,
    processes: Processes,
    report: Callable[[Progress], None],
) -> Path:
    device = choose_device(plan.device)
    data, held_out, tokenizer = _open_data(plan, processes, device)
    model = _build_model(plan)
    lock = run if processes.is_first else nullcontext()
    with lock, _catch_signals() as stop:
        trainer = BertTrainer(
            model, data, plan.training, device=device, processes=processes
        )
        newest = newest_checkpoint(run.checkpoints_dir)
        if newest is not None:
            trainer.restore(load_checkpoint(newest, model, trainer.optimizer))
        recorder = _Recorder(run, trainer, held_out, report, stop)
        try:
            is_done = trainer.fit(recorder.after_step)
        except NonFiniteLossError:
            recorder.save()
            raise
        if is_done:
            recorder.evaluate()
        recorder.save()
        if not is_done:
            raise Interrupted(
                f"Stopped at step {trainer.state.step}, as asked; saved.",
                hint=f"go on with: bert pretrain --resume {run.directory}",
            )
        if processes.is_first:
            model.cpu().save_pretrained(run.model_dir)
            tokenizer.save(run.model_dir)
        processes.wait()
    return run.model_dir


def _open_data(
    plan: PretrainingPlan, processes: Processes, device: torch.device
) -> tuple[PretrainingData, PretrainingData | None, WordPieceTokenizer]:
    """Opens the shards; returns data to train and to evaluate on."""
    shards = TokenShards.open(plan.data_dir)
    if shards.meta.files["tokens.bin"]["sha256"] != plan.data_sha256:
        raise BertError(
            f"{plan.data_dir} has changed since the run began.",
            hint="restore the data, or start a new run",
        )
    tokenizer = WordPieceTokenizer.load(shards.tokenizer_dir)
    _check_fit(plan, len(tokenizer))
    shape = BatchShape.plan(
        plan.batch_tokens,
        plan.max_length,
        plan.training.num_accumulated,
        processes.rank,
        processes.count,
    )
    rule = MaskingRule.of(tokenizer, plan.mask_rate)

    def make(documents: Documents) -> PretrainingData:
        return PretrainingData(
            shards,
            tokenizer,
            shape,
            rule,
            plan.training.seed,
            documents=documents,
            with_pairs=plan.with_pairs,
            whole_word=plan.whole_word,
            is_static=device.type == "cuda",
        )

    rest, held_out = shards.documents().split(
        plan.held_out_share, plan.training.seed
    )
    # 留出的文档太少，评估就只是噪声，还会造不出句对
    has_enough = len(held_out) >= MIN_HELD_OUT
    if not has_enough:
        rest = shards.documents()
    return make(rest), make(held_out) if has_enough else None, tokenizer


MIN_HELD_OUT = 5


def _check_fit(plan: PretrainingPlan, vocab_size: int) -> None:
    if vocab_size > plan.model.vocab_size:
        raise BertError(
            f"The vocabulary has {vocab_size} entries, but the model's "
            f"embedding only {plan.model.vocab_size}.",
            hint="use the model's own tokenizer in bert prepare",
        )
    if plan.max_length > plan.model.max_position_embeddings:
        raise BertError(
            f"--max-length {plan.max_length} is over the model's "
            f"max_position_embeddings={plan.model.max_position_embeddings}."
        )


def _build_model(plan: PretrainingPlan) -> BertForPreTraining:
    torch.manual_seed(plan.training.seed)
    if plan.init_dir is None:
        model = BertForPreTraining(plan.model)
    else:
        model = BertForPreTraining.from_pretrained(plan.init_dir)
    if not plan.with_pairs:
        # 不做 NSP 时池化层与 NSP 头没有梯度：冻结，免得分布式训练空等
        model.nsp_head.requires_grad_(False)
        model.bert.pooler.requires_grad_(False)
    return model


class _Recorder:
    """Writes metrics and checkpoints, and knows when to stop."""

    def __init__(
        self,
        run: RunDirectory,
        trainer: BertTrainer,
        held_out: PretrainingData | None,
        report: Callable[[Progress], None],
        stop: threading.Event,
    ) -> None:
        self._run = run
        self._trainer = trainer
        self._held_out = held_out
        self._report = report
        self._stop = stop
        self._logs = trainer.processes.is_first
        if self._logs:
            run.cut_back("metrics.jsonl", trainer.state.step)
            self._metrics = run.open_log("metrics.jsonl")
            run.cut_back("evaluations.jsonl", trainer.state.step)
            self._evaluations = run.open_log("evaluations.jsonl")
        self._time = time.monotonic()
        self._num_tokens = 0

    def after_step(self, result: StepResult) -> bool:
        """Logs and saves when it is time; returns whether to stop."""
        settings, state = self._trainer.settings, self._trainer.state
        self._num_tokens += result.num_tokens
        seconds = max(time.monotonic() - self._time, 1e-9)
        speed = self._num_tokens / seconds
        is_logged = result.step % settings.log_every == 0
        if self._logs and (is_logged or self._trainer.is_over):
            self._metrics.write(_to_line(result, speed, state.seconds))
        if is_logged:
            self._time, self._num_tokens = time.monotonic(), 0
        if self._logs:
            progress = self._trainer.budget.progress(state.step, state.position)
            self._report(Progress(result, progress, speed))
        if _is_time(result.step, settings.evaluate_every):
            self.evaluate()
        if _is_time(result.step, settings.checkpoint_every):
            self.save()
        return self._stop.is_set()

    def evaluate(self) -> None:
        """Computes the held-out losses, and remembers the best."""
        trainer = self._trainer
        if self._held_out is None:
            return
        parts = trainer.evaluate(self._held_out.sample(EVALUATION_TOKENS))
        loss = parts["mlm"].loss
        best = trainer.state.best_loss
        if best is None or loss < best:
            trainer.state = replace(trainer.state, best_loss=loss)
        if self._logs:
            line: dict[str, Any] = {"step": trainer.state.step}
            for name, part in parts.items():
                line[f"{name}_loss"] = part.loss
                line[f"{name}_accuracy"] = part.accuracy
            line["perplexity"] = math.exp(min(loss, 700))
            self._evaluations.write(line)

    def save(self) -> None:
        """Writes a checkpoint of where the trainer is."""
        trainer = self._trainer
        if trainer.processes.is_first:
            checkpoints_dir = self._run.checkpoints_dir
            save_checkpoint(
                checkpoints_dir, trainer.model, trainer.optimizer, trainer.state
            )
            keep = trainer.settings.keep_checkpoints
            remove_old_checkpoints(checkpoints_dir, keep, best=None)
        trainer.processes.wait()


EVALUATION_TOKENS = 1 << 17


def _is_time(step: int, every: int) -> bool:
    return every > 0 and step % every == 0


def _to_line(
    result: StepResult, speed: float, seconds: float
) -> dict[str, Any]:
    line: dict[str, Any] = {"step": result.step, "loss": result.loss}
    for name, part in result.parts.items():
        line[f"{name}_loss"] = part.loss
        line[f"{name}_accuracy"] = part.accuracy
    # 即使不做 NSP 也写出这一栏，读取的脚本不必分情况
    line.setdefault("nsp_loss", None)
    return {
        **line,
        "lr": result.learning_rate,
        "gradient_norm": result.gradient_norm,
        "tokens_per_second": speed,
        "seconds": seconds,
    }


@contextmanager
def _catch_signals() -> Iterator[threading.Event]:
    """Turns SIGINT and SIGTERM into a wish to stop after the step."""
    stop = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return
    signals = (signal.SIGINT, signal.SIGTERM)
    before = [signal.signal(s, lambda *_: stop.set()) for s in signals]
    try:
        yield stop
    finally:
        for number, handler in zip(signals, before, strict=True):
            signal.signal(number, handler)
