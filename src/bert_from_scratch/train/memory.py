"""When memory runs out: which size would have fitted."""

import gc
from dataclasses import replace

import torch

from bert_from_scratch.data.pretraining import BatchShape
from bert_from_scratch.data.steps import Position
from bert_from_scratch.errors import BertError
from bert_from_scratch.train.assemble import assemble
from bert_from_scratch.train.pretraining_plan import PretrainingPlan
from bert_from_scratch.train.processes import Processes


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error says that memory ran out, on a GPU or a CPU."""
    kinds = (torch.OutOfMemoryError, MemoryError)
    return isinstance(error, kinds) or "can't allocate memory" in str(error)


def explain_out_of_memory(
    plan: PretrainingPlan, processes: Processes
) -> BertError:
    """Returns an error that names a size that fits, found by trying."""
    num_tokens = plan.batch_tokens // (
        plan.training.num_accumulated * processes.count
    )
    message = f"Out of memory with {num_tokens:,} tokens at once."
    if processes.count > 1:
        # 各进程状态不一，此时再试会互相等待：只能给出方向
        hint = f"double --accumulate (now {plan.training.num_accumulated})"
        return BertError(message, hint=f"{hint}, or use --shard, --recompute")
    for num_accumulated in _divisions(plan):
        training = replace(
            plan.training, num_accumulated=num_accumulated, compiles=False
        )
        if _fits(replace(plan, training=training)):
            hint = f"--accumulate {num_accumulated} fits, with the same result"
            return BertError(message, hint=hint)
    return BertError(message, hint="use a smaller model, or --recompute")


def _divisions(plan: PretrainingPlan) -> list[int]:
    """Returns the larger numbers of micro-batches that a step divides into."""
    rows = BatchShape.plan(plan.batch_tokens, plan.max_length).num_rows
    now = plan.training.num_accumulated
    return [n for n in range(now + 1, rows + 1) if rows % n == 0]


def _fits(plan: PretrainingPlan) -> bool:
    """Whether a real step of the plan runs through."""
    gc.collect()
    torch.cuda.empty_cache()
    try:
        _take_step(plan)
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
        return False
    return True


def _take_step(plan: PretrainingPlan) -> None:
    trainer = assemble(plan, Processes()).trainer
    # 两步：第一步之后才有 Adam 的均值，第二步的内存才是真正的峰值
    for phase in range(len(plan.phases)):
        steps = trainer.source.steps(Position(phase=phase))
        for _ in range(2):
            trainer.train_batch(next(steps))
