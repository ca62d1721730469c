"""Scores of answers in words: SQuAD v1.1, v2.0 and CMRC 2018."""

import re
import string
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import groupby
from typing import Literal, NamedTuple

from bert_from_scratch.finetune.metrics.segments import (
    cut_chinese,
    remove_punctuation,
)

GoldAnswers = Mapping[str, Sequence[str]]
Scorer = Callable[[str, str], float]

_ARTICLES = re.compile(r"\b(?:the|an|a)\b")
_PUNCTUATION = str.maketrans("", "", string.punctuation)


class NullThreshold(NamedTuple):
    """Where to give no answer.

    Attributes:
        threshold: No answer where the null score is more than this above
            the best answer's.
        f1: The score with it.
        exact_match: The score with it.
    """

    threshold: float
    f1: float
    exact_match: float


def squad_scores(
    gold: GoldAnswers, predicted: Mapping[str, str]
) -> dict[str, float]:
    """Scores answers by the words they share with the nearest gold answer.

    These are the rules of v2.0's script. They give what v1.1's gives for
    every predicted answer that has a word besides articles.

    Args:
        gold: The accepted answers by question; none: it has no answer, and
            "" is right.
        predicted: The answer to every question; "" for none.

    Returns:
        `exact_match` and `f1`; where questions of both kinds occur, also
        `has_answer_exact_match`, `has_answer_f1`, `no_answer_exact_match`
        and `no_answer_f1`.
    """
    answers = {key: _with_words(texts) for key, texts in gold.items()}
    exact_matches = _best(answers, predicted, _exact_match)
    return _average(gold, exact_matches, _best(answers, predicted, _f1))


def cmrc_scores(
    gold: GoldAnswers, predicted: Mapping[str, str]
) -> dict[str, float]:
    """Scores Chinese answers by the longest string they share with gold.

    The official script counts characters, and words where the text is not
    Chinese; punctuation does not count. It knows no questions without
    answers; here "" is right for them.

    Args:
        gold: The accepted answers by question.
        predicted: The answer to every question.

    Returns:
        As `squad_scores` does.
    """
    exact_matches = _best(gold, predicted, _cmrc_exact_match)
    return _average(gold, exact_matches, _best(gold, predicted, _cmrc_f1))


def best_null_threshold(
    gold: GoldAnswers,
    predicted: Mapping[str, str],
    null_differences: Mapping[str, float],
    *,
    by: Literal["f1", "exact_match"] = "f1",
    as_cmrc: bool = False,
) -> NullThreshold:
    """Finds the threshold with the best score, the lowest of several.

    It differs from v2.0's script in two cases, where the script's choice
    does not give the score that it reports: questions of one difference are
    answered together, and where it is best never to answer, the threshold
    lies below all differences.

    Args:
        gold: The accepted answers by question, as in `squad_scores`.
        predicted: The best answer that is not null, for every question.
        null_differences: Null score less the score of that answer.
        by: The score that decides.
        as_cmrc: Whether answers are judged as `cmrc_scores` does.
    """
    answers: GoldAnswers = gold
    if not as_cmrc:
        answers = {key: _with_words(texts) for key, texts in gold.items()}
    scorer = _SCORERS[by, as_cmrc]
    gains = _best(answers, predicted, scorer)
    null_gains = _best(answers, dict.fromkeys(gold, ""), scorer)
    # 起点：全部不答，无答案的问题全对；再按差值从小到大逐个改为作答
    score = best_score = sum(null_gains.values())
    threshold = min(null_differences.values()) - 1
    order = sorted(null_differences, key=null_differences.__getitem__)
    # 差值相同的问题只能一起改：阈值分不开它们
    for difference, keys in groupby(order, null_differences.__getitem__):
        for key in keys:
            score += gains[key] - null_gains[key]
        # 浮点求和有误差：好过一丝的不算更好
        if score > best_score + 1e-9:
            best_score, threshold = score, difference
    threshold = _step_back(threshold, null_differences.values())
    judge = cmrc_scores if as_cmrc else squad_scores
    scores = judge(
        gold, apply_null_threshold(predicted, null_differences, threshold)
    )
    return NullThreshold(threshold, scores["f1"], scores["exact_match"])


def _step_back(threshold: float, differences: Iterable[float]) -> float:
    """Moves a threshold half way to the next difference above it."""
    # 正好压在某题的差值上，换一种批次、差一丝舍入就会翻转
    above = [d for d in differences if d > threshold]
    return (threshold + min(above)) / 2 if above else threshold + 1


def apply_null_threshold(
    predicted: Mapping[str, str],
    null_differences: Mapping[str, float],
    threshold: float,
) -> dict[str, str]:
    """Empties the answers whose null difference is above the threshold."""
    return {
        key: "" if null_differences[key] > threshold else text
        for key, text in predicted.items()
    }


def _normalise(text: str) -> str:
    # 次序与官方一致：先去标点再去冠词，因此 "a." 也算冠词
    bare = text.lower().translate(_PUNCTUATION)
    return " ".join(_ARTICLES.sub(" ", bare).split())


def _with_words(texts: Sequence[str]) -> Sequence[str]:
    """Leaves out answers of articles and punctuation alone."""
    return [text for text in texts if _normalise(text)]


def _exact_match(right: str, chosen: str) -> float:
    return float(_normalise(right) == _normalise(chosen))


def _f1(right: str, chosen: str) -> float:
    right_words = _normalise(right).split()
    chosen_words = _normalise(chosen).split()
    # 任一方没有词就无从谈重合：只有都为空才算对
    if not right_words or not chosen_words:
        return float(right_words == chosen_words)
    common = Counter(right_words) & Counter(chosen_words)
    return _harmonic(common.total(), len(right_words), len(chosen_words))


def _cmrc_exact_match(right: str, chosen: str) -> float:
    return float(remove_punctuation(right) == remove_punctuation(chosen))


def _cmrc_f1(right: str, chosen: str) -> float:
    if not right:
        return float(not chosen)
    right_parts, chosen_parts = cut_chinese(right), cut_chinese(chosen)
    common = _longest_common_run(right_parts, chosen_parts)
    return _harmonic(common, len(right_parts), len(chosen_parts))


def _longest_common_run(first: list[str], second: list[str]) -> int:
    """Returns the length of the longest run of parts that both contain."""
    longest = 0
    # ends[j]：以 first 当前元素与 second[j-1] 结尾的公共连续段有多长
    ends = [0] * (len(second) + 1)
    for part in first:
        ends = [0] + [
            ends[j] + 1 if part == other else 0
            for j, other in enumerate(second)
        ]
        longest = max(longest, *ends)
    return longest


def _harmonic(common: int, num_right: int, num_chosen: int) -> float:
    if not common:
        return 0.0
    precision, recall = common / num_chosen, common / num_right
    return 2 * precision * recall / (precision + recall)


def _best(
    gold: GoldAnswers, predicted: Mapping[str, str], scorer: Scorer
) -> dict[str, float]:
    """Scores every question by the gold answer that suits it best."""
    if missing := gold.keys() - predicted.keys():
        raise ValueError(
            f"{len(missing)} of {len(gold)} questions have no prediction, "
            f"such as {min(missing)!r}; give '' for no answer"
        )
    # 没有标准答案时，唯一正确的回答是空串
    return {
        key: max(scorer(text, predicted[key]) for text in texts or [""])
        for key, texts in gold.items()
    }


def _average(
    gold: GoldAnswers,
    exact_matches: Mapping[str, float],
    f1: Mapping[str, float],
) -> dict[str, float]:
    """Averages over all questions, and over each kind where there are two."""
    if not gold:
        raise ValueError("there are no questions to score")
    groups = {"": list(gold)}
    answered = [key for key, texts in gold.items() if texts]
    if 0 < len(answered) < len(gold):
        groups["has_answer_"] = answered
        groups["no_answer_"] = [key for key, texts in gold.items() if not texts]
    scores = {}
    for prefix, keys in groups.items():
        for name, values in (("exact_match", exact_matches), ("f1", f1)):
            total = sum(values[key] for key in keys)
            scores[prefix + name] = total / len(keys)
    return scores


_SCORERS: dict[tuple[str, bool], Scorer] = {
    ("f1", False): _f1,
    ("exact_match", False): _exact_match,
    ("f1", True): _cmrc_f1,
    ("exact_match", True): _cmrc_exact_match,
}
