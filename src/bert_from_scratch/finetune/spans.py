"""Scores of all windows of a question to its best answers.

Letters: N context tokens of a window, L tokens of the longest answer.
"""

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from bert_from_scratch.finetune.task import Output
from bert_from_scratch.finetune.windows import Window

Scores = NDArray[np.float64]


class Candidate(NamedTuple):
    """One possible answer.

    Attributes:
        text: Exactly `context[start:end]`; "" says that there is no answer.
        start: Its first character in the context.
        end: One past its last character.
        score: Start score plus end score.
        probability: Its share among the candidates of its question.
    """

    text: str
    start: int
    end: int
    score: float
    probability: float = 1.0


@dataclass(frozen=True)
class NBest:
    """The best answers to one question.

    Attributes:
        spans: Answers out of the context, best first, no text twice; empty
            where the model gives no number to any.
        null_score: Score of "no answer", where that is least sure.
        null_difference: `null_score` less the score of the best span, or
            less 0 where there is none.
    """

    spans: tuple[Candidate, ...]
    null_score: float
    null_difference: float

    def candidates(self, has_null: bool) -> tuple[Candidate, ...]:
        """Returns all candidates with their probabilities, best first.

        Args:
            has_null: Whether "no answer" is one of them. It always is where
                there is no span.
        """
        null = Candidate("", 0, 0, self.null_score)
        found = [*self.spans]
        if has_null or not found:
            # 稳定排序：同分时原文里的答案在前
            found = sorted([*found, null], key=lambda c: -c.score)
        powers = np.exp([c.score - found[0].score for c in found])
        chances = (powers / powers.sum()).tolist()
        return tuple(
            candidate._replace(probability=chance)
            for candidate, chance in zip(found, chances, strict=True)
        )


def find_best_spans(
    context: str,
    windows: Sequence[Window],
    outputs: Sequence[Output],
    n_best: int = 20,
    max_answer: int = 30,
) -> NBest:
    """Finds the spans with the highest sums of start and end score.

    A span lies inside the context and starts at a token that no other window
    shows better. All such spans are compared, not only those of the best
    starts and ends.

    Args:
        context: Of the question, as written.
        windows: All windows of the question.
        outputs: Start and end scores of every window, float32 [S, 2].
        n_best: How many spans to return, at most.
        max_answer: Longest answer in tokens.
    """
    # 比窗口还长的答案不存在：照数填一张表只会用光内存
    longest = max(len(window.offsets) for window in windows)
    max_answer = max(min(max_answer, longest), 1)
    tables = [
        _score_spans(window, output, max_answer)
        for window, output in zip(windows, outputs, strict=True)
    ]
    scores = np.concatenate([table.ravel() for table in tables])
    offsets = np.concatenate([window.offsets for window in windows])
    spans = _take_distinct(context, offsets, scores, n_best, max_answer)
    null_score = min(float(o[0, 0]) + float(o[0, 1]) for o in outputs)
    best = spans[0].score if spans else 0.0
    return NBest(spans, null_score, null_score - best)


def _score_spans(window: Window, output: Output, max_answer: int) -> Scores:
    """Scores all spans of a window by start and width, [N, L]."""
    num_tokens = len(window.offsets)
    last = window.first + num_tokens
    starts, ends = output[window.first : last].astype(np.float64).T
    # 终点按宽度错开成一张表，整张相加；越过窗口尾部的宽度补负无穷
    padding = np.full(max_answer - 1, -np.inf)
    shifted = sliding_window_view(np.concatenate([ends, padding]), max_answer)
    starts = np.where(window.is_max_context, starts, -np.inf)
    return starts[:, None] + shifted


def _take_distinct(
    context: str,
    offsets: NDArray[np.int32],
    scores: Scores,
    n_best: int,
    max_answer: int,
) -> tuple[Candidate, ...]:
    """Returns the best spans, each text once.

    Args:
        context: Of the question.
        offsets: Of the context tokens of all windows, end to end.
        scores: Of all spans, by start and width, flat.
        n_best: How many to return, at most.
        max_answer: Number of widths.
    """
    num_wanted = 2 * n_best
    while True:
        places = _best_places(scores, num_wanted)
        first, width = np.divmod(places, max_answer)
        starts, ends = offsets[first, 0], offsets[first + width, 1]
        found: dict[str, Candidate] = {}
        for start, end, score in zip(
            starts.tolist(), ends.tolist(), scores[places].tolist(), strict=True
        ):
            past = _past_accents(context, end)
            text = context[start:past]
            if text and text not in found:
                found[text] = Candidate(text, start, past, score)
            if len(found) == n_best:
                break
        if len(found) == n_best or num_wanted >= len(scores):
            return tuple(found.values())
        # 去重后不够：放宽再取，直到看过所有片段
        num_wanted *= 8


def _past_accents(context: str, end: int) -> int:
    """Moves the end of an answer past accents that belong to its letter."""
    # 分词时组合音符被去掉，不在任何词的范围里；原文的答案却应带着它
    while end < len(context) and unicodedata.category(context[end]) == "Mn":
        end += 1
    return end


def _best_places(scores: Scores, num_wanted: int) -> NDArray[np.int64]:
    """Returns the places of the highest finite scores, best first."""
    threshold = -np.inf
    if num_wanted < len(scores):
        place = len(scores) - num_wanted
        threshold = np.partition(scores, place)[place]
    places = np.flatnonzero(np.isfinite(scores) & (scores >= threshold))
    # 稳定排序：同分时靠前、较短的在先，结果不随机器变化
    order = np.argsort(-scores[places], kind="stable")
    return places[order[:num_wanted]]
