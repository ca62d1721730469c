"""What a run does when it is not told: chosen by model, data and machine."""

import logging
import math
import os
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F

from bert_from_scratch.config import BertConfig
from bert_from_scratch.data.phases import Phase, read_phases
from bert_from_scratch.data.shards import TokenShards
from bert_from_scratch.errors import BertError
from bert_from_scratch.kernels import fp8
from bert_from_scratch.kernels.dense import dense
from bert_from_scratch.model.device import choose_device
from bert_from_scratch.model.directory import find
from bert_from_scratch.model.inference import choose_precision
from bert_from_scratch.objectives.pretraining import BertForPreTraining
from bert_from_scratch.tokenizer import WordPieceTokenizer
from bert_from_scratch.tokenizer.growth import add_words, read_words
from bert_from_scratch.train.budget import MAX_WARMUP_STEPS, WARMUP_SHARE
from bert_from_scratch.train.pretraining_plan import PretrainingPlan
from bert_from_scratch.train.settings import Precision, TrainingSettings

logger = logging.getLogger(__name__)

# 模型越窄，能承受的学习率越大；论文的 1e-4 是为百万步的训练而定
LEARNING_RATES = ((256, 1e-3), (512, 7e-4), (768, 5e-4))
LARGE_LEARNING_RATE = 2e-4
INIT_LEARNING_RATE = 1e-4

MAX_LENGTH = 128
MASK_RATE = 0.15
GPU_BATCH_TOKENS = 65536
CPU_BATCH_TOKENS = 4096
MIN_BATCH_TOKENS = 256
STEPS_AN_EPOCH = 8
# 学习率每步最多升这么多（除以宽度与层数）：升得更陡，后归一化的 BERT 会困在
# 一元熵上；base 以 1.6e-6 一步能学，以 5e-6 一步就困住
STEEPEST_RISE = 0.015
# 结束时要评估、写检查点与模型：按每个权重十六字节、每秒写这么多估计
SAVED_BYTES = 16
BYTES_A_SECOND = 250e6
MAX_RESERVED_SHARE = 0.05
EPOCHS = 40
MIN_STEPS = 2000


def make_plan(
    data_dir: Path,
    *,
    preset: str | None = None,
    config_path: Path | None = None,
    init_dir: Path | None = None,
    words_path: Path | None = None,
    batch_tokens: int | None = None,
    max_length: int | None = None,
    phases: str | None = None,
    no_nsp: bool = False,
    device: str = "auto",
    num_threads: int | None = None,
    precision: str = "auto",
    compiles: bool | None = None,
    learning_rate: float | None = None,
    dropout: float | None = None,
    mask_rate: float = MASK_RATE,
    whole_word: bool = False,
    held_out_share: float = 0.01,
    recomputes: bool = False,
    **settings: Any,
) -> PretrainingPlan:
    """Makes a plan of what the user gave and what follows from it.

    Args:
        data_dir: Token shards.
        preset: Name of a model shape; None: base.
        config_path: A config.json instead.
        init_dir: A BERT to start from instead.
        words_path: Words that the vocabulary of `init_dir` grew by.
        batch_tokens: Tokens a step; None: by the device.
        max_length: Longest sequence; None: 128, or as the phases say.
        phases: Lengths and shares, as "128:0.9,512:0.1".
        no_nsp: Whether there are no sentence pairs.
        device: Where to train.
        num_threads: Threads on a CPU; None: measured.
        precision: "auto", "fp32", "bf16" or "fp8".
        compiles: Whether to compile; None: on a GPU.
        learning_rate: None: by the width of the model.
        dropout: Of hidden states; None: as in the model's config.
        mask_rate: Share of tokens that are hidden.
        whole_word: Whether whole words are hidden.
        held_out_share: Share of documents that are only evaluated on.
        recomputes: Whether to trade time for memory.
        settings: More fields of `TrainingSettings`.
    """
    meta = TokenShards.open(data_dir).meta
    is_gpu = choose_device(device).type == "cuda"
    model = _choose_model(preset, config_path, init_dir, meta.vocab_size)
    num_added = _count_added(data_dir, init_dir, words_path)
    model = replace(model, vocab_size=model.vocab_size + num_added)
    model = _set_dropout(model, dropout, has_own=config_path is not None)
    if batch_tokens is None:
        batch_tokens = _choose_batch(meta.num_tokens, is_gpu)
    if batch_tokens < 1:
        raise BertError(f"--batch-tokens must be at least 1: {batch_tokens}.")
    budgets = ("steps", "epochs", "minutes")
    if all(settings.get(name) is None for name in budgets):
        settings |= budget(meta.num_tokens, batch_tokens)
    rise = STEEPEST_RISE / (model.hidden_size * model.num_hidden_layers)
    if learning_rate is None:
        learning_rate = choose_rate(model, init_dir is not None)
        warmup_steps = _count_warmup(settings, meta.num_tokens, batch_tokens)
        if warmup_steps is not None:
            learning_rate = min(learning_rate, warmup_steps * rise)
    _warn_of_warmup(settings, meta.num_tokens, batch_tokens)
    if settings.get("minutes") is not None:
        settings["reserved_seconds"] = _reserve(model, settings["minutes"])
    _warn_of_device(is_gpu, num_threads, compiles, batch_tokens)
    if not is_gpu and num_threads is None:
        num_threads = choose_threads(model.hidden_size)
    chosen_phases = _choose_phases(phases, max_length)
    _warn_of_mask_rate(mask_rate, chosen_phases)
    return PretrainingPlan(
        data_dir=str(data_dir.resolve()),
        data_sha256=meta.sha256,
        model=model,
        training=TrainingSettings(
            learning_rate=learning_rate,
            min_warmup_steps=_count_rise(learning_rate / rise),
            precision=_choose_precision(precision, choose_device(device)),
            compiles=is_gpu if compiles is None else compiles,
            **settings,
        ),
        preset=_name_model(preset, config_path, init_dir),
        init_dir=None if init_dir is None else str(init_dir.resolve()),
        num_added=num_added,
        batch_tokens=batch_tokens,
        phases=chosen_phases,
        with_pairs=not no_nsp,
        mask_rate=mask_rate,
        whole_word=whole_word,
        held_out_share=held_out_share,
        recomputes=recomputes,
        device=device,
        num_threads=num_threads,
    )


def _choose_precision(name: str, device: torch.device) -> Precision:
    if name != "fp8":
        return choose_precision(name, device)
    fp8.require(device)
    return "fp8"


def _warn_of_device(
    is_gpu: bool,
    num_threads: int | None,
    compiles: bool | None,
    batch_tokens: int,
) -> None:
    num_cores = os.cpu_count() or 1
    if is_gpu and num_threads is not None:
        logger.warning("--threads has no effect on a GPU.")
    if not is_gpu and num_threads is not None and num_threads > num_cores:
        logger.warning(
            "%d threads on %d cores wait for each other.",
            num_threads,
            num_cores,
        )
    if compiles and not is_gpu:
        logger.warning("--compile gains nothing on a CPU, and takes minutes.")
    if not is_gpu and batch_tokens >= GPU_BATCH_TOKENS:
        logger.warning(
            "A step of %s tokens takes long on a CPU; by default it has %s "
            "there (--batch-tokens).",
            f"{batch_tokens:,}",
            f"{CPU_BATCH_TOKENS:,}",
        )


def _warn_of_mask_rate(mask_rate: float, phases: tuple[Phase, ...]) -> None:
    has_own = all(phase.mask_rate is not None for phase in phases)
    if mask_rate != MASK_RATE and has_own:
        logger.warning("--mask-rate has no effect: each phase has its own.")


def _choose_phases(
    phases: str | None, max_length: int | None
) -> tuple[Phase, ...]:
    if phases is None:
        return (Phase(MAX_LENGTH if max_length is None else max_length),)
    if max_length is not None:
        raise BertError("Give --max-length or --phases, not both.")
    return read_phases(phases)


def _reserve(model: BertConfig, minutes: float) -> float:
    """Returns the seconds that the end of a run takes, about."""
    with torch.device("meta"):
        weights = BertForPreTraining(model).parameters()
    size = SAVED_BYTES * sum(weight.numel() for weight in weights)
    return min(1 + size / BYTES_A_SECOND, MAX_RESERVED_SHARE * 60 * minutes)


def _count_rise(ratio: float) -> int:
    # 不是数的学习率由设置自己拒绝，这里不抢先出错
    return math.ceil(ratio) if math.isfinite(ratio) else 0


def _count_warmup(
    settings: dict[str, Any], num_tokens: int, batch_tokens: int
) -> int | None:
    """Returns about how many steps the warm-up has; None: minutes decide."""
    if settings.get("warmup_steps") is not None:
        return max(int(settings["warmup_steps"]), 1)
    steps = _count_steps(settings, num_tokens, batch_tokens)
    if steps is None:
        return None
    return max(min(MAX_WARMUP_STEPS, int(WARMUP_SHARE * steps)), 1)


def _count_steps(
    settings: dict[str, Any], num_tokens: int, batch_tokens: int
) -> int | None:
    """Returns about how many steps a run has; None: minutes decide."""
    if settings.get("minutes") is not None:
        return None
    if settings.get("steps") is not None:
        return int(settings["steps"])
    return int(settings["epochs"] * max(num_tokens // batch_tokens, 1))


def _warn_of_warmup(
    settings: dict[str, Any], num_tokens: int, batch_tokens: int
) -> None:
    warmup = settings.get("warmup_steps")
    steps = _count_steps(settings, num_tokens, batch_tokens)
    if warmup is not None and steps is not None and warmup >= steps:
        logger.warning(
            "The warm-up of %d steps is as long as the run of about %d: the "
            "learning rate never gets to its highest.",
            warmup,
            steps,
        )


def _choose_batch(num_tokens: int, is_gpu: bool) -> int:
    """Returns how many tokens a step has, at least a few steps an epoch."""
    # 语料很小时批次也小：同样的时间里多走几步，学得更快
    most = GPU_BATCH_TOKENS if is_gpu else CPU_BATCH_TOKENS
    return min(most, max(MIN_BATCH_TOKENS, num_tokens // STEPS_AN_EPOCH))


def _name_model(
    preset: str | None, config_path: Path | None, init_dir: Path | None
) -> str | None:
    if config_path is not None or init_dir is not None:
        return None
    return preset or "base"


def _choose_model(
    preset: str | None,
    config_path: Path | None,
    init_dir: Path | None,
    vocab_size: int,
) -> BertConfig:
    given = [x for x in (preset, config_path, init_dir) if x is not None]
    if len(given) > 1:
        raise BertError("Give one of --preset, --config, --init.")
    if init_dir is not None:
        return BertConfig.load(find(init_dir) / "config.json")
    if config_path is not None:
        return BertConfig.load(config_path)
    return BertConfig.preset(preset or "base", vocab_size=vocab_size)


def _set_dropout(
    model: BertConfig, dropout: float | None, has_own: bool
) -> BertConfig:
    if dropout is not None:
        model = replace(model, hidden_dropout_prob=dropout)
    if has_own:
        return model
    # 注意力的 dropout 要多花时间：为快而设为 0，并写进 config.json
    return replace(model, attention_probs_dropout_prob=0.0)


def _count_added(
    data_dir: Path, init_dir: Path | None, words_path: Path | None
) -> int:
    """Returns how many words the data's vocabulary adds to the model's."""
    if init_dir is None:
        if words_path is None:
            return 0
        raise BertError(
            "--add-tokens grows the vocabulary of an --init model.",
            hint="for a new model: bert tokenizer train",
        )
    old = expected = WordPieceTokenizer.load(find(init_dir))
    command = f"bert prepare ... --tokenizer {init_dir}"
    if words_path is not None:
        expected = add_words(old, read_words(words_path))
        command += f" --add-tokens {words_path}"
    found = WordPieceTokenizer.load(TokenShards.open(data_dir).tokenizer_dir)
    if found.vocabulary != expected.vocabulary:
        # 词表不同，编号就另有所指：模型会把每个词都读错
        raise BertError(
            f"{data_dir} was made with another vocabulary than that of "
            f"{init_dir}.",
            hint=f"{command}; or name new words with --add-tokens",
        )
    return len(expected) - len(old)


def choose_rate(config: BertConfig, has_init: bool) -> float:
    """Returns the highest learning rate for a model of this width."""
    if has_init:
        return INIT_LEARNING_RATE
    for width, rate in LEARNING_RATES:
        if config.hidden_size <= width:
            return rate
    return LARGE_LEARNING_RATE


def budget(num_tokens: int, batch_tokens: int) -> dict[str, int]:
    """Returns the budget of a run that was given none.

    40 epochs, as in the paper; for little text more, so that there are enough
    steps to learn anything.
    """
    steps_an_epoch = max(num_tokens / batch_tokens, 1)
    if EPOCHS * steps_an_epoch < MIN_STEPS:
        return {"steps": MIN_STEPS}
    return {"epochs": EPOCHS}


def choose_threads(width: int) -> int:
    """Times a layer with all cores and with one; returns the better number.

    On a busy machine threads wait for each other, and one can beat two.
    """
    before = torch.get_num_threads()
    candidates = sorted({1, before})
    if len(candidates) == 1:
        return before
    x, weight = torch.randn(1024, width), torch.randn(4 * width, width)
    best = dict.fromkeys(candidates, float("inf"))
    for _ in range(5):
        for number in candidates:
            torch.set_num_threads(number)
            best[number] = min(best[number], _time_layer(x, weight))
    torch.set_num_threads(before)
    return min(candidates, key=best.__getitem__)


def _time_layer(x: torch.Tensor, weight: torch.Tensor) -> float:
    start = time.perf_counter()
    for _ in range(3):
        F.gelu(dense(x, weight)).sum()
    return time.perf_counter() - start
