"""From a plan to a trainer: shards, tokenizer, model and batches together.

The one file of this room that knows BERT.
"""

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import torch

from bert_from_scratch.data.batch import Batch
from bert_from_scratch.data.phases import PhasedData
from bert_from_scratch.data.shards import Documents, TokenShards
from bert_from_scratch.embeddings.linear import train_in_fp8
from bert_from_scratch.errors import BertError
from bert_from_scratch.kernels import fp8
from bert_from_scratch.model.device import choose_device
from bert_from_scratch.model.directory import find
from bert_from_scratch.objectives.growth import grow_vocabulary
from bert_from_scratch.objectives.pretraining import BertForPreTraining
from bert_from_scratch.tokenizer import WordPieceTokenizer
from bert_from_scratch.train.data_maker import DataMaker
from bert_from_scratch.train.pretraining_plan import PretrainingPlan
from bert_from_scratch.train.processes import Processes
from bert_from_scratch.train.trainer import BertTrainer

logger = logging.getLogger(__name__)

MIN_HELD_OUT = 5
EVALUATION_TOKENS = 1 << 17


@dataclass(frozen=True)
class Assembly:
    """All that a run needs.

    Attributes:
        trainer: Model, data and optimiser together.
        data: What it trains on.
        tokenizer: That made the ids.
        held_out: Makes batches to evaluate on, the same every time; None:
            no documents were held out.
    """

    trainer: BertTrainer
    data: PhasedData
    tokenizer: WordPieceTokenizer
    held_out: Callable[[], Iterator[Batch]] | None


def assemble(plan: PretrainingPlan, processes: Processes) -> Assembly:
    """Builds everything that a plan names."""
    if plan.training.shards_weights and processes.count == 1:
        logger.warning("--shard has no effect on one process; use torchrun.")
    device = choose_device(plan.device)
    if plan.training.precision == "fp8":
        # 恢复的训练也要查：它可能换了一台机器
        fp8.require(device)
    if device.type == "cpu" and plan.num_threads is not None:
        torch.set_num_threads(plan.num_threads)
    shards = _open_shards(plan)
    tokenizer = WordPieceTokenizer.load(shards.tokenizer_dir)
    _check_fit(plan, len(tokenizer))
    rest, held_out = _split(shards, plan)
    make = DataMaker(plan, shards, tokenizer, processes)
    data = PhasedData(
        plan.phases,
        [make(rest, number) for number in range(len(plan.phases))],
    )
    trainer = BertTrainer(
        _build_model(plan, tokenizer),
        data,
        plan.training,
        device=device,
        processes=processes,
    )
    if held_out is None:
        return Assembly(trainer, data, tokenizer, None)
    # 以最长的一段长度评估：各阶段的数字才能互相比较
    evaluated = make.to_evaluate(held_out)
    return Assembly(
        trainer, data, tokenizer, lambda: evaluated.sample(EVALUATION_TOKENS)
    )


def _open_shards(plan: PretrainingPlan) -> TokenShards:
    if not Path(plan.data_dir).exists():
        raise BertError(
            f"The run's data was in {plan.data_dir}, and is not there now.",
            hint="put it back, or start a new run with --init RUN",
        )
    shards = TokenShards.open(plan.data_dir)
    if shards.meta.sha256 != plan.data_sha256:
        raise BertError(
            f"{plan.data_dir} has changed since the run began.",
            hint="restore the data, or start a new run",
        )
    return shards


def _split(
    shards: TokenShards, plan: PretrainingPlan
) -> tuple[Documents, Documents | None]:
    """Divides documents into those to train and those to evaluate on."""
    rest, held_out = shards.documents().split(
        plan.held_out_share, plan.training.seed
    )
    # 留出的文档太少，评估就只是噪声，还会造不出句对
    if len(held_out) < MIN_HELD_OUT:
        if plan.held_out_share:
            logger.warning(
                "No text is held out: %d of %d documents would be too few.",
                len(held_out),
                len(shards.documents()),
            )
        return shards.documents(), None
    return rest, held_out


def _check_fit(plan: PretrainingPlan, vocab_size: int) -> None:
    if vocab_size > plan.model.vocab_size:
        raise BertError(
            f"The vocabulary has {vocab_size} entries, but the model's "
            f"embedding only {plan.model.vocab_size}.",
            hint="use the model's own tokenizer in bert prepare, or "
            "--add-tokens in both commands",
        )
    if plan.max_length > plan.model.max_position_embeddings:
        raise BertError(
            f"A length of {plan.max_length} is over the model's "
            f"max_position_embeddings={plan.model.max_position_embeddings}.",
            hint="lower --max-length",
        )


def _build_model(
    plan: PretrainingPlan, tokenizer: WordPieceTokenizer
) -> BertForPreTraining:
    torch.manual_seed(plan.training.seed)
    model = BertForPreTraining(plan.model)
    if plan.init_dir is not None:
        # 形状与 dropout 以计划为准，权重来自原模型
        weights = _init_model(plan, plan.init_dir, tokenizer).state_dict()
        model.load_state_dict(weights)
    model.bert.encoder.recomputes = plan.recomputes
    if plan.training.precision == "fp8":
        # 只有各块里的大乘法：输出头要分辨三万个词，仍用半精度
        train_in_fp8(model.bert.encoder)
    if not plan.with_pairs:
        # 不做 NSP 时池化层与 NSP 头没有梯度：冻结，免得分布式训练空等
        model.nsp_head.requires_grad_(False)
        model.bert.pooler.requires_grad_(False)
    return model


def _init_model(
    plan: PretrainingPlan, init_dir: str, tokenizer: WordPieceTokenizer
) -> BertForPreTraining:
    model = BertForPreTraining.from_pretrained(init_dir)
    if not plan.num_added:
        return model
    old = WordPieceTokenizer.load(find(Path(init_dir)))
    new_ids = range(len(old), len(tokenizer))
    encodings = old.encode_batch(
        [tokenizer.id_to_token(number) for number in new_ids],
        add_special_tokens=False,
    )
    return grow_vocabulary(model, [e.input_ids for e in encodings])
