"""BERT against what came before it: the same data, one table."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.table import Table

from bert_from_scratch.cli.console import say, stderr
from bert_from_scratch.cli.finetune_options import FinetuneOptions
from bert_from_scratch.errors import BertError

if TYPE_CHECKING:
    from bert_from_scratch.finetune.outcome import Outcome

ENCODERS = ("bert", "bow", "cnn", "rnn", "lstm", "gru", "bilstm")
Train = Callable[
    [Path | None, FinetuneOptions, dict[str, Any]], "Outcome | None"
]


def compare_encoders(
    names: list[str],
    model: Path | None,
    word_vectors: str | None,
    options: FinetuneOptions,
    train: Train,
) -> None:
    """Trains one encoder into `--out`, or each of several below it.

    Args:
        names: Of `ENCODERS`.
        model: For "bert".
        word_vectors: "cbow" or "skipgram", for the others.
        options: Of the command.
        train: Trains one of them.
    """
    _check(names, model, word_vectors)
    rows = []
    for name in names:
        chosen = options
        if len(names) > 1:
            say(f"== {name}")
            chosen = replace(options, out=options.out / name)
        more = {"encoder": name, "word_vectors": word_vectors}
        outcome = train(
            model if name == "bert" else None,
            chosen,
            {} if name == "bert" else more,
        )
        if outcome is not None:
            rows.append((name, outcome))
    if len(rows) > 1:
        _print(rows)


def _check(
    names: list[str], model: Path | None, word_vectors: str | None
) -> None:
    for name in names:
        if name not in ENCODERS:
            raise BertError(
                f"Unknown encoder {name!r}.",
                hint=f"use one of {', '.join(ENCODERS)}",
            )
    if model is not None and "bert" not in names:
        raise BertError(
            f"--encoder {','.join(names)} takes no MODEL.",
            hint=f"leave out {model}, or add bert to --encoder",
        )
    if word_vectors is not None and names == ["bert"]:
        raise BertError("--word-vectors has no meaning for bert.")


def _print(rows: "list[tuple[str, Outcome]]") -> None:
    """Shows the scores of all encoders side by side."""
    metric = rows[0][1].metric
    table = Table("encoder", metric, "sd", "seeds", "training seconds")
    for name, outcome in rows:
        seconds = sum(attempt.seconds for attempt in outcome.attempts)
        table.add_row(
            name,
            f"{outcome.mean[metric]:.4f}",
            f"{outcome.deviation[metric]:.4f}",
            str(len(outcome.attempts)),
            f"{seconds:.0f}",
        )
    stderr.print(table)
