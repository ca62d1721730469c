"""N-best lists: those of a plain double loop, and always out of the text."""

import math
import random
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from bert_from_scratch import WordPieceTokenizer
from bert_from_scratch.data.tasks.examples import QuestionExample
from bert_from_scratch.finetune.spans import NBest, find_best_spans
from bert_from_scratch.finetune.windows import Window, make_windows

SPECIALS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
WORDS = ["who", "?", "ann", "bob", "met", "in", "rome", "##s", ",", "cafe"]
TOKENIZER = WordPieceTokenizer(
    [*SPECIALS, *WORDS, "安", "娜", "去", "罗", "马"]
)

Output = NDArray[np.float32]


def windows_of(context: str, max_length: int = 384) -> list[Window]:
    example = QuestionExample("q", "who?", context)
    return make_windows(TOKENIZER, [example], max_length, 3, max_question=4)


def random_outputs(
    windows: list[Window], seed: int, digits: int = 9
) -> list[Output]:
    generator = np.random.default_rng(seed)
    return [
        generator.normal(0, 3, (len(w.input_ids), 2))
        .round(digits)
        .astype(np.float32)
        for w in windows
    ]


def brute_force(
    context: str,
    windows: list[Window],
    outputs: list[Output],
    n_best: int,
    max_answer: int,
) -> list[tuple[float, str, int, int]]:
    """All spans by two loops, sorted; each text where it is best."""
    spans = []
    for window, output in zip(windows, outputs, strict=True):
        for first in range(len(window.offsets)):
            for last in range(first, len(window.offsets)):
                if not window.is_max_context[first]:
                    continue
                if last - first + 1 > max_answer:
                    continue
                start_score = float(output[window.first + first, 0])
                end_score = float(output[window.first + last, 1])
                start = int(window.offsets[first, 0])
                end = int(window.offsets[last, 1])
                score = start_score + end_score
                spans.append((score, context[start:end], start, end))
    spans.sort(key=lambda span: -span[0])
    best: dict[str, tuple[float, str, int, int]] = {}
    for span in spans:
        best.setdefault(span[1], span)
    return list(best.values())[:n_best]


def test_n_best_is_that_of_a_double_loop() -> None:
    generator = random.Random(0)
    for seed in range(400):
        words = generator.choices(
            ["Ann", "bobs", "met", "in", " Rome", ",", "罗马", "😀"],
            k=generator.randint(1, 30),
        )
        context = " ".join(words)
        windows = windows_of(context, generator.choice([8, 10, 14, 384]))
        outputs = random_outputs(windows, seed, generator.choice([0, 9]))
        n_best = generator.choice([1, 3, 20])
        max_answer = generator.choice([1, 2, 5, 30])
        found = find_best_spans(context, windows, outputs, n_best, max_answer)
        told = [(c.score, c.text, c.start, c.end) for c in found.spans]
        assert told == brute_force(
            context, windows, outputs, n_best, max_answer
        )
        null = min(float(o[0].astype(np.float64).sum()) for o in outputs)
        assert found.null_score == pytest.approx(null)
        assert found.null_difference == pytest.approx(null - told[0][0])


def test_the_answer_is_worked_out_by_hand_over_two_windows() -> None:
    context = "Ann met Bob in Rome"
    windows = windows_of(context, 8)
    assert [len(w.offsets) for w in windows] == [3, 2]
    outputs = [np.zeros((8, 2), np.float32), np.zeros((7, 2), np.float32)]
    outputs[0][0] = (1, 2)
    outputs[1][0] = (0.5, 0.25)
    # 问题里的词分数再高也不是答案
    outputs[0][1] = (99, 99)
    outputs[1][5, 0], outputs[1][5, 1] = 4, 3
    outputs[0][6, 0], outputs[0][4, 1] = 5, 6
    found = find_best_spans(context, windows, outputs, n_best=3)
    best = [(c.text, c.score) for c in found.spans]
    assert best == [("Rome", 7.0), ("Ann", 6.0), ("Bob", 5.0)]
    assert found.null_score == 0.75
    assert found.null_difference == 0.75 - 7


def test_an_answer_ends_after_it_starts() -> None:
    windows = windows_of("Ann met Bob")
    outputs = random_outputs(windows, 0)
    outputs[0][:] = 0
    outputs[0][windows[0].first + 2, 0] = 50
    outputs[0][windows[0].first, 1] = 50
    spans = find_best_spans("Ann met Bob", windows, outputs).spans
    assert all(s.start < s.end for s in spans)
    assert spans[0].score == 50


def test_probabilities_are_a_softmax_over_the_candidates() -> None:
    windows = windows_of("Ann met Bob")
    outputs = random_outputs(windows, 3)
    found = find_best_spans("Ann met Bob", windows, outputs)
    for has_null in (False, True):
        candidates = found.candidates(has_null)
        assert len(candidates) == len(found.spans) + has_null
        powers = [math.exp(c.score) for c in candidates]
        expected = [power / sum(powers) for power in powers]
        assert [c.probability for c in candidates] == pytest.approx(expected)
        assert expected == sorted(expected, reverse=True)
        assert ("" in {c.text for c in candidates}) == has_null


def test_equal_scores_give_every_text_once_and_always_the_same_ones() -> None:
    context = "bob " * 40
    windows = windows_of(context)
    outputs = [np.zeros((len(w.input_ids), 2), np.float32) for w in windows]
    spans = find_best_spans(context, windows, outputs, 20, 30).spans
    assert [s.text for s in spans] == [
        " ".join(["bob"] * n) for n in range(1, 21)
    ]
    assert {s.start for s in spans} == {0}


def test_duplicates_do_not_crowd_out_other_answers() -> None:
    context = "bob " * 200 + "ann"
    windows = windows_of(context)
    outputs = [np.ones((len(w.input_ids), 2), np.float32) for w in windows]
    outputs[0][windows[0].first + 200] = -9
    spans = find_best_spans(context, windows, outputs, 3, 1).spans
    assert [s.text for s in spans] == ["bob", "ann"]


def test_without_any_span_the_answer_is_none_and_has_a_score() -> None:
    found = NBest((), null_score=2.5, null_difference=2.5)
    for has_null in (False, True):
        (only,) = found.candidates(has_null)
        assert (only.text, only.score, only.probability) == ("", 2.5, 1.0)


def test_scores_that_are_no_numbers_give_no_spans() -> None:
    windows = windows_of("Ann met Bob")
    nothing = np.full((len(windows[0].input_ids), 2), -np.inf, np.float32)
    nothing[0] = 1
    found = find_best_spans("Ann met Bob", windows, [nothing])
    assert found.spans == ()
    assert found.null_difference == 2
    nothing[1:] = np.nan
    assert find_best_spans("Ann met Bob", windows, [nothing]).spans == ()


def test_a_token_without_characters_is_no_answer() -> None:
    (window,) = windows_of("Ann met Bob")
    offsets = np.array([[0, 0], [4, 7], [8, 11]], np.int32)
    output = np.ones((len(window.input_ids), 2), np.float32)
    bare = replace(window, offsets=offsets)
    spans = find_best_spans("Ann met Bob", [bare], [output], 20, 1).spans
    assert [s.text for s in spans] == ["met", "Bob"]


def test_a_context_of_unknown_words_has_answers_too() -> None:
    context = "Xylo ☃ qwerty"
    windows = windows_of(context)
    outputs = random_outputs(windows, 1)
    texts = {s.text for s in find_best_spans(context, windows, outputs).spans}
    assert texts == {
        *("Xylo", "Xylo ☃", "Xylo ☃ qwerty", "☃", "☃ qwerty", "qwerty")
    }


def test_an_accent_stays_with_its_letter() -> None:
    context = "Ann, Cafe\u0301 in Rome"
    windows = windows_of(context)
    outputs = random_outputs(windows, 0)
    outputs[0][:] = 0
    outputs[0][windows[0].first + 2] = 9
    best = find_best_spans(context, windows, outputs).spans[0]
    assert best.text == "Cafe\u0301"


def test_chinese_answers_have_no_spaces() -> None:
    context = "安娜去罗马。"
    windows = windows_of(context)
    outputs = random_outputs(windows, 0)
    outputs[0][:] = 0
    outputs[0][windows[0].first + 3, 0] = 9
    outputs[0][windows[0].first + 4, 1] = 9
    best = find_best_spans(context, windows, outputs).spans[0]
    assert (best.text, best.start, best.end) == ("罗马", 3, 5)


NASTY = st.text(
    st.one_of(
        st.characters(codec="utf-8"),
        st.sampled_from("ab ,\n\t\u0301\u0327\u200d\u00a0😀👩🏽安ﬁİß\u2028"),
    ),
    min_size=1,
    max_size=60,
)


@settings(max_examples=200, deadline=None)
@given(NASTY, st.integers(0, 1000))
def test_answers_are_exact_substrings_of_any_text(text: str, seed: int) -> None:
    context = text + " Ann"
    windows = windows_of(context, 12)
    outputs = random_outputs(windows, seed)
    spans = find_best_spans(context, windows, outputs).spans
    assert 1 <= len(spans) <= 20
    for span in spans:
        assert span.text == context[span.start : span.end] != ""
    assert len({span.text for span in spans}) == len(spans)


def test_an_answer_cannot_be_longer_than_its_window() -> None:
    context = "ann met bob in rome"
    windows = windows_of(context)
    outputs = random_outputs(windows, 0)
    whole = find_best_spans(context, windows, outputs, 30, 5)
    # 不封顶的话，这张表要几百吉字节
    assert find_best_spans(context, windows, outputs, 30, 10**11) == whole
