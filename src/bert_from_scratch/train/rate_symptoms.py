"""Symptoms of a wrong learning rate, and how a run does against its curve."""

import math

import numpy as np

from bert_from_scratch.train.evidence import Evidence, column, noise, smooth
from bert_from_scratch.train.expected_curves import ExpectedCurve
from bert_from_scratch.train.symptoms import Finding

# 平滑后的回升要超过噪声，也要占损失的一定比例，才不是起伏
RISE_SIGMAS = 4.0
RISE_SHARE = 0.05
# 尖峰：比前几行的中位数高出许多倍噪声，且高出损失的一成
SPIKE_SIGMAS = 8.0
SPIKE_SHARE = 0.1
SPIKE_LINES = 10
# 一次尖峰可能只是一批怪数据；再来一次就是学习率
MIN_SPIKES = 2
# 健康的运行里梯度也会到中位数的几倍，但不会到几十倍
EXPLOSION_FACTOR = 20.0
# 同样词数处损失高一成、且多用了一倍的词，才算落后：
# 平台期损失几乎不动，离开平台的时刻又因种子而异，单看一样会误报
BEHIND_SHARE = 0.1
BEHIND_FACTOR = 2.0
# 比参照低一半以上，才把落后归因于学习率
LOW_RATE_FACTOR = 2.0


def check_finite(run: Evidence) -> Finding | None:
    """Looks for losses and gradients that are not numbers."""
    for line in run.metrics:
        names = ("loss", "mlm_loss", "gradient_norm")
        bad = [n for n in names if not math.isfinite(line.get(n) or 0.0)]
        if bad:
            return Finding(
                "problem",
                "The run broke down",
                f"{bad[0]} is {line[bad[0]]} at step {line['step']:,}.",
                _lower_rate(run),
            )
    return None


def check_rate(run: Evidence) -> Finding:
    """Looks for the signs of a learning rate that is too high."""
    losses = column(run.settled, "mlm_loss")
    sigma, means = noise(losses), smooth(losses, run.num_recent)
    rise, low = means[-1] - means.min(), int(means.argmin())
    error = sigma / math.sqrt(min(run.num_recent, len(losses)))
    if rise > max(RISE_SIGMAS * error, RISE_SHARE * means.min()):
        last = run.settled[low + len(losses) - len(means)]["step"]
        return Finding(
            "problem",
            "The loss rises again",
            f"MLM loss was {means.min():.2f} nats by step {last:,} and is "
            f"{means[-1]:.2f} at step {run.step:,}: the learning rate "
            f"{run.plan.training.learning_rate:g} is too high.",
            _lower_rate(run),
        )
    spikes = _find_spikes(run)
    if len(spikes) >= MIN_SPIKES:
        return Finding(
            "warning",
            "The loss has spikes",
            f"MLM loss jumps up {len(spikes)} times after the warm-up, first "
            f"at step {spikes[0]:,}: the learning rate is at its limit.",
            _lower_rate(run),
        )
    return _judge_gradients(run)


def _judge_gradients(run: Evidence) -> Finding:
    norms = column(run.settled, "gradient_norm")
    usual, worst = float(np.median(norms)), float(norms.max())
    detail = f"The gradient norm is {usual:.2f} as a rule, {worst:.2f} at most"
    if worst <= EXPLOSION_FACTOR * usual:
        return Finding("ok", "The loss falls smoothly", f"{detail}.")
    step = run.settled[int(norms.argmax())]["step"]
    return Finding(
        "warning",
        "Gradients explode",
        f"{detail} (step {step:,}): the learning rate is at its limit.",
        _lower_rate(run),
    )


def _find_spikes(run: Evidence) -> list[int]:
    """Returns the steps at which the loss jumps up."""
    losses = column(run.settled, "mlm_loss")
    height, spikes = SPIKE_SIGMAS * noise(losses), []
    for number in range(SPIKE_LINES, len(losses)):
        usual = np.median(losses[number - SPIKE_LINES : number])
        if losses[number] - usual > max(height, SPIKE_SHARE * usual):
            spikes.append(int(run.settled[number]["step"]))
    return spikes


def _lower_rate(run: Evidence) -> str:
    rate = run.plan.training.learning_rate / 2
    return f"lower the rate: --lr {rate:g}; or lengthen --warmup-steps"


def compare(run: Evidence) -> Finding:
    """Compares the newest loss with the expected one at equal tokens."""
    curve = run.curve
    if curve is None:
        return _say_no_curve(run)
    tokens, loss = _newest_loss(run)
    expected = curve.loss_at(tokens)
    if expected is None:
        return Finding(
            "ok",
            "The expected curve begins later",
            f"{curve.name} begins at {curve.first_tokens:,} tokens; this run "
            f"has seen {tokens:,}.",
        )
    detail = (
        f"MLM loss is {loss:.2f} nats after {tokens:,} tokens; {curve.name} "
        f"({curve.hardware}) had {expected:.2f}"
    )
    if tokens > curve.last_tokens:
        detail += f" at its end, after {curve.last_tokens:,}"
    if run.differences:
        return Finding(
            "ok",
            "The expected curve says little here",
            f"{detail}. But {'; '.join(run.differences)}.",
        )
    return _judge(run, curve, loss / expected - 1, loss, tokens, detail)


def _say_no_curve(run: Evidence) -> Finding:
    preset = run.plan.preset
    subject = "a model without preset" if preset is None else f"preset {preset}"
    return Finding(
        "ok",
        "There is no expected curve",
        f"None was measured for {subject}; only what the run itself shows "
        "was judged.",
    )


def _newest_loss(run: Evidence) -> tuple[int, float]:
    """Returns tokens seen and MLM loss, held out where there is such."""
    if run.evaluations:
        last = run.evaluations[-1]
        return last["step"] * run.plan.batch_tokens, last["mlm_loss"]
    return run.tokens, run.recent("mlm_loss")


def _judge(
    run: Evidence,
    curve: ExpectedCurve,
    gap: float,
    loss: float,
    tokens: int,
    detail: str,
) -> Finding:
    if gap < -BEHIND_SHARE:
        detail += f": lower by {-gap:.0%}."
        return Finding("ok", "Better than the expected curve", detail)
    needed = curve.tokens_until(loss) or tokens
    factor = tokens / max(needed, curve.first_tokens)
    if gap <= BEHIND_SHARE or factor <= BEHIND_FACTOR:
        return Finding("ok", "As the expected curve", f"{detail}.")
    detail += (
        f": higher by {gap:.0%}, which the curve had passed with "
        f"{factor:.1f} times fewer tokens."
    )
    rate = run.plan.training.learning_rate
    is_low = rate * LOW_RATE_FACTOR <= curve.learning_rate
    if is_low and check_rate(run).level == "ok":
        detail += f" The loss is smooth, and the rate is {rate:g}."
        advice = f"raise the rate: --lr {curve.learning_rate:g}, as the curve's"
        return Finding(
            "warning", "The learning rate is too low", detail, advice
        )
    advice = (
        f"compare the settings with those of the curve: {curve.command}; and "
        "the text with bert prepare's report"
    )
    return Finding("warning", "Behind the expected curve", detail, advice)
