"""DataMaker: from a plan to the batches of each of its phases."""

from bert_from_scratch.data.masking import MaskingRule
from bert_from_scratch.data.pretraining import (
    BatchShape,
    PretrainingData,
    SharedShape,
)
from bert_from_scratch.data.shards import Documents, TokenShards
from bert_from_scratch.model.device import choose_device
from bert_from_scratch.tokenizer import WordPieceTokenizer
from bert_from_scratch.train.pretraining_plan import PretrainingPlan
from bert_from_scratch.train.processes import Processes

EPOCHS_A_PHASE = 1_000_000


class DataMaker:
    """Makes the data of every phase, and that to evaluate on."""

    def __init__(
        self,
        plan: PretrainingPlan,
        shards: TokenShards,
        tokenizer: WordPieceTokenizer,
        processes: Processes,
    ) -> None:
        self._plan = plan
        self._shards = shards
        self._tokenizer = tokenizer
        self._processes = processes
        self._is_static = choose_device(plan.device).type == "cuda"
        self._shapes: dict[int, SharedShape] = {}

    def __call__(self, documents: Documents, number: int) -> PretrainingData:
        """Makes the data of a phase."""
        phase = self._plan.phases[number]
        return self._make(
            documents,
            phase.max_length,
            self._plan.mask_rate_of(phase),
            factor=self._plan.batch_factor(phase),
            shapes=self._shape_of(phase.max_length),
            first_epoch=self._first_epoch(number),
        )

    def to_evaluate(self, documents: Documents) -> PretrainingData:
        """Makes data of the greatest length, always the same."""
        rate = self._plan.mask_rate
        return self._make(
            documents,
            self._plan.max_length,
            rate,
            shapes=SharedShape(rate) if self._is_static else None,
        )

    def _make(
        self,
        documents: Documents,
        max_length: int,
        mask_rate: float,
        *,
        factor: int = 1,
        shapes: SharedShape | None,
        first_epoch: int = 0,
    ) -> PretrainingData:
        plan = self._plan
        shape = BatchShape.plan(
            plan.batch_tokens,
            max_length,
            plan.training.num_accumulated,
            self._processes.rank,
            self._processes.count,
        )
        return PretrainingData(
            self._shards,
            self._tokenizer,
            # 大批次由更多的小批次累加而成：形状不变，不必重新编译
            shape.multiplied(factor),
            MaskingRule.of(self._tokenizer, mask_rate),
            plan.training.seed,
            documents=documents,
            with_pairs=plan.with_pairs,
            whole_word=plan.whole_word,
            shapes=shapes,
            first_epoch=first_epoch,
        )

    def _shape_of(self, max_length: int) -> SharedShape | None:
        """Returns the shape of a length, the same for all of its phases."""
        if not self._is_static:
            return None
        rates = [
            self._plan.mask_rate_of(phase)
            for phase in self._plan.phases
            if phase.max_length == max_length
        ]
        return self._shapes.setdefault(max_length, SharedShape(max(rates)))

    def _first_epoch(self, number: int) -> int:
        """Returns an epoch that no earlier phase of that length comes to."""
        phases = self._plan.phases
        lengths = [phase.max_length for phase in phases[:number]]
        return EPOCHS_A_PHASE * lengths.count(phases[number].max_length)
