"""A fine-tuning plan: everything that decides a result, as plain values."""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Self, get_args

from bert_from_scratch import atomic
from bert_from_scratch.config import check_types
from bert_from_scratch.data.tasks.recipe import TaskName
from bert_from_scratch.errors import BertError
from bert_from_scratch.model.inference import Precision
from bert_from_scratch.train.settings import MAX_THREADS

TASKS = get_args(TaskName)
FORMAT = 1
MAX_SEEDS = 1000


@dataclass(frozen=True)
class DataPlan:
    """Where the examples lie.

    Attributes:
        recipe: Name of a built-in recipe; then `folder` holds its files.
        folder: Of the recipe.
        train: File or folder to train on, without a recipe.
        dev: File or folder to judge by.
        test: File or folder that is only scored, at the very end.
        columns: What the reader of this task takes, by name.
        limit: Train on so many examples at the most; None: all.
        dev_limit: Judge by so many at the most; None: all.
    """

    recipe: str | None = None
    folder: str | None = None
    train: str | None = None
    dev: str | None = None
    test: str | None = None
    columns: dict[str, Any] = field(default_factory=dict)
    limit: int | None = None
    dev_limit: int | None = None


@dataclass(frozen=True)
class FinetunePlan:
    """One fine-tuning: all learning rates with all seeds.

    Attributes:
        task: A name of `TASKS`.
        model: The pre-trained model; None: a baseline without one.
        data: Where the examples lie.
        learning_rates: All are tried; the best by its mean over the seeds
            is kept.
        seeds: Each decides a head, an order and dropout.
        epochs: Passes over the training data.
        batch_size: Examples a step.
        batch_tokens: Tokens that go through the model at once.
        weight_decay: Not applied to biases and LayerNorm.
        warmup_share: Part of the steps in which the rate rises.
        freeze_layers: So many of the first blocks are not trained.
        layer_decay: Learning rate of a layer over that of the next one.
        patience: Stop after so many epochs without a better score, and keep
            the best; None: train all epochs and keep the last.
        class_weights: "balanced", one weight a class, or None.
        attention_dropout: Of attention weights; None: as in the model's
            config.
        precision: Of activations; weights stay float32.
        compiles: Whether to use torch.compile.
        device: Where to train.
        num_threads: On a CPU; None: PyTorch's choice.
        log_every: Steps between two lines of metrics.
        checkpoint_every: Steps between two checkpoints, besides one an
            epoch.
        options: What only this task has, by name.
    """

    task: str
    model: str | None
    data: DataPlan
    learning_rates: tuple[float, ...] = (2e-5,)
    seeds: tuple[int, ...] = (0,)
    epochs: int = 3
    batch_size: int = 32
    batch_tokens: int = 8192
    weight_decay: float = 0.01
    warmup_share: float = 0.1
    freeze_layers: int = 0
    layer_decay: float = 1.0
    patience: int | None = None
    class_weights: str | tuple[float, ...] | None = None
    attention_dropout: float | None = None
    precision: Precision = "fp32"
    compiles: bool = False
    device: str = "auto"
    num_threads: int | None = None
    log_every: int = 10
    checkpoint_every: int = 1000
    options: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.task not in TASKS:
            raise BertError(
                f"Unknown task {self.task!r}.",
                hint=f"use one of {', '.join(TASKS)}",
            )
        data = self.data
        for path in (self.model, data.folder, data.train, data.dev, data.test):
            atomic.check_name(path or "")
        self._check_numbers()

    def _check_numbers(self) -> None:
        rates = list(self.learning_rates)
        if not rates or not all(0 < rate < math.inf for rate in rates):
            raise BertError(f"--lr must be positive, got {rates}.")
        if len(set(rates)) < len(rates):
            raise BertError(f"--lr holds a rate twice: {rates}.")
        if not 0 <= self.weight_decay < math.inf:
            raise BertError(
                "--weight-decay must be a finite number, and not negative: "
                f"{self.weight_decay}."
            )
        if not all(0 <= seed < 1 << 63 for seed in self.seeds):
            raise BertError(f"--seed must be in 0 ... 2**63 - 1: {self.seeds}.")
        for flag, value, least in (
            ("--seeds", len(self.seeds), 1),
            ("--epochs", self.epochs, 1),
            (
                "--threads",
                1 if self.num_threads is None else self.num_threads,
                1,
            ),
            ("--batch-size", self.batch_size, 1),
            ("--batch-tokens", self.batch_tokens, 1),
            ("--patience", 1 if self.patience is None else self.patience, 1),
            ("--log-every", self.log_every, 1),
            ("--checkpoint-every", self.checkpoint_every, 0),
            ("--limit", self._limit("limit"), 1),
            ("--dev-limit", self._limit("dev_limit"), 1),
        ):
            if value < least:
                raise BertError(f"{flag} must be at least {least}: {value}.")
        for flag, value, most in (
            ("--seeds", len(self.seeds), MAX_SEEDS),
            ("--threads", self.num_threads or 1, MAX_THREADS),
        ):
            if value > most:
                raise BertError(f"{flag} must be at most {most}: {value}.")
        if not 0 <= self.warmup_share < 1:
            raise BertError(
                f"--warmup must lie in [0, 1), got {self.warmup_share}."
            )

    def _limit(self, name: str) -> int:
        limit = getattr(self.data, name)
        return 1 if limit is None else int(limit)

    @property
    def attempts(self) -> list[tuple[float, int]]:
        """All pairs of learning rate and seed."""
        return [(rate, s) for rate in self.learning_rates for s in self.seeds]

    def to_dict(self) -> dict[str, Any]:
        """Returns plain values, ready for JSON."""
        return {"format": FORMAT, **asdict(self)}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """Reads what `to_dict` returned."""
        known = {f.name for f in fields(cls)} | {"format"}
        if values.get("format") != FORMAT or not values.keys() <= known:
            raise BertError(
                "plan.json was written by another version of this program."
            )
        plain = {k: v for k, v in values.items() if k != "format"}
        missing = known - values.keys()
        if missing:
            raise BertError(f"plan.json lacks {', '.join(sorted(missing))}.")
        weights = plain["class_weights"]
        try:
            plain["data"] = DataPlan(**plain["data"])
            plain["learning_rates"] = tuple(plain["learning_rates"])
            plain["seeds"] = tuple(plain["seeds"])
            plain["class_weights"] = (
                tuple(weights) if isinstance(weights, list) else weights
            )
            plan = cls(**plain)
            check_types(plan)
            check_types(plan.data)
        except TypeError as error:
            raise BertError(
                f"plan.json is damaged: {error}.",
                hint="start again with another --out",
            ) from error
        return plan
