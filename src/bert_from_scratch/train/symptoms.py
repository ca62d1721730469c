"""Symptoms in what is learned: MLM, NSP, and data read too often."""

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from bert_from_scratch.train.defaults import EPOCHS
from bert_from_scratch.train.evidence import Evidence, column, smooth

Level = Literal["ok", "warning", "problem"]

# 后归一化的 BERT 会在略低于单词熵处停留很久；实测停留处约为熵的九成
PLATEAU_SHARE = 0.85
# 停在熵上不动的训练，学到的只有词频；实测困住的 base 为熵的 1.0 倍
STUCK_SHARE = 0.96
# 抛硬币是一半；再高一点就说明学到了东西
NSP_CHANCE = 0.55
# 健康的 NSP 也到不了这么高，除非标签能从别处看出来
NSP_PERFECT = 0.99
# MLM 还这么差时 NSP 不可能靠理解做对
NSP_LEAK_MLM_SHARE = 0.7
# 默认遍数之上再留一半：特殊符号与留出部分使遍数只是估计
MAX_EPOCHS = 1.5 * EPOCHS
# 留出损失从最低处回升这么多，就不是评测的起伏
OVERFIT_RISE = 0.03
# 训练与留出之差：要占训练损失两成，且不止零点几奈特
GAP_SHARE = 0.2
GAP_NATS = 0.3


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at.

    Attributes:
        level: How bad it is.
        title: What it is, in a few words.
        detail: The numbers.
        advice: What to do next; empty where all is well.
    """

    level: Level
    title: str
    detail: str
    advice: str = ""


def check_plateau(run: Evidence) -> Finding | None:
    """Looks whether MLM has learned more than how frequent words are."""
    if run.entropy is None:
        return None
    loss = run.recent("mlm_loss")
    detail = (
        f"MLM loss is {loss:.2f} nats; knowing only how frequent words are "
        f"costs {run.entropy:.2f}."
    )
    limit = PLATEAU_SHARE * run.entropy
    if loss < limit:
        return Finding("ok", "MLM learns from context", detail)
    if not run.is_late:
        detail += " That is usual so early in a run."
        return Finding("ok", "MLM is on its first plateau", detail)
    return _judge_plateau(run, detail, limit)


def _judge_plateau(run: Evidence, detail: str, limit: float) -> Finding:
    title = "MLM is stuck near the unigram entropy"
    curve = run.fair_curve
    expected = None if curve is None else curve.loss_at(run.tokens)
    if curve is not None and expected is not None and expected >= limit:
        end = curve.tokens_until(limit)
        if end is None:
            detail += f" The expected curve {curve.name} gets no further."
            return Finding("ok", "MLM is where its preset gets to", detail)
        steps = math.ceil(end / run.plan.batch_tokens)
        detail += f" The curve {curve.name} left it after {end:,.0f} tokens."
        advice = f"train longer: --steps {2 * steps} or more"
        return Finding("warning", title, detail, advice)
    if run.recent("mlm_loss") < STUCK_SHARE * (run.entropy or 0.0):
        return Finding(
            "warning",
            "MLM is still on its first plateau",
            detail,
            "train longer (--steps), or with a larger model (--preset)",
        )
    start = run.settled[0]["step"]
    advice = (
        f"lengthen the warm-up (--warmup-steps {2 * max(start, 100)}) or try "
        f"another rate (--lr {run.plan.training.learning_rate / 2:g}); deep "
        "models with the norm behind each block leave this plateau late"
    )
    return Finding("problem", title, detail, advice)


def check_nsp(run: Evidence) -> Finding | None:
    """Looks whether NSP is learned, and not too easily."""
    if len(column(run.settled, "nsp_accuracy")) == 0:
        return None
    accuracy = run.recent("nsp_accuracy")
    detail = f"NSP accuracy is {accuracy:.1%}."
    leak = _find_leak(run)
    if leak is not None:
        return leak
    if accuracy >= NSP_CHANCE or not run.is_late:
        return Finding("ok", "NSP shows nothing suspicious", detail)
    curve = run.fair_curve
    expected = None if curve is None else curve.nsp_accuracy_at(run.tokens)
    if expected is not None and expected < NSP_CHANCE:
        detail += f" The expected curve has {expected:.1%} here."
        return Finding("ok", "NSP is as far as expected", detail)
    return Finding(
        "warning",
        "NSP is no better than a coin",
        f"{detail} By now it should be over {NSP_CHANCE:.0%}.",
        "check that a blank line divides documents and each holds several "
        "sentences (bert prepare says how many); train longer (--steps), or "
        "leave it out (--no-nsp)",
    )


def _find_leak(run: Evidence) -> Finding | None:
    lines = [x for x in run.metrics if x.get("nsp_accuracy") is not None]
    means = smooth(column(lines, "nsp_accuracy"), run.num_recent)
    perfect = np.flatnonzero(means >= NSP_PERFECT)
    if len(perfect) == 0:
        return None
    first = int(perfect[0])
    step = lines[min(first + run.num_recent, len(lines)) - 1]["step"]
    loss = float(smooth(column(lines, "mlm_loss"), run.num_recent)[first])
    is_early = step < run.settled[0]["step"]
    limit = NSP_LEAK_MLM_SHARE * (run.entropy or math.inf)
    if not is_early and loss < limit:
        return None
    documents = ""
    if run.num_documents is not None:
        documents = f" The data has {run.num_documents:,} documents."
    return Finding(
        "warning",
        "NSP is suspiciously perfect",
        f"NSP accuracy reached {means[first]:.1%} by step {step:,}, with an "
        f"MLM loss of still {loss:.2f} nats: something other than meaning "
        f"gives the labels away.{documents}",
        "look for documents that differ in language, topic or boilerplate, "
        "for duplicates, and for too few documents; or use --no-nsp",
    )


def check_repetition(run: Evidence) -> Finding | None:
    """Looks whether the data was read too often."""
    if run.num_epochs is None:
        return None
    detail = f"The data was read about {run.num_epochs:.1f} times."
    if run.num_epochs <= MAX_EPOCHS:
        return Finding("ok", "The data is large enough", detail)
    return Finding(
        "warning",
        "The data is repeated too often",
        f"{detail} It has {run.num_tokens:,} tokens; more than {EPOCHS} "
        "readings teach little that is new.",
        f"add text, or train less (--epochs {EPOCHS})",
    )


def check_overfitting(run: Evidence) -> Finding | None:
    """Looks whether held-out text gets worse, or is much worse."""
    held_out = column(run.evaluations, "mlm_loss")
    if len(held_out) == 0:
        return None
    train, last = run.recent("mlm_loss"), float(held_out[-1])
    best = run.evaluations[int(held_out.argmin())]["step"]
    detail = f"MLM loss is {train:.2f} nats in training, {last:.2f} held out"
    is_higher = last > (1 + OVERFIT_RISE) * held_out.min()
    rises = is_higher and train < run.recent("mlm_loss", until=best)
    advice = "add text, or train less (--epochs)"
    if rises:
        detail += f", where it was {held_out.min():.2f} at step {best:,}"
        advice = f"use the best checkpoint (step {best}); {advice}"
    elif last - train <= max(GAP_SHARE * train, GAP_NATS):
        return Finding("ok", "Held-out text does as well", f"{detail}.")
    title = "The model learns its data by heart"
    return Finding("warning", title, f"{detail}.", advice)
