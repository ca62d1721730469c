"""From options to a plan: what is not said comes from recipe and machine."""

import logging
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from bert_from_scratch.cli.finetune_options import FinetuneOptions
from bert_from_scratch.config import BertConfig
from bert_from_scratch.data.tasks.recipe import Recipe
from bert_from_scratch.data.tasks.recipes import find_recipe
from bert_from_scratch.errors import BertError
from bert_from_scratch.finetune.plan import MAX_SEEDS, DataPlan, FinetunePlan
from bert_from_scratch.model.device import choose_device
from bert_from_scratch.model.directory import find

logger = logging.getLogger(__name__)

CPU_TOKENS = 4096
GPU_TOKENS = 32768
BASELINE_RATE = "1e-3"
BASELINE_EPOCHS = 8
PAPER_RATES = (5e-5, 4e-5, 3e-5, 2e-5)
# 没有菜谱时各任务的序列长度：问答的上下文长，其余多是一两句话
MAX_LENGTHS = {
    "classify": 128,
    "regress": 128,
    "choose": 256,
    "tag": 256,
    "answer": 384,
}


def make_plan(
    task: str,
    model: Path | None,
    options: FinetuneOptions,
    columns: dict[str, Any],
    own: dict[str, Any],
    class_weights: str | tuple[float, ...] | None = None,
) -> FinetunePlan:
    """Makes the plan of a command line.

    Args:
        task: As typed after `bert finetune`.
        model: The pre-trained model, or None.
        options: What all tasks have.
        columns: Where the reader finds what.
        own: What only this task has.
        class_weights: As in `FinetunePlan`.
    """
    recipe = _find_recipe(options)
    if recipe is not None and columns.get("text", columns.get("prompt")):
        raise BertError("A recipe knows its columns: leave out --*-column.")
    if "encoder" in own:
        # 从零训练的小网络要大得多的学习率，也要多走几轮
        options = replace(
            options,
            lr=options.lr or BASELINE_RATE,
            epochs=_given_or(options.epochs, BASELINE_EPOCHS),
        )
    if own.get("features"):
        # 冻结的编码器上是一个从零开始的 BiLSTM：同样要大的学习率
        options = replace(options, lr=options.lr or BASELINE_RATE)
        if options.freeze_layers or options.layer_decay != 1:
            logger.warning(
                "--freeze-layers and --layer-decay have no effect with "
                "--features: all of the encoder is frozen."
            )
    last_seed = options.seed + min(options.seeds, MAX_SEEDS + 1)
    return FinetunePlan(
        task=task,
        model=_text(model),
        data=_data_plan(options, columns),
        learning_rates=_parse_rates(options.lr, recipe),
        seeds=tuple(range(options.seed, last_seed)),
        epochs=_given_or(options.epochs, recipe.epochs if recipe else 3),
        batch_size=_given_or(
            options.batch_size, recipe.batch_size if recipe else 32
        ),
        batch_tokens=_given_or(
            options.batch_tokens, _default_tokens(options.device)
        ),
        weight_decay=options.weight_decay,
        warmup_share=options.warmup,
        freeze_layers=options.freeze_layers,
        layer_decay=options.layer_decay,
        patience=options.patience,
        class_weights=class_weights,
        attention_dropout=options.attention_dropout,
        precision=_choose_precision(options),
        compiles=options.compiles,
        device=options.device,
        num_threads=options.threads,
        log_every=options.log_every,
        checkpoint_every=options.checkpoint_every,
        options={
            **_task_options(task, options, recipe, own),
            "max_length": _choose_length(task, options, recipe, model),
        },
    )


def _find_recipe(options: FinetuneOptions) -> Recipe | None:
    if options.recipe is None:
        if options.data is not None:
            raise BertError("--data needs a --recipe.")
        return None
    if options.train or options.dev or options.test:
        raise BertError("Give --recipe and --data, or --train and --dev.")
    return find_recipe(options.recipe)


def _data_plan(options: FinetuneOptions, columns: dict[str, Any]) -> DataPlan:
    return DataPlan(
        recipe=options.recipe,
        folder=_text(options.data),
        train=_text(options.train),
        dev=_text(options.dev),
        test=_text(options.test),
        columns={} if options.recipe else columns,
        limit=options.limit,
        dev_limit=options.dev_limit,
    )


def _task_options(
    task: str,
    options: FinetuneOptions,
    recipe: Recipe | None,
    own: dict[str, Any],
) -> dict[str, Any]:
    """Joins what the user, the recipe and the task say, in this order."""
    found: dict[str, Any] = {}
    if recipe is not None:
        found["metric"] = recipe.metric
        if task == "tag":
            found["document_context"] = recipe.document_context
        if task == "answer":
            found["has_null"] = recipe.has_null
            found["character_f1"] = recipe.language == "zh"
    found |= {name: value for name, value in own.items() if value is not None}
    if options.metric is not None:
        found["metric"] = options.metric
    return found


def _choose_length(
    task: str,
    options: FinetuneOptions,
    recipe: Recipe | None,
    model: Path | None,
) -> int:
    if options.max_length is not None:
        return options.max_length
    length = recipe.max_length if recipe else MAX_LENGTHS[task]
    if model is None:
        return length
    # 没有说明长度时，不超过模型的位置编码
    config = BertConfig.load(find(model) / "config.json")
    return min(length, config.max_position_embeddings)


def _parse_rates(text: str | None, recipe: Recipe | None) -> tuple[float, ...]:
    """Reads --lr: a number, several, or "grid"."""
    if text is None:
        return (recipe.learning_rate,) if recipe else (2e-5,)
    if text == "grid":
        return recipe.learning_rate_grid if recipe else PAPER_RATES
    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError:
        raise BertError(
            f"--lr must be a number, several, or grid; got {text!r}.",
            hint="as in --lr 5e-5,3e-5,2e-5",
        ) from None


def _choose_precision(options: FinetuneOptions) -> Literal["fp32", "bf16"]:
    if options.precision != "auto":
        return options.precision
    is_gpu = choose_device(options.device).type == "cuda"
    return "bf16" if is_gpu else "fp32"


def _default_tokens(device: str) -> int:
    is_gpu = choose_device(device).type == "cuda"
    return GPU_TOKENS if is_gpu else CPU_TOKENS


def _given_or(given: int | None, default: int) -> int:
    # 不能写成 given or default：用户给的 0 是错误，不是没有给
    return default if given is None else given


def _text(path: Path | None) -> str | None:
    # 绝对路径：换个目录也能恢复
    return None if path is None else str(path.absolute())
