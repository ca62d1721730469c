"""`examine`: reads a run and says in words what is wrong with it."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from bert_from_scratch.train.evidence import Evidence, collect, column
from bert_from_scratch.train.rate_symptoms import (
    check_finite,
    check_rate,
    compare,
)
from bert_from_scratch.train.symptoms import (
    Finding,
    Level,
    check_nsp,
    check_overfitting,
    check_plateau,
    check_repetition,
)

# 预热之后还要有这么多步、这么多行，均值和噪声才估得准
MIN_STEPS = 100
MIN_LINES = 20
# 第一行含编译和读盘，不代表平时
FIRST_LINES = 1
# 等数据的时间超过这一份，设备就明显闲着
MAX_DATA_WAIT = 0.05
# 机器忙闲会使速度起伏，降到这一份以下才是变慢
MIN_SPEED_SHARE = 0.75

LEVELS: tuple[Level, ...] = ("ok", "warning", "problem")


@dataclass(frozen=True)
class Diagnosis:
    """What was found in a run.

    Attributes:
        run_dir: The run.
        num_steps: Its last logged step.
        findings: The worst first.
    """

    run_dir: Path
    num_steps: int
    findings: list[Finding]

    @property
    def level(self) -> Level:
        """The worst level of all findings."""
        return max((x.level for x in self.findings), key=LEVELS.index)


def examine(run_dir: Path) -> Diagnosis:
    """Compares a run, finished or not, with how healthy ones go.

    Args:
        run_dir: A run of `bert pretrain`; nothing in it is changed.

    Raises:
        BertError: Not a run of this version.
    """
    run = collect(run_dir)
    return Diagnosis(run_dir, run.step, judge(run))


def judge(run: Evidence) -> list[Finding]:
    """Applies all rules that there is enough evidence for; worst first."""
    broken = check_finite(run)
    short = _check_length(run)
    rules: tuple[Callable[[Evidence], Finding | None], ...] = ()
    if broken is None and short is None:
        rules = (
            check_plateau,
            check_nsp,
            check_rate,
            check_repetition,
            check_overfitting,
            _check_speed,
            compare,
        )
    found = [
        broken,
        short,
        *(rule(run) for rule in rules),
        _check_data_wait(run),
        _check_data(run),
    ]
    findings = [x for x in found if x is not None]
    return sorted(findings, key=lambda x: -LEVELS.index(x.level))


def _check_length(run: Evidence) -> Finding | None:
    """Looks whether there is enough of the run to judge it."""
    lines = run.settled
    num_steps = run.step - lines[0]["step"] if lines else 0
    if len(lines) >= MIN_LINES and num_steps >= MIN_STEPS:
        return None
    return Finding(
        "warning",
        "Too short to judge",
        f"The run has {run.step:,} steps, {num_steps:,} of them after the "
        f"warm-up and {len(lines)} of those logged; {MIN_STEPS} steps and "
        f"{MIN_LINES} lines are needed.",
        "train longer (--steps, --minutes), or log more often (--log-every)",
    )


def _check_data_wait(run: Evidence) -> Finding | None:
    """Looks whether the device waits for data."""
    waits = column(run.metrics[FIRST_LINES:], "data_wait")
    if len(waits) == 0:
        return None
    share = float(waits.mean())
    detail = f"{share:.1%} of the time goes into waiting for data."
    if share <= MAX_DATA_WAIT:
        return Finding("ok", "Data comes fast enough", detail)
    return Finding(
        "warning",
        "Training waits for data",
        f"{detail} It should be under {MAX_DATA_WAIT:.0%}.",
        f"copy {run.plan.data_dir} to a local disk and free CPU cores; on a "
        "CPU leave one to the data (--threads)",
    )


def _check_speed(run: Evidence) -> Finding | None:
    """Looks whether the run gets slower, within its first phase."""
    # 后面的阶段序列更长，本来就慢：只看第一个阶段
    last = run.step / max(run.progress, 1e-9) * run.plan.phases[0].share
    lines = [x for x in run.metrics[FIRST_LINES:] if x["step"] <= last]
    speeds = column(lines, "tokens_per_second")
    quarter = len(speeds) // 4
    if quarter == 0:
        return None
    before = float(np.median(speeds[:quarter]))
    after = float(np.median(speeds[-quarter:]))
    detail = f"{before:,.0f} tokens a second at first, {after:,.0f} at last."
    if after >= MIN_SPEED_SHARE * before:
        return Finding("ok", "The speed is steady", detail)
    return Finding(
        "warning",
        "The run gets slower",
        f"{detail} That is {1 - after / before:.0%} less.",
        "look for other programs on this machine (top, nvidia-smi), heat and "
        "a full disk; what is saved goes on with: bert pretrain --resume RUN",
    )


def _check_data(run: Evidence) -> Finding | None:
    if run.data_error is None:
        return None
    return Finding(
        "ok",
        "The data cannot be read",
        f"{run.data_error} The unigram entropy and the number of readings "
        "were not checked.",
    )
