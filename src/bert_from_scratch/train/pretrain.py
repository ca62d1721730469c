"""Pre-training from start to end: a plan, a run directory, a model."""

import logging
import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from bert_from_scratch import atomic
from bert_from_scratch.errors import BertError
from bert_from_scratch.model.device import choose_device
from bert_from_scratch.objectives.pretraining import BertForPreTraining
from bert_from_scratch.tokenizer import WordPieceTokenizer
from bert_from_scratch.train.assemble import assemble
from bert_from_scratch.train.checkpoint import list_checkpoints, whole_weights
from bert_from_scratch.train.curve import draw_curve
from bert_from_scratch.train.evaluation import PartResult
from bert_from_scratch.train.flops import flops_per_token, peak_flops
from bert_from_scratch.train.interruption import Interrupted, catch_signals
from bert_from_scratch.train.memory import (
    explain_out_of_memory,
    is_out_of_memory,
)
from bert_from_scratch.train.pretraining_plan import PretrainingPlan
from bert_from_scratch.train.processes import Processes, join_processes
from bert_from_scratch.train.recorder import Progress, Recorder
from bert_from_scratch.train.restoring import restore_newest
from bert_from_scratch.train.run_directory import RunDirectory
from bert_from_scratch.train.step_result import NonFiniteLossError
from bert_from_scratch.train.trainer import BertTrainer

logger = logging.getLogger(__name__)

Report = Callable[[Progress], None]


@dataclass(frozen=True)
class Result:
    """What came of a run.

    Attributes:
        model_dir: The final model.
        num_steps: Steps taken.
        num_epochs: Passes over the data.
        num_tokens: Real tokens seen.
        seconds: Time used, over all sittings.
        loss: Sum of the losses at the last logged step; None: the log is lost.
        evaluation: Held-out losses at the end, by part; None where no
            documents were held out.
        best_step: When the held-out loss was lowest.
        curve_path: A picture of the losses; None: not drawn.
    """

    model_dir: Path
    num_steps: int
    num_epochs: float
    num_tokens: int
    seconds: float
    loss: float | None
    evaluation: dict[str, PartResult] | None
    best_step: int | None
    curve_path: Path | None


def start(
    plan: PretrainingPlan,
    out: Path,
    report: Report,
    begun: float | None = None,
) -> Result | None:
    """Starts a new run.

    Args:
        plan: All that decides it.
        out: The run's directory.
        report: Told of every step.
        begun: When a budget of minutes began, by `time.monotonic`; None: now.

    Returns:
        What came of it; None in all processes but the first.
    """
    begun = time.monotonic() if begun is None else begun
    processes = join_processes(choose_device(plan.device))
    run = RunDirectory(out)
    if processes.is_first:
        # 只由第一个进程看：别的进程来得晚，会把它刚建的目录当成旧的
        run.check_new()
    return _train_or_explain(plan, run, processes, report, begun)


def resume(
    directory: Path, report: Report, begun: float | None = None
) -> Result | None:
    """Goes on with a run from its newest checkpoint; as `start`."""
    begun = time.monotonic() if begun is None else begun
    run = RunDirectory(directory)
    plan = PretrainingPlan.from_dict(run.read_config())
    if run.model_dir.exists():
        raise BertError(
            f"The run {directory} is finished.",
            hint=f"train on with: bert pretrain DATA --init {directory} "
            "--out NEW",
        )
    processes = join_processes(choose_device(plan.device))
    if processes.is_first and not list_checkpoints(run.checkpoints_dir):
        logger.warning("%s has no checkpoint: it begins at step 1.", directory)
    return _train_or_explain(plan, run, processes, report, begun)


def _train_or_explain(
    plan: PretrainingPlan,
    run: RunDirectory,
    processes: Processes,
    report: Report,
    begun: float,
) -> Result | None:
    try:
        return _train(plan, run, processes, report, begun)
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
    # 在 except 之外才试：错误对象还引着失败那一步的全部张量
    raise explain_out_of_memory(plan, processes)


def _train(
    plan: PretrainingPlan,
    run: RunDirectory,
    processes: Processes,
    report: Report,
    begun: float,
) -> Result | None:
    # 先搭好再建目录：设置不合的运行不留下任何东西
    assembly = assemble(plan, processes)
    trainer = assembly.trainer
    if processes.is_first:
        run.create(plan.to_dict())
    lock = run if processes.is_first else nullcontext()
    with lock, catch_signals() as stop:
        restore_newest(trainer, run.checkpoints_dir, may_start_anew=False)
        _set_clock(trainer, begun)
        recorder = Recorder(
            run,
            trainer,
            report,
            stop,
            held_out=assembly.held_out,
            speed_limit=_speed_limit(plan, trainer.device, processes.count),
        )
        try:
            _fit(trainer, recorder, run.directory)
        except BaseException:
            if processes.is_first and trainer.state.step == 0:
                # 锁在手里、一步都没走成：清掉，改好设置可以用原名重来；
                # 先关日志，它的线程还在往目录里写
                recorder.close()
                run.remove()
            raise
        finally:
            recorder.close()
        _save_model(plan, trainer, run, assembly.tokenizer)
        if not processes.is_first:
            return None
        return _describe(trainer, recorder, run)


def _set_clock(trainer: BertTrainer, begun: float) -> None:
    """Adds what this sitting has taken so far: imports, data, weights."""
    state = trainer.state
    seconds = state.seconds + time.monotonic() - begun
    trainer.restore(replace(state, seconds=seconds))


def _fit(trainer: BertTrainer, recorder: Recorder, run_dir: Path) -> None:
    try:
        is_done = trainer.fit(recorder.after_step)
    except NonFiniteLossError as error:
        recorder.write(error.result)
        recorder.save()
        raise
    if is_done:
        recorder.evaluate()
    recorder.save()
    if not is_done:
        raise Interrupted(
            f"Stopped at step {trainer.state.step}, as asked; saved.",
            hint=f"go on with: bert pretrain --resume {run_dir}",
        )


def _speed_limit(
    plan: PretrainingPlan, device: torch.device, num_devices: int
) -> float | None:
    """Returns the tokens a second that the devices' peak would allow."""
    peak = peak_flops(device)
    if peak is None:
        return None
    cost = flops_per_token(
        plan.model, plan.phases[0].max_length, plan.mask_rate
    )
    return num_devices * peak / cost


def _save_model(
    plan: PretrainingPlan,
    trainer: BertTrainer,
    run: RunDirectory,
    tokenizer: WordPieceTokenizer,
) -> None:
    weights = whole_weights(trainer.model)
    if trainer.processes.is_first:
        # 不为马上要被覆盖的随机初始化付时间：收尾的每一秒都算在预算里
        with torch.device("meta"):
            model = BertForPreTraining(plan.model)
        model.load_state_dict(weights, assign=True)
        # 一起出现：只有半个模型的训练，不能算是结束了
        with atomic.new_directory(run.model_dir) as scratch_dir:
            model.save_pretrained(scratch_dir)
            tokenizer.save(scratch_dir)
    trainer.processes.wait()


def _describe(
    trainer: BertTrainer, recorder: Recorder, run: RunDirectory
) -> Result:
    state = trainer.state
    metrics = run.read_log("metrics.jsonl")
    evaluations = run.read_log("evaluations.jsonl")
    path = run.directory / "curve.png"
    is_drawn = draw_curve(metrics, evaluations, path)
    return Result(
        model_dir=run.model_dir,
        num_steps=state.step,
        num_epochs=trainer.source.epochs_done(state.position),
        num_tokens=state.num_tokens,
        seconds=state.seconds,
        loss=metrics[-1].get("loss") if metrics else None,
        evaluation=recorder.evaluation,
        best_step=state.best_step,
        curve_path=path if is_drawn else None,
    )
