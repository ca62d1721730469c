"""BertTrainer: one loop for pre-training and fine-tuning."""

import time
from collections.abc import (
    Callable,
    Generator,
    Iterable,
    Iterator,
    Mapping,
)
from contextlib import AbstractContextManager, closing, nullcontext
from dataclasses import dataclass, replace
from typing import Any, Protocol, cast

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from bert_from_scratch.data.batch import Batch
from bert_from_scratch.data.counter_random import hash_places
from bert_from_scratch.data.prefetch import prefetch
from bert_from_scratch.data.steps import Position, StepData, StepSource
from bert_from_scratch.objectives.output import Part, StepOutput
from bert_from_scratch.train.budget import Budget
from bert_from_scratch.train.checkpoint import TrainingState
from bert_from_scratch.train.compiling import compile_model
from bert_from_scratch.train.evaluation import (
    PartResult,
    Totals,
    evaluate_batches,
)
from bert_from_scratch.train.muon import Muon
from bert_from_scratch.train.optimizer import build_optimizer
from bert_from_scratch.train.processes import Processes
from bert_from_scratch.train.recorded_step import Backward, RecordedStep
from bert_from_scratch.train.settings import TrainingSettings
from bert_from_scratch.train.sharding import shard, whole
from bert_from_scratch.train.step_result import (
    NonFiniteLossError,
    StepResult,
    TakenStep,
)


class Trainable(Protocol):
    """What the loop needs of a model, besides being a module."""

    def __call__(self, batch: Batch) -> StepOutput:
        """Computes the parts of the loss."""

    def count_labels(self, batch: Batch) -> dict[str, Tensor]:
        """Counts what each part of the loss is averaged over."""


@dataclass(frozen=True)
class _Gradients:
    """What a step has computed before any weight is changed."""

    data: StepData
    totals: dict[str, Totals]
    wait_seconds: float = 0.0


class BertTrainer:
    """Trains a model on a source of steps."""

    def __init__(
        self,
        model: nn.Module,
        source: StepSource,
        settings: TrainingSettings,
        *,
        device: torch.device | str = "cpu",
        processes: Processes = Processes(),  # noqa: B008
        rate_scales: Mapping[str, float] | None = None,
    ) -> None:
        """Prepares everything for the first step.

        Args:
            model: A `Trainable` module.
            source: Batches, cut for this process.
            settings: How to train.
            device: Where to train.
            processes: The group of processes.
            rate_scales: What the learning rate is multiplied by, by name of
                the parameter.
        """
        self.device = torch.device(device)
        self.model = model.to(self.device)
        self.source = source
        self.settings = settings
        self.processes = processes
        self._records_steps = (
            settings.records_steps
            and self.device.type == "cuda"
            and processes.count == 1
        )
        self._is_sharded = processes.count > 1 and settings.shards_weights
        # 先切分再建优化器：Adam 的均值要跟着切开的权重走
        self._runner = self._wrap(self.model)
        self._run_step: Backward = self._backward
        if self._records_steps:
            self._run_step = RecordedStep(self._backward)
        self.optimizer = build_optimizer(self.model, settings, rate_scales)
        # GPU 上不等数字就走下一步；不知道损失是否有限，由优化器自己跳过
        self._runs_ahead = self.device.type == "cuda"
        self._side = torch.cuda.Stream() if self._runs_ahead else None
        self._skips_by_itself = (
            self._runs_ahead
            and not self._is_sharded
            and isinstance(self.optimizer, torch.optim.AdamW | Muon)
        )
        self.state = TrainingState()
        self.budget = Budget(settings, source)
        self._parameters = [
            p for p in self.model.parameters() if p.requires_grad
        ]

    def _wrap(self, model: nn.Module) -> nn.Module:
        if self._is_sharded:
            model = shard(model)
        elif self.processes.count > 1:
            model = DistributedDataParallel(model)
        if self.settings.compiles:
            # 形状固定时各编译一次，好过一份形状可变的慢代码；微调的批次
            # 长短不一，只能用后者
            is_dynamic = not self.settings.has_static_shapes
            model = compile_model(model, is_dynamic)
        return model

    def restore(self, state: TrainingState) -> None:
        """Goes on from a checkpoint that was loaded into the model."""
        self.state = state
        self.budget = Budget(
            self.settings, self.source, state.seconds, state.schedule_start
        )
        self.budget.tick(self.processes)

    @property
    def is_over(self) -> bool:
        """Whether the budget is used up."""
        return self.progress >= 1

    @property
    def progress(self) -> float:
        """Part of the budget that is used up, 0 to 1."""
        return self.budget.progress(self.state.step, self.state.position)

    def fit(self, after_step: Callable[[StepResult], bool]) -> bool:
        """Trains until the budget is used up.

        Args:
            after_step: Called after every step; returns whether to stop.
                All processes stop when one wants to.

        Returns:
            Whether the budget was used up.
        """
        with closing(self._take_steps()) as steps:
            for step in steps:
                if self.processes.any(after_step(self._read(step))):
                    self._zero_gradients()
                    return self.is_over
        return True

    def _take_steps(self) -> Generator[TakenStep]:
        """Yields steps when their numbers should be read.

        Whoever gets a step finds weights and state as it left them.
        """
        taken: TakenStep | None = None
        while not self.is_over:
            position = self._advance()
            with closing(prefetch(self._prepared(position))) as steps:
                while not self.is_over and self._advance() == position:
                    gradients = self._compute_next(steps)
                    if taken is not None:
                        # GPU 已在算下一步的梯度：这时读数，它不必停下来等
                        yield taken
                    taken = self._apply(gradients)
                    position = self.state.position
                    if not self._runs_ahead:
                        yield taken
                        taken = None
        if taken is not None:
            yield taken

    def _prepared(self, position: Position) -> Iterator[StepData]:
        """Yields steps whose memory the device can read by itself."""
        for data in self.source.steps(position):
            yield data.pin_memory() if self.device.type == "cuda" else data

    def _advance(self) -> Position:
        """Enters the next phase when it is time; returns the place."""
        position = self.source.advance(self.state.position, self.progress)
        self.state = replace(self.state, position=position)
        return position

    def _compute_next(self, steps: Iterator[StepData]) -> _Gradients:
        start = time.monotonic()
        data = next(steps)
        waited = time.monotonic() - start
        return replace(self._compute(data), wait_seconds=waited)

    def train_epoch(self) -> list[StepResult]:
        """Trains to the end of the current epoch."""
        epoch = self.state.position.epoch
        results = []
        for data in self.source.steps(self.state.position):
            results.append(self.train_batch(data))
            if data.following.epoch > epoch:
                break
        return results

    def train_batch(self, data: StepData) -> StepResult:
        """Takes one step.

        Raises:
            NonFiniteLossError: Before any weight has changed.
        """
        return self._read(self._apply(self._compute(data)))

    def _compute(self, data: StepData) -> _Gradients:
        """Computes the gradients of a step; waits for nothing."""
        step = self.state.step
        self._seed(step)
        self.model.train()
        batches = self._move(data)
        counts = self._count(batches)
        totals = {name: Totals(self.device) for name in counts}
        for number, batch in enumerate(batches):
            is_last = number + 1 == len(batches)
            with self._hold_back_sync(not is_last):
                parts = self._run_step(batch, counts)
            for name, part in parts.items():
                totals[name].add(part)
        for total in totals.values():
            self.processes.sum(total.sums)
        return _Gradients(data, totals)

    def _move(self, data: StepData) -> list[Batch]:
        """Brings a step to the device; there its masks are drawn."""
        step, phase = self.state.step, data.following.phase
        # 另开一条流：GPU 还在算上一步时，就把这一步的遮盖抽好，几百个小内核
        # 藏在大乘法的缝里
        with torch.cuda.stream(self._side):
            batches = [
                self.source.finish(batch.to(self.device), step, phase)
                for batch in data.micro_batches
            ]
        if self._side is not None:
            main = torch.cuda.current_stream()
            main.wait_stream(self._side)
            for batch in batches:
                batch.record_stream(main)
        return batches

    def _backward(
        self, batch: Batch, counts: dict[str, Tensor]
    ) -> dict[str, Part]:
        """Adds the gradients of a batch; returns the sums of its parts."""
        with self._autocast():
            parts = self._runner(batch).parts
        # 分母是整步（所有微批、所有进程）的标签数：梯度恰好等于一个大批次
        # 的梯度，而不是各个均值的均值
        losses = [parts[n].total / c.clamp(min=1) for n, c in counts.items()]
        # DDP 会把梯度除以进程数，这里先乘回来
        (torch.stack(losses).sum() * self.processes.count).backward()
        return {name: part.detach() for name, part in parts.items()}

    def _zero_gradients(self) -> None:
        # 录下的步骤往固定的地址累加梯度：只能清零，不能丢掉
        self.optimizer.zero_grad(set_to_none=not self._records_steps)

    def _count(self, batches: list[Batch]) -> dict[str, Tensor]:
        """Counts the labels of the whole step, over all processes."""
        model = cast("Trainable", self.model)
        counts = [model.count_labels(batch) for batch in batches]
        return {
            name: self.processes.sum(
                torch.stack([c[name] for c in counts]).sum()
            )
            for name in counts[0]
        }

    def _apply(self, gradients: _Gradients) -> TakenStep:
        """Clips, steps, and moves on to the next place in the data."""
        state, data = self.state, gradients.data
        losses = torch.stack([t.sums[0] for t in gradients.totals.values()])
        norm = whole(
            nn.utils.clip_grad_norm_(
                self._parameters, self.settings.max_gradient_norm
            )
        )
        # 损失有限而梯度无穷时，裁剪会把它变成 NaN：两样都要看
        is_lost = ~(losses.isfinite().all() & norm.isfinite())
        factor = self.budget.rate_factor(state.step, state.position)
        rate = factor * self.settings.learning_rate
        for group in self.optimizer.param_groups:
            group["lr"] = rate * group["rate_scale"]
        taken = TakenStep.of(
            gradients.totals,
            norm,
            before=state,
            learning_rate=rate,
            num_tokens=data.num_tokens,
            wait_seconds=gradients.wait_seconds,
        )
        if self._skips_by_itself:
            cast("Any", self.optimizer).found_inf = is_lost.float()
        elif is_lost:
            return taken
        self.optimizer.step()
        self._zero_gradients()
        self.budget.tick(self.processes)
        self.budget.start_schedule()
        self.state = replace(
            state,
            step=state.step + 1,
            position=data.following,
            seconds=self.budget.seconds,
            schedule_start=self.budget.schedule_start,
            num_tokens=state.num_tokens + data.num_tokens,
        )
        return taken

    def _read(self, step: TakenStep) -> StepResult:
        """Reads the numbers of a step; the loop's only wait for the device."""
        result = step.read()
        if not result.is_finite:
            # 这一步没有改动权重，就当没有走过
            self.state = step.before
            self._zero_gradients()
            raise NonFiniteLossError(result)
        return result

    def evaluate(self, batches: Iterable[Batch]) -> dict[str, PartResult]:
        """Computes loss and accuracy of each part on labelled batches."""
        with self._autocast():
            return evaluate_batches(self.model, batches, self.device)

    def _seed(self, step: int) -> None:
        """Makes dropout a function of seed, step and process."""
        # 不保存随机状态也能逐位恢复；各进程的种子不同，dropout 不会重复
        mixed = hash_places(self.settings.seed, step, self.processes.rank)
        torch.manual_seed(int(mixed[0] >> 1))

    def _hold_back_sync(self, hold: bool) -> AbstractContextManager[Any]:
        if self._is_sharded:
            cast("Any", self.model).set_requires_gradient_sync(not hold)
        elif hold and isinstance(self._runner, DistributedDataParallel):
            return self._runner.no_sync()
        return nullcontext()

    def _autocast(self) -> AbstractContextManager[Any]:
        if self.settings.precision == "fp32":
            return nullcontext()
        return torch.autocast(self.device.type, torch.bfloat16)
