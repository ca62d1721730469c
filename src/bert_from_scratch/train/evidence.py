"""What a run says about itself: its plan, logs, data and expected curve."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bert_from_scratch.data.shards import TokenShards
from bert_from_scratch.errors import BertError
from bert_from_scratch.train.budget import WARMUP_SHARE
from bert_from_scratch.train.expected_curves import (
    ExpectedCurve,
    choose_curve,
    load_curves,
    unigram_entropy,
)
from bert_from_scratch.train.pretraining_plan import PretrainingPlan
from bert_from_scratch.train.run_directory import RunDirectory

Line = dict[str, Any]
Values = NDArray[np.float64]

# 按分钟的预算里没有一步恰好是最高学习率，所以留一点余地
WARM_SHARE = 0.95
# 单步的损失噪声很大：取最后十分之一的均值，但不少于几行
RECENT_SHARE = 0.1
MIN_RECENT_LINES = 5
# 过半以后才谈得上“到现在还没学会”
LATE_PROGRESS = 0.5
# 接近走完：学习率几乎降到零，损失不会再自己变好
DONE_PROGRESS = 0.9
# 批次或数据相差几倍以上，同样词数处的损失就不能直接相比
COMPARABLE_FACTOR = 4.0
# 熵差一成，损失的刻度就不同（语言或词表不同）
COMPARABLE_ENTROPY = 0.1
# 总长差得多，同样词数处一个已退火、一个还没有
COMPARABLE_SCHEDULE = 1.5
# 正态分布里，绝对值的中位数等于这么多个标准差
NORMAL_QUARTILE = 0.6745


@dataclass(frozen=True)
class Evidence:
    """Everything that the rules look at.

    Attributes:
        plan: The run's settings.
        metrics: Lines of metrics.jsonl.
        evaluations: Lines of evaluations.jsonl.
        num_tokens: Tokens of the data; None: the data cannot be read.
        num_documents: Documents of the data, likewise.
        entropy: Of its single tokens in nats, likewise.
        data_error: Why the data cannot be read, or None.
        curve: How a run of this preset is expected to go, if known.
    """

    plan: PretrainingPlan
    metrics: list[Line]
    evaluations: list[Line]
    num_tokens: int | None = None
    num_documents: int | None = None
    entropy: float | None = None
    data_error: str | None = None
    curve: ExpectedCurve | None = None

    @cached_property
    def settled(self) -> list[Line]:
        """The metrics from the end of the warm-up on."""
        rates = column(self.metrics, "lr")
        top = WARM_SHARE * self.plan.training.learning_rate
        if len(rates) and rates.max() >= top:
            return self.metrics[int((rates >= top).argmax()) :]
        # 记录得稀时最高处可能没有记下；学习率已在下降就说明预热过了
        if len(rates) and rates[-1] < rates.max():
            return self.metrics[int(rates.argmax()) :]
        return []

    @property
    def step(self) -> int:
        """The last logged step."""
        return int(self.metrics[-1]["step"]) if self.metrics else 0

    @property
    def tokens(self) -> int:
        """About how many tokens were seen."""
        # 装箱几乎没有空位，所以步数乘每步词数就够准
        return self.step * self.plan.batch_tokens

    @property
    def num_epochs(self) -> float | None:
        """About how often the data was read."""
        if not self.num_tokens:
            return None
        share = 1 - self.plan.held_out_share
        return self.tokens / max(self.num_tokens * share, 1)

    @property
    def progress(self) -> float:
        """About what part of the budget is used up, 0 to 1."""
        if not self.settled:
            return 0.0
        # 预热之后学习率直线降到零：由它反推，三种预算都适用
        rate = self.metrics[-1]["lr"] / self.plan.training.learning_rate
        return min(max(1 - (1 - WARMUP_SHARE) * rate, 0.0), 1.0)

    @property
    def is_late(self) -> bool:
        """Whether most of the run is over."""
        return self.progress >= LATE_PROGRESS

    @property
    def is_done(self) -> bool:
        """Whether the run is over, or nearly."""
        return self.progress >= DONE_PROGRESS

    @property
    def num_recent(self) -> int:
        """How many lines count as recent."""
        return max(MIN_RECENT_LINES, int(RECENT_SHARE * len(self.metrics)))

    def recent(self, name: str, until: float = math.inf) -> float:
        """Returns the mean of a number over the last lines up to a step."""
        lines = [line for line in self.metrics if line["step"] <= until]
        values = column(lines, name)[-self.num_recent :]
        return float(values.mean()) if len(values) else math.nan

    @property
    def differences(self) -> list[str]:
        """What makes the run and its curve hard to compare, in words."""
        curve, plan = self.curve, self.plan
        if curve is None:
            return []
        found = []
        factor = plan.batch_tokens / curve.batch_tokens
        if not 1 / COMPARABLE_FACTOR <= factor <= COMPARABLE_FACTOR:
            found.append(
                f"its batches have {curve.batch_tokens:,} tokens and not "
                f"{plan.batch_tokens:,}"
            )
        total = self.tokens / max(self.progress, WARMUP_SHARE)
        is_longer = total > COMPARABLE_SCHEDULE * curve.last_tokens
        if is_longer and not self.is_done:
            found.append("this run is longer, and its rate has yet to fall")
        return found + self._data_differences(curve)

    def _data_differences(self, curve: ExpectedCurve) -> list[str]:
        if self.num_tokens is None or self.entropy is None:
            return ["the data of this run cannot be read"]
        found = []
        # 数据更多只会更好；少得多才会在同样词数处重复多遍
        if self.num_tokens * COMPARABLE_FACTOR < curve.data_tokens:
            found.append(
                f"its data has {curve.data_tokens:,} tokens and not "
                f"{self.num_tokens:,}"
            )
        ratio = self.entropy / curve.unigram_entropy
        if abs(ratio - 1) > COMPARABLE_ENTROPY:
            found.append(
                "its tokens have an entropy of "
                f"{curve.unigram_entropy:.2f} nats and not {self.entropy:.2f}"
            )
        return found

    @property
    def fair_curve(self) -> ExpectedCurve | None:
        """The expected curve, where this run can be compared with it."""
        return None if self.differences else self.curve


def collect(run_dir: Path) -> Evidence:
    """Reads a run; what is wrong with its data is part of the evidence.

    Raises:
        BertError: Not a run of this version.
    """
    run = RunDirectory(run_dir)
    plan = PretrainingPlan.from_dict(run.read_config())
    found: dict[str, Any] = {}
    try:
        shards = TokenShards.open(plan.data_dir)
        if shards.meta.sha256 != plan.data_sha256:
            raise BertError(f"{plan.data_dir} holds other data by now.")
        found["num_tokens"] = shards.meta.num_tokens
        found["num_documents"] = shards.meta.num_documents
        found["entropy"] = unigram_entropy(shards)
    except (BertError, OSError) as error:
        found["data_error"] = getattr(error, "message", str(error))
    return Evidence(
        plan,
        run.read_log("metrics.jsonl"),
        run.read_log("evaluations.jsonl"),
        curve=choose_curve(plan, load_curves()),
        **found,
    )


def column(lines: Iterable[Line], name: str) -> Values:
    """Returns the numbers of one name, without lines that lack it."""
    values = (line.get(name) for line in lines)
    return np.array([x for x in values if x is not None], np.float64)


def smooth(values: Values, width: int) -> Values:
    """Returns the means of all windows of so many neighbours."""
    width = max(min(width, len(values)), 1)
    return np.convolve(values, np.full(width, 1 / width), mode="valid")


def noise(values: Values) -> float:
    """Returns how far single values lie from their trend, one sigma."""
    # 相邻之差去掉趋势；中位数不怕少数尖峰
    if len(values) < 2:
        return 0.0
    sigma = np.median(np.abs(np.diff(values))) / NORMAL_QUARTILE
    return float(sigma / math.sqrt(2))
