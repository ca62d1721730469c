"""How to train: everything that decides a run, besides model and data."""

import math
from dataclasses import dataclass
from typing import Literal, get_args

from bert_from_scratch.errors import BertError

# 再多，数学库会当场崩溃
MAX_THREADS = 1024

Precision = Literal["fp32", "bf16", "fp8"]
OptimizerName = Literal["adamw", "google", "muon"]


@dataclass(frozen=True)
class TrainingSettings:
    """The settings of one run.

    Attributes:
        steps: Stop after so many steps; exactly one of the three is set.
        epochs: Stop after so many passes over the data.
        minutes: Be done after so much time, the time to start included.
        reserved_seconds: Kept of the minutes to evaluate and save at the end.
        learning_rate: At its highest, after the warm-up.
        warmup_steps: None: 10,000 or a tenth of the budget, the smaller.
        min_warmup_steps: A warm-up by the clock has at least so many.
        weight_decay: Not applied to biases and LayerNorm.
        betas: Of Adam.
        epsilon: Of Adam.
        optimizer: "adamw"; "google": Adam without bias correction, as in
            Google's code; "muon": orthogonalised momentum for the matrices
            of the blocks, AdamW for the rest.
        max_gradient_norm: Gradients are scaled down to it.
        num_accumulated: Micro-batches a step, on every process.
        precision: Of activations; weights stay float32. "fp8": bf16, with
            the products of the blocks in fp8, but for weights' gradients.
        compiles: Whether to use torch.compile.
        has_static_shapes: Whether all batches have one shape, so that code
            compiled for it alone is the fastest.
        records_steps: Whether a GPU records a step of each shape and repeats
            it by itself (CUDA graphs); on one process.
        shards_weights: Whether several processes divide weights and averages
            among them (FSDP2) instead of each keeping all (DDP).
        seed: Decides weights, order, masks and dropout.
        log_every: Steps between two lines of metrics.
        evaluate_every: Steps between two evaluations; 0: only at the end.
        checkpoint_every: Steps between two checkpoints; 0: only at the end.
        keep_checkpoints: How many of the newest are kept, besides the best.
    """

    steps: int | None = None
    epochs: int | None = None
    minutes: float | None = None
    reserved_seconds: float = 0.0
    learning_rate: float = 1e-4
    warmup_steps: int | None = None
    min_warmup_steps: int = 0
    weight_decay: float = 0.01
    betas: tuple[float, float] = (0.9, 0.999)
    epsilon: float = 1e-6
    optimizer: OptimizerName = "adamw"
    max_gradient_norm: float = 1.0
    num_accumulated: int = 1
    precision: Precision = "fp32"
    compiles: bool = False
    has_static_shapes: bool = True
    records_steps: bool = False
    shards_weights: bool = False
    seed: int = 0
    log_every: int = 10
    evaluate_every: int = 0
    checkpoint_every: int = 0
    keep_checkpoints: int = 2

    def __post_init__(self) -> None:
        budgets = (self.steps, self.epochs, self.minutes)
        given = [budget for budget in budgets if budget is not None]
        if len(given) != 1:
            raise BertError(
                f"Give one of --steps, --epochs, --minutes; got {len(given)}."
            )
        if not 0 < given[0] < math.inf:
            raise BertError(f"The budget must be positive, got {given[0]}.")
        for flag, name, known in (
            ("--optimizer", self.optimizer, get_args(OptimizerName)),
            ("--precision", self.precision, get_args(Precision)),
        ):
            if name not in known:
                raise BertError(
                    f"There is no {flag} {name}.",
                    hint=f"use one of {', '.join(known)}",
                )
        if not 0 < self.learning_rate < math.inf:
            raise BertError(f"--lr must be positive, got {self.learning_rate}.")
        if not 0 <= self.seed < 1 << 63:
            raise BertError(f"--seed must be in 0 ... 2**63 - 1: {self.seed}.")
        for flag, value, least in (
            ("--accumulate", self.num_accumulated, 1),
            ("--log-every", self.log_every, 1),
            ("--keep", self.keep_checkpoints, 1),
            ("--warmup-steps", self.warmup_steps or 0, 0),
            ("--eval-every", self.evaluate_every, 0),
            ("--checkpoint-every", self.checkpoint_every, 0),
        ):
            if value < least:
                raise BertError(f"{flag} must be at least {least}: {value}.")
