"""Short trials for the ten-minute recipe and its rival, one after the other.

    python benchmarks/ten_minutes_trials.py DATA HELD [--minutes 0.75]
        [--trial "lr=1e-3"] [--trial "mask_rate=0.2 phases=128:1"] ...
        [--rival "lr=3e-4 rows=512"] ... [--always "preset=mini"]
        [--rivals-always "preset=mini"] [--seconds 560] [--device auto]
        [--out FILE.json]

A trial is `bert pretrain --recipe ten-minutes` for so many minutes, with some
options changed, or none (`--trial ""`). Options have the names of
`bert pretrain`, with `_` for `-`, and values as in JSON (`betas=[0.9,0.98]`
are Adam's); those of `--always` hold for all trials. As there, `batch_tokens`
and `max_length` take the place of the recipe's phases. A rival is
`ten_minutes_peer.py` with its options, likewise with `--rivals-always`.
The minutes begin when the code is compiled, so each has the same time to
learn. HELD are token shards of text that is never trained on: all are judged
on one masked copy of it, by our own model with their weights. What would not
end before `--seconds` is named and left out. Exit code 1: a try failed.
"""

import argparse
import inspect
import json
import math
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import fields, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch

import report
import ten_minutes_peer
import turns
from bert_from_scratch import BertForPreTraining, atomic
from bert_from_scratch.cli.recipe import REPLACED_BY
from bert_from_scratch.data.batch import Batch
from bert_from_scratch.data.masking import MaskingRule
from bert_from_scratch.data.pretraining import BatchShape, PretrainingData
from bert_from_scratch.data.shards import TokenShards
from bert_from_scratch.errors import BertError
from bert_from_scratch.model.device import choose_device
from bert_from_scratch.tokenizer import WordPieceTokenizer
from bert_from_scratch.train.assemble import assemble
from bert_from_scratch.train.clock import process_start
from bert_from_scratch.train.defaults import make_plan
from bert_from_scratch.train.evaluation import PartResult, evaluate_batches
from bert_from_scratch.train.processes import Processes
from bert_from_scratch.train.recipes import TEN_MINUTES
from bert_from_scratch.train.settings import TrainingSettings
from bert_from_scratch.train.step_result import NonFiniteLossError, StepResult
from bert_from_scratch.train.trainer import BertTrainer
from pretrain_throughput import clean
from ten_minutes_peer import PaddedPairs

SEED = 0
OURS, RIVAL = "ours", "rival"
HELD_TOKENS = 1 << 18
EVALUATION_BATCH = 8192
LENGTH = 128
COMPILING_STEPS = 2
# 一个试验写错了，或放不下
MISTAKES = (BertError, LookupError, RuntimeError, TypeError, ValueError)
# 命令行上的名字与 make_plan 里的名字
NAMES = {
    "lr": "learning_rate",
    "held_out": "held_out_share",
    "eval_every": "evaluate_every",
    "accumulate": "num_accumulated",
}


def main() -> None:
    """Trains every trial, judges it, writes what is known so far."""
    arguments = parse_arguments()
    end = process_start() + arguments.seconds
    run = report.describe_run(SEED)
    rows: list[dict[str, Any]] = []
    longest, num_failed = 0.0, 0
    for directory in (arguments.data, arguments.held):
        TokenShards.open(directory)
    tries = [(OURS, try_recipe, text) for text in arguments.trial]
    tries += [(RIVAL, try_rival, text) for text in arguments.rival]
    for who, attempt, text in tries:
        begin = time.monotonic()
        if begin + longest > end:
            print(f"{who}, {text}: left out, no time", flush=True)
            continue
        try:
            row = {"who": who, "changed": text or "nothing"}
            row |= attempt(arguments, text)
        except MISTAKES as error:
            # 一个写错的试验不该毁掉后面的
            print(f"{who}, {text}: {error}", flush=True)
            num_failed += 1
            continue
        print({k: v for k, v in row.items() if k != "curve"}, flush=True)
        rows.append(row)
        report.save(arguments.out, run, rows)
        longest = max(longest, time.monotonic() - begin)
    report.write(arguments.out, run, rows)
    if num_failed:
        sys.exit(f"error: {num_failed} of {len(tries)} tries failed")


def parse_arguments() -> argparse.Namespace:
    """Reads the command line; refuses options that do not exist."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("held", type=Path)
    parser.add_argument("--trial", action="append", default=[])
    parser.add_argument("--rival", action="append", default=[])
    parser.add_argument("--always", default="")
    parser.add_argument("--rivals-always", default="")
    parser.add_argument("--minutes", type=float, default=0.75)
    parser.add_argument("--seconds", type=float, default=math.inf)
    parser.add_argument("--device", default="auto")
    parser.add_argument(
        "--out", type=Path, default=Path("build/ten_minutes_trials.json")
    )
    arguments = parser.parse_args()
    known = inspect.signature(make_plan).parameters.keys() | {
        field.name for field in fields(TrainingSettings)
    }
    for text in (arguments.always, *arguments.trial):
        for name in read_options(text):
            if name == "minutes" or NAMES.get(name, name) not in known:
                parser.error(f"no option of a trial: {name}")
    atomic.check_file(arguments.out)
    if not 0 < arguments.minutes < math.inf:
        parser.error("--minutes must be over 0")
    if not arguments.trial + arguments.rival:
        parser.error("give at least one --trial or --rival")
    for text in arguments.rival:
        # 写错的在开跑之前就拒绝
        read_rival(arguments, text)
    return arguments


def read_rival(arguments: argparse.Namespace, text: str) -> argparse.Namespace:
    """Reads the recipe of a rival."""
    options = read_options(f"{arguments.rivals_always} {text}")
    words = [
        f"--{name.replace('_', '-')}" + ("" if value is True else f"={value}")
        for name, value in options.items()
    ]
    return ten_minutes_peer.parse_arguments([str(arguments.data), *words])


def read_options(text: str) -> dict[str, Any]:
    """Reads "lr=1e-3 phases=128:1" into options and values."""
    options = {}
    for part in text.split():
        name, is_there, value = part.partition("=")
        if not is_there:
            sys.exit(f"error: {part} is not of the form OPTION=VALUE")
        try:
            options[name] = json.loads(value)
        except json.JSONDecodeError:
            options[name] = value
    return options


def try_recipe(arguments: argparse.Namespace, text: str) -> dict[str, Any]:
    """Trains for some minutes with some options changed."""
    changed = read_options(f"{arguments.always} {text}")
    options = TEN_MINUTES | changed
    if changed.keys() & set(REPLACED_BY["phases"]):
        # 与命令行一样：写出的大小先于菜谱里的各阶段
        options["phases"] = changed.get("phases")
    options |= {"minutes": arguments.minutes, "device": arguments.device}
    named: dict[str, Any] = {
        NAMES.get(name, name): value for name, value in options.items()
    }
    plan = make_plan(arguments.data, seed=SEED, **named)
    # 不写盘，也就不留写盘的时间
    settings = replace(plan.training, reserved_seconds=0.0)
    trainer = assemble(replace(plan, training=settings), Processes()).trainer
    curve: list[float] = []
    is_lost = False
    try:
        turns.take(
            partial(take_first_steps, trainer), trainer.settings.compiles
        )
        start_clock(trainer)
        trainer.fit(lambda result: note(result, curve))
    except NonFiniteLossError:
        is_lost = True
    state = trainer.state
    parts = {} if is_lost else trainer.evaluate(held_batches(arguments.held))
    device = trainer.device
    del trainer
    clean(device)
    speed = state.num_tokens / max(state.seconds, 1e-9)
    return make_row(parts, state.step, state.num_tokens, speed, curve)


def make_row(
    parts: dict[str, PartResult],
    steps: int,
    num_tokens: int,
    speed: float,
    curve: list[float],
) -> dict[str, Any]:
    """Makes one row of the table; without parts, the loss was lost."""
    return {
        "held-out MLM": parts["mlm"].loss if parts else None,
        "NSP accuracy": parts["nsp"].accuracy if "nsp" in parts else None,
        "steps": steps,
        "tokens": num_tokens,
        "tokens/s": speed,
        "curve": curve,
    }


def try_rival(arguments: argparse.Namespace, text: str) -> dict[str, Any]:
    """Trains Hugging Face's class for some minutes."""
    recipe = read_rival(arguments, text)
    device = choose_device(arguments.device)
    pairs = PaddedPairs(arguments.data, recipe.rows, recipe.length, SEED)
    model = ten_minutes_peer.build(recipe, pairs.vocab_size, device)
    log = ten_minutes_peer.train(
        model,
        pairs,
        recipe,
        device,
        time.monotonic(),
        lambda first_step: first_step + 60 * arguments.minutes,
    )
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        del model
        clean(device)
        judged = BertForPreTraining.from_pretrained(folder).to(device)
    with torch.autocast(device.type, torch.bfloat16, device.type == "cuda"):
        parts = evaluate_batches(judged, held_batches(arguments.held), device)
    curve = [loss for _, _, loss in log["losses"]]
    return make_row(parts, log["steps"], log["tokens"], log["tokens/s"], curve)


def take_first_steps(trainer: BertTrainer) -> None:
    """Takes the steps in which everything is compiled."""
    # 上一次若因显存不够而中断，会留下半步的梯度
    trainer.optimizer.zero_grad()
    taken: list[StepResult] = []

    def stop(result: StepResult) -> bool:
        taken.append(result)
        return len(taken) == COMPILING_STEPS

    trainer.fit(stop)


def start_clock(trainer: BertTrainer) -> None:
    """Lets the minutes begin."""
    state = replace(
        trainer.state, seconds=0.0, schedule_start=None, num_tokens=0
    )
    trainer.restore(state)


def note(result: StepResult, curve: list[float]) -> bool:
    """Keeps a loss; never stops."""
    curve.append(result.loss)
    return False


def held_batches(held_dir: Path) -> Iterator[Batch]:
    """Yields masked batches of held-out text, the same ones every time."""
    shards = TokenShards.open(held_dir)
    tokenizer = WordPieceTokenizer.load(shards.tokenizer_dir)
    data = PretrainingData(
        shards,
        tokenizer,
        BatchShape.plan(EVALUATION_BATCH, LENGTH),
        MaskingRule.of(tokenizer),
        SEED,
    )
    return data.sample(HELD_TOKENS)


if __name__ == "__main__":
    report.run(main)
