"""A check: a claim about a model, and the measurements that decide it."""

import math
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Any, Literal, Self, TypeAlias

from bert_from_scratch.analysis.verify.subject import Subject
from bert_from_scratch.objectives.pretraining import BertForPreTraining

Language = Literal["en", "zh"]
Verdict = Literal["pass", "fail", "not applicable"]
Relation = Literal["<=", ">", ">=", "="]
Value: TypeAlias = bool | int | float | str | dict[str, Any]


@dataclass(frozen=True)
class Said:
    """The same words in English and in Chinese."""

    en: str
    zh: str

    @classmethod
    def same(cls, words: str) -> Self:
        """Returns words that are the same in both, such as a module's name."""
        return cls(words, words)

    def in_language(self, language: Language) -> str:
        """Returns the words in one language."""
        return self.zh if language == "zh" else self.en


@dataclass(frozen=True)
class Measurement:
    """A measured value and what it must be.

    Attributes:
        name: What was measured.
        value: What came out.
        relation: How it must stand to `bound`.
        bound: The tolerance, or the value expected.
    """

    name: Said
    value: Value
    relation: Relation
    bound: Value

    @property
    def holds(self) -> bool:
        """Whether the value is as it must be; NaN never is."""
        if self.relation == "=":
            return self.value == self.bound
        assert isinstance(self.value, int | float)
        assert isinstance(self.bound, int | float)
        # NaN 与任何数比较都为假：算坏了的值不会被当作通过
        if self.relation == "<=":
            return self.value <= self.bound
        if self.relation == ">=":
            return self.value >= self.bound
        return self.value > self.bound

    def to_dict(self) -> dict[str, Any]:
        """Returns it as plain values for JSON."""
        return {
            "name": asdict(self.name),
            "value": _plain(self.value),
            "relation": self.relation,
            "bound": _plain(self.bound),
            "holds": self.holds,
        }


def at_most(name: Said, value: float, bound: float) -> Measurement:
    """Measures something that must not exceed a tolerance."""
    return Measurement(name, value, "<=", bound)


def at_least(name: Said, value: float, bound: float) -> Measurement:
    """Measures something that must reach a bound."""
    return Measurement(name, value, ">=", bound)


def more_than(name: Said, value: float, bound: float) -> Measurement:
    """Measures something that must be there."""
    return Measurement(name, value, ">", bound)


def equal(name: Said, value: Value, expected: Value) -> Measurement:
    """Measures something that must be exactly as expected."""
    return Measurement(name, value, "=", expected)


class NotApplicable(Exception):  # noqa: N818, it is an outcome, no error
    """Raised by a check that has nothing to measure in this model.

    Attributes:
        reason: Why not.
    """

    def __init__(self, reason: Said) -> None:
        super().__init__(reason.en)
        self.reason = reason


def masked_lm(subject: Subject) -> BertForPreTraining:
    """Returns the subject with its MLM head.

    Raises:
        NotApplicable: It has none.
    """
    if subject.pretraining is None:
        raise NotApplicable(
            Said("The model has no MLM head.", "这个模型没有 MLM 头。")
        )
    return subject.pretraining


@dataclass(frozen=True)
class Check:
    """One thing that must be true of every BERT.

    Attributes:
        identifier: Its name for machines.
        title: Its name for people.
        claim: What must be true.
        formula: The same as a formula.
        measure: Yields the measurements; raises `NotApplicable` where the
            model lacks what the claim is about.
    """

    identifier: str
    title: Said
    claim: Said
    formula: str
    measure: Callable[[Subject], Iterator[Measurement]]


@dataclass(frozen=True)
class Outcome:
    """What came out of a check.

    Attributes:
        check: The check.
        verdict: Passed, failed, or not applicable.
        measurements: All that was measured, in order.
        reason: Why it is not applicable, or what went wrong; None where the
            measurements say it all.
        seconds: How long it took.
    """

    check: Check
    verdict: Verdict
    measurements: tuple[Measurement, ...]
    reason: Said | None
    seconds: float

    def to_dict(self) -> dict[str, Any]:
        """Returns it as plain values for JSON."""
        check, reason = self.check, self.reason
        return {
            "identifier": check.identifier,
            "verdict": self.verdict,
            "title": asdict(check.title),
            "claim": asdict(check.claim),
            "formula": check.formula,
            "reason": reason and asdict(reason),
            "measurements": [m.to_dict() for m in self.measurements],
            "seconds": round(self.seconds, 3),
        }


def _plain(value: Value) -> Value:
    """Returns what JSON can hold: NaN and infinity become words."""
    is_strange = isinstance(value, float) and not math.isfinite(value)
    return str(value) if is_strange else value
