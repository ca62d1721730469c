"""BERT against what came before it: the same data, one table."""

import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.table import Table

from bert_from_scratch.cli.console import say, stderr
from bert_from_scratch.cli.finetune_options import FinetuneOptions
from bert_from_scratch.config import read_json
from bert_from_scratch.errors import BertError

if TYPE_CHECKING:
    from bert_from_scratch.finetune.plan import FinetunePlan

ENCODERS = ("bert", "bow", "cnn", "rnn", "lstm", "gru", "bilstm")
# 换了这些，结果仍是同一个结果
FREE = {"device", "num_threads", "log_every", "checkpoint_every"}
Plan = Callable[[Path | None, FinetuneOptions, dict[str, Any]], "FinetunePlan"]


def compare_encoders(
    names: list[str],
    model: Path | None,
    word_vectors: str | None,
    options: FinetuneOptions,
    plan: Plan,
    train: Callable[["FinetunePlan", Path], object],
    resume: Callable[[Path], object],
) -> None:
    """Trains one encoder into `--out`, or each of several below it.

    Typed again after a stop, it goes on where it was.

    Args:
        names: Of `ENCODERS`.
        model: For "bert".
        word_vectors: "cbow" or "skipgram", for the others.
        options: Of the command.
        plan: Makes the plan of one of them.
        train: Carries a plan out.
        resume: Goes on with one that was interrupted.
    """
    _check(names, model, word_vectors)

    def plan_one(name: str, chosen: FinetuneOptions) -> "FinetunePlan":
        if name == "bert":
            return plan(model, chosen, {})
        more = {"encoder": name, "word_vectors": word_vectors}
        return plan(None, chosen, more)

    if len(names) == 1:
        train(plan_one(names[0], options), options.out)
        return
    for name in names:
        out = options.out / name
        say(f"== {name}")
        wanted = plan_one(name, replace(options, out=out))
        if (out / "plan.json").is_file():
            _check_same(wanted, out)
        if (out / "metrics.json").is_file():
            say(f"{out} is finished already.")
        elif (out / "plan.json").is_file():
            resume(out)
        else:
            train(wanted, out)
    if os.environ.get("RANK", "0") == "0":
        _print(
            [
                (name, read_json(options.out / name / "metrics.json"))
                for name in names
            ]
        )


def _check_same(wanted: "FinetunePlan", out: Path) -> None:
    """Refuses to mix what was typed now with what was made before."""
    before = read_json(out / "plan.json")
    # 走一遍 JSON：元组在文件里是列表
    now = json.loads(json.dumps(wanted.to_dict()))
    changed = [
        name
        for name in sorted(now.keys() - FREE)
        if now[name] != before.get(name)
    ]
    if changed:
        raise BertError(
            f"{out} was made with other settings: {', '.join(changed)}.",
            hint="choose another --out",
        )


def _check(
    names: list[str], model: Path | None, word_vectors: str | None
) -> None:
    for name in names:
        if name not in ENCODERS:
            raise BertError(
                f"Unknown encoder {name!r}.",
                hint=f"use one of {', '.join(ENCODERS)}",
            )
    if len(set(names)) < len(names):
        raise BertError(f"--encoder names one twice: {','.join(names)}.")
    if model is None and "bert" in names:
        raise BertError("MODEL is missing.")
    if model is not None and "bert" not in names:
        raise BertError(
            f"--encoder {','.join(names)} takes no MODEL.",
            hint=f"leave out {model}, or add bert to --encoder",
        )
    if word_vectors is not None and names == ["bert"]:
        raise BertError("--word-vectors has no meaning for bert.")


def _print(rows: list[tuple[str, dict[str, Any]]]) -> None:
    """Shows the scores of all encoders side by side."""
    metric = rows[0][1]["metric"]
    table = Table("encoder", metric, "sd", "seeds", "training seconds")
    for name, found in rows:
        seconds = sum(attempt["seconds"] for attempt in found["attempts"])
        table.add_row(
            name,
            f"{found['mean'][metric]:.4f}",
            f"{found['deviation'][metric]:.4f}",
            str(len(found["plan"]["seeds"])),
            f"{seconds:.0f}",
        )
    stderr.print(table)
