"""What `bert finetune` says at the end."""

from pathlib import Path
from typing import TYPE_CHECKING

from bert_from_scratch.cli.console import print_table, say
from bert_from_scratch.config import read_json

if TYPE_CHECKING:
    from bert_from_scratch.finetune.outcome import Outcome

PAIR = r"$'one text\tanother text'"
# 每个任务一个能直接照抄的例子
TRY = {
    "classify": '"a text of yours"',
    "regress": '"a text of yours"',
    "choose": '"a prompt" "one choice" "another choice"',
    "tag": '"a sentence of yours"',
    "answer": '"a question?" "the text that answers it"',
}


def example_of(out: Path) -> str:
    """Returns what to type after `bert predict`, for a result."""
    task = read_json(out / "metrics.json")["task"]
    settings = read_json(out / "model" / "task.json")["settings"]
    # 成对训练的模型只认成对的文本，中间隔一个制表符
    return PAIR if settings.get("has_pairs") else TRY[task]


def show_outcome(outcome: "Outcome", example: str, *, is_result: bool) -> None:
    """Prints the scores, and what to type next."""
    num_seeds = sum(
        a.learning_rate == outcome.best.learning_rate for a in outcome.attempts
    )
    rows = _rate_rows(outcome)
    for name, value in outcome.scores.items():
        text = f"{value:.4f}"
        if num_seeds > 1:
            mean, deviation = outcome.mean[name], outcome.deviation[name]
            text += f"   mean of {num_seeds} seeds {mean:.4f} ± {deviation:.4f}"
        rows.append((name, text))
    for title, scores in outcome.others.items():
        listed = ", ".join(f"{n} {v:.4f}" for n, v in scores.items())
        rows.append((title, listed))
    print_table(rows, is_result=is_result)
    best = outcome.best
    say(
        f"Wrote {outcome.model_dir}: lr {best.learning_rate:g}, seed "
        f"{best.seed}, epoch {best.epoch}."
    )
    say(f"Try: bert predict {outcome.model_dir} {example}")


def _rate_rows(outcome: "Outcome") -> list[tuple[str, str]]:
    """Tells what came of every learning rate, where there are several."""
    by_rate: dict[float, list[float]] = {}
    for attempt in outcome.attempts:
        score = attempt.scores[outcome.metric]
        by_rate.setdefault(attempt.learning_rate, []).append(score)
    if len(by_rate) == 1:
        return []
    return [
        (f"lr {rate:g}", f"mean {outcome.metric} {sum(found) / len(found):.4f}")
        for rate, found in by_rate.items()
    ]
