"""A few real steps of a plan, to know its speed and memory in advance."""

import resource
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass

import torch

from bert_from_scratch.data.phases import PhasedData
from bert_from_scratch.data.steps import Position, StepData
from bert_from_scratch.train.assemble import assemble
from bert_from_scratch.train.pretraining_plan import PretrainingPlan
from bert_from_scratch.train.processes import Processes
from bert_from_scratch.train.trainer import BertTrainer

WARMUP_STEPS = 2
MIN_STEPS = 3


@dataclass(frozen=True)
class Forecast:
    """What a run will take.

    Attributes:
        num_parameters: Weights of the model.
        num_steps: Steps of the whole run.
        num_tokens: Real tokens of the whole run.
        num_epochs: Passes over the data.
        tokens_per_second: Over all phases.
        seconds: Of the whole run, start and evaluations included.
        peak_bytes: Highest use of memory: of the GPU, or of the process.
    """

    num_parameters: int
    num_steps: int
    num_tokens: int
    num_epochs: float
    tokens_per_second: float
    seconds: float
    peak_bytes: int


def forecast(plan: PretrainingPlan, trial_seconds: float = 10.0) -> Forecast:
    """Takes some steps of every phase, throws them away, and reckons.

    Args:
        plan: The run to come; nothing is written.
        trial_seconds: About how long to measure each phase.
    """
    start = time.monotonic()
    assembly = assemble(plan, Processes())
    trainer = assembly.trainer
    speeds = []
    seconds_to_start = 0.0
    for number in range(len(plan.phases)):
        steps = trainer.source.steps(Position(phase=number))
        # 最初两步含编译、分配与预热，不算进速度
        for _ in range(WARMUP_STEPS):
            trainer.train_batch(next(steps))
        seconds_to_start = seconds_to_start or time.monotonic() - start
        speeds.append(_measure(trainer, steps, trial_seconds))
    evaluation_seconds = 0.0
    if assembly.held_out is not None:
        begin = time.monotonic()
        trainer.evaluate(assembly.held_out())
        evaluation_seconds = time.monotonic() - begin
    counts = _count_steps(plan, assembly.data, speeds, seconds_to_start)
    every = plan.training.evaluate_every
    num_evaluations = 1 + (sum(counts) // every if every else 0)
    busy = sum(n * s.seconds for n, s in zip(counts, speeds, strict=True))
    num_tokens = sum(
        n * s.num_tokens for n, s in zip(counts, speeds, strict=True)
    )
    return Forecast(
        num_parameters=sum(p.numel() for p in trainer.model.parameters()),
        num_steps=round(sum(counts)),
        num_tokens=round(num_tokens),
        num_epochs=sum(
            n / steps
            for n, steps in zip(
                counts, _epoch_steps(assembly.data), strict=True
            )
        ),
        tokens_per_second=num_tokens / max(busy, 1e-9),
        seconds=seconds_to_start + busy + num_evaluations * evaluation_seconds,
        peak_bytes=_peak_memory(trainer.device),
    )


@dataclass(frozen=True)
class _Speed:
    """Of a step: means over the measured ones of a phase."""

    seconds: float
    num_tokens: float


def _measure(
    trainer: BertTrainer, steps: Iterator[StepData], seconds: float
) -> _Speed:
    num_steps, num_tokens, begin = 0, 0, time.monotonic()
    while num_steps < MIN_STEPS or time.monotonic() - begin < seconds:
        data = next(steps)
        trainer.train_batch(data)
        num_steps += 1
        num_tokens += data.num_tokens
    taken = time.monotonic() - begin
    return _Speed(taken / num_steps, num_tokens / num_steps)


def _count_steps(
    plan: PretrainingPlan,
    data: PhasedData,
    speeds: list[_Speed],
    seconds_to_start: float,
) -> list[float]:
    """Returns how many steps each phase will have."""
    settings = plan.training
    shares = [phase.share for phase in plan.phases]
    if settings.steps is not None:
        return [settings.steps * share for share in shares]
    if settings.epochs is not None:
        lengths = _epoch_steps(data)
        return [
            settings.epochs * share * steps
            for share, steps in zip(shares, lengths, strict=True)
        ]
    assert settings.minutes is not None
    end = 60 * settings.minutes - settings.reserved_seconds
    seconds = max(end - seconds_to_start, 0)
    return [
        seconds * share / speed.seconds
        for share, speed in zip(shares, speeds, strict=True)
    ]


def _epoch_steps(data: PhasedData) -> list[int]:
    """Returns how many steps an epoch of each phase has."""
    return [part.num_steps(0) for part in data.data]


def _peak_memory(device: torch.device) -> int:
    if device.type == "cuda":
        return torch.cuda.max_memory_reserved()
    usage = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    # Linux 以千字节计，macOS 以字节计
    return usage if sys.platform == "darwin" else 1024 * usage
