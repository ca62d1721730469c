"""PretrainingPlan: everything that decides a pre-training run."""

from dataclasses import asdict, dataclass
from typing import Any

from bert_from_scratch.config import BertConfig, check_types
from bert_from_scratch.data.phases import Phase
from bert_from_scratch.errors import BertError
from bert_from_scratch.train.settings import MAX_THREADS, TrainingSettings

MIN_LENGTH = 8


@dataclass(frozen=True)
class PretrainingPlan:
    """Everything that decides a pre-training run, as kept in its config.json.

    Attributes:
        data_dir: Token shards.
        data_sha256: Checksum of their tokens; the data must not change.
        model: The shape of the model.
        training: How to train.
        preset: The name of that shape, where it has one.
        init_dir: A BERT to start from; None: fresh weights.
        num_added: How many words its vocabulary grows by.
        batch_tokens: Tokens a step.
        phases: Longest sequences, and their shares of the budget.
        with_pairs: Whether there is next sentence prediction.
        mask_rate: Share of tokens that are hidden.
        whole_word: Whether whole words are hidden.
        held_out_share: Share of documents that are only evaluated on.
        recomputes: Whether activations are computed twice to save memory.
        device: Where to train.
        num_threads: Threads on a CPU; they decide how sums are rounded.
    """

    data_dir: str
    data_sha256: str
    model: BertConfig
    training: TrainingSettings
    preset: str | None = None
    init_dir: str | None = None
    num_added: int = 0
    batch_tokens: int = 8192
    phases: tuple[Phase, ...] = (Phase(128),)
    with_pairs: bool = True
    mask_rate: float = 0.15
    whole_word: bool = False
    held_out_share: float = 0.0
    recomputes: bool = False
    device: str = "auto"
    num_threads: int | None = None

    def __post_init__(self) -> None:
        if not 0 < self.mask_rate <= 1:
            raise BertError(
                f"--mask-rate must be in 0 ... 1: {self.mask_rate}."
            )
        if not 0 <= self.held_out_share < 1:
            raise BertError(
                f"--held-out must be at least 0 and below 1: "
                f"{self.held_out_share}."
            )
        threads = self.num_threads
        if threads is not None and not 1 <= threads <= MAX_THREADS:
            raise BertError(
                f"--threads must be in 1 ... {MAX_THREADS}: {self.num_threads}."
            )
        for phase in self.phases:
            self._check_phase(phase)
        shortest = min(phase.max_length for phase in self.phases)
        if shortest < MIN_LENGTH:
            raise BertError(
                f"A length of {shortest} is too short for words between "
                f"[CLS] and [SEP]; {MIN_LENGTH} is the least."
            )

    def _check_phase(self, phase: Phase) -> None:
        if not 0 < self.mask_rate_of(phase) <= 1:
            raise BertError(
                f"A mask rate of --phases must be in 0 ... 1: "
                f"{phase.mask_rate}."
            )
        batch = phase.batch_tokens
        if batch is not None and (batch < 1 or batch % self.batch_tokens):
            raise BertError(
                f"A step of {batch} tokens in --phases is no multiple of "
                f"--batch-tokens {self.batch_tokens}.",
                hint="--batch-tokens is the smallest step; later ones grow",
            )

    def to_dict(self) -> dict[str, Any]:
        """Returns the contents of the run's config.json."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> "PretrainingPlan":
        """Reads the contents of a run's config.json."""
        try:
            training = dict(values["training"])
            training["betas"] = tuple(training["betas"])
            plan = cls(
                **{
                    **values,
                    "model": BertConfig.from_dict(values["model"]),
                    "training": TrainingSettings(**training),
                    "phases": tuple(Phase(**p) for p in values["phases"]),
                }
            )
            for part in (plan, plan.training, *plan.phases):
                check_types(part)
        except (KeyError, TypeError) as error:
            raise BertError(
                f"The run's config.json is not one of this version: {error}.",
                hint="name the directory of a run; from a model, train on "
                "with --init MODEL",
            ) from error
        return plan

    def mask_rate_of(self, phase: Phase) -> float:
        """Returns the share of tokens that are hidden in a phase."""
        return self.mask_rate if phase.mask_rate is None else phase.mask_rate

    def batch_factor(self, phase: Phase) -> int:
        """Returns how many times `batch_tokens` a step of a phase has."""
        return (phase.batch_tokens or self.batch_tokens) // self.batch_tokens

    @property
    def max_length(self) -> int:
        """Longest sequence of all phases."""
        return max(phase.max_length for phase in self.phases)
