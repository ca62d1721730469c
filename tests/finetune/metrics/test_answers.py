"""Answers: SQuAD's and CMRC's rules, restated and compared."""

import difflib
import random
import string
from collections.abc import Sequence

import pytest

from bert_from_scratch.finetune.metrics.answers import (
    apply_null_threshold,
    best_null_threshold,
    cmrc_scores,
    squad_scores,
)
from bert_from_scratch.finetune.metrics.segments import (
    cut_chinese,
    remove_punctuation,
)

WORDS = [
    *("the", "The", "a", "an", "A.", "apple", "Apple,", "pie", "pie", "Ärger"),
    *("", "  ", "...", "!?", "it's", "Panama", "theory", "12", "红果", "“x”"),
    *("a\u00a0b", "É", "an_d"),
]


def bag(text: str) -> list[str]:
    """The words that count, in order: a second way to normalise."""
    kept = "".join(c for c in text.lower() if c not in string.punctuation)
    # 冠词须独立成词：前后都不是字母、数字或下划线
    letters = [c if c.isalnum() or c == "_" else " " for c in kept]
    bounds = "".join(letters)
    words, start = [], 0
    for end in range(len(kept) + 1):
        if end == len(kept) or bounds[end] == " ":
            if bounds[start:end] not in ("a", "an", "the"):
                words.append(kept[start:end])
            else:
                words.append(" ")
            words.append(kept[end : end + 1])
            start = end + 1
    return "".join(words).split()


def reference_squad(texts: Sequence[str], chosen: str) -> tuple[float, float]:
    """Scores one question: best exact match and best F1."""
    bags = [bag(text) for text in texts if bag(text)] or [[]]
    mine = bag(chosen)
    f1 = []
    for theirs in bags:
        left = list(theirs)
        for word in mine:
            if word in left:
                left.remove(word)
        shared = len(theirs) - len(left)
        size = len(theirs) + len(mine)
        f1.append(2 * shared / size if size else 1.0)
    return float(mine in bags), max(f1)


def random_answer(generator: random.Random) -> str:
    size = generator.choice([0, 1, 1, 2, 3, 4, 6])
    return " ".join(generator.choices(WORDS, k=size))


def random_questions(
    generator: random.Random, number: int
) -> tuple[dict[str, list[str]], dict[str, str]]:
    gold, predicted = {}, {}
    for question in range(number):
        texts = [
            random_answer(generator) for _ in range(generator.randint(0, 3))
        ]
        chosen = random_answer(generator)
        if texts and generator.random() < 0.3:
            chosen = generator.choice(texts).upper()
        gold[f"q{question}"], predicted[f"q{question}"] = texts, chosen
    return gold, predicted


@pytest.mark.parametrize(
    ("texts", "chosen", "exact_match", "f1"),
    [
        (["The Red Apple!"], "red apple", 1, 1),
        (["red apple"], "a green apple", 0, 0.5),
        (["apple apple pie"], "apple pie pie", 0, 4 / 6),
        (["pear", "red apple pie"], "apple pie", 0, 0.8),
        (["theory"], "ory", 0, 0),
        (["pizza"], "pizz", 0, 0),
        (["it's"], "its", 1, 1),
        (["x"], "", 0, 0),
        ([], "", 1, 1),
        ([], "the.", 1, 1),
        ([], "pear", 0, 0),
        (["the", "..."], "an", 1, 1),
        (["the", "pear"], "", 0, 0),
    ],
)
def test_squad_scores_are_those_worked_out_by_hand(
    texts: list[str], chosen: str, exact_match: float, f1: float
) -> None:
    assert squad_scores({"q": texts}, {"q": chosen}) == pytest.approx(
        {"exact_match": exact_match, "f1": f1}
    )


def test_squad_scores_equal_a_second_statement_of_the_rules() -> None:
    gold, predicted = random_questions(random.Random(1), 5000)
    num_right = 0
    for key, texts in gold.items():
        exact_match, f1 = reference_squad(texts, predicted[key])
        scores = squad_scores({key: texts}, {key: predicted[key]})
        expected = {"exact_match": exact_match, "f1": f1}
        assert scores == pytest.approx(expected), (texts, predicted[key])
        num_right += exact_match == 1
    assert 1000 < num_right < 4000


def test_scores_of_both_kinds_of_questions_add_up() -> None:
    gold = {"a": ["red apple"], "b": [], "c": [], "d": ["pie"]}
    predicted = {"a": "apple", "b": "", "c": "pie", "d": "pie"}
    scores = squad_scores(gold, predicted)
    assert scores == pytest.approx(
        {
            "exact_match": 2 / 4,
            "f1": (2 / 3 + 1 + 0 + 1) / 4,
            "has_answer_exact_match": 1 / 2,
            "has_answer_f1": (2 / 3 + 1) / 2,
            "no_answer_exact_match": 1 / 2,
            "no_answer_f1": 1 / 2,
        }
    )
    assert squad_scores(gold, {**predicted, "other": "x"}) == scores


def test_a_question_without_a_prediction_is_refused() -> None:
    with pytest.raises(ValueError, match=r"1 of 2 questions .* 'b'"):
        squad_scores({"a": ["x"], "b": ["y"]}, {"a": "x"})
    with pytest.raises(ValueError, match="no questions"):
        squad_scores({}, {})


@pytest.mark.parametrize(
    ("texts", "chosen", "exact_match", "f1"),
    [
        (["红苹果"], "《红苹果》。", 1, 1),
        (["红苹果树"], "青苹果树", 0, 3 / 4),
        (["红苹果"], "果苹红", 0, 1 / 3),
        (["红果", "青苹果"], "苹果", 0, 0.8),
        (["大Apple树"], "apple", 0, 0.5),
        (["红 果"], "红果", 0, 1),
        (["红"], "", 0, 0),
        (["，"], "。", 1, 0),
        ([], "", 1, 1),
        ([], "红", 0, 0),
    ],
)
def test_cmrc_scores_are_those_worked_out_by_hand(
    texts: list[str], chosen: str, exact_match: float, f1: float
) -> None:
    assert cmrc_scores({"q": texts}, {"q": chosen}) == pytest.approx(
        {"exact_match": exact_match, "f1": f1}
    )


def test_cmrc_scores_equal_a_second_statement_of_the_rules() -> None:
    generator = random.Random(8)
    pieces = [*"红果青苹树树，。《》", "ab", "12", " ", "cd ", '"', "3.5", "%"]
    for _ in range(3000):
        texts = [
            "".join(generator.choices(pieces, k=generator.randint(1, 8)))
            for _ in range(generator.randint(1, 3))
        ]
        chosen = "".join(generator.choices(pieces, k=generator.randint(0, 8)))
        f1 = []
        for text in texts:
            ours, theirs = cut_chinese(chosen), cut_chinese(text)
            matcher = difflib.SequenceMatcher(None, ours, theirs, False)
            size = len(ours) + len(theirs)
            shared = matcher.find_longest_match().size
            f1.append(2 * shared / size if shared else 0.0)
        bare = {remove_punctuation(text) for text in texts}
        expected = {
            "exact_match": float(remove_punctuation(chosen) in bare),
            "f1": max(f1),
        }
        scores = cmrc_scores({"q": texts}, {"q": chosen})
        assert scores == pytest.approx(expected), (texts, chosen)


def test_the_best_threshold_is_the_one_worked_out_by_hand() -> None:
    gold = {"a": ["red apple"], "b": [], "c": ["pie"], "d": []}
    predicted = {"a": "apple", "b": "x", "c": "pie", "d": "y"}
    differences = {"a": -3.0, "b": 1.0, "c": -1.5, "d": 4.0}
    # 得分依次为 2、2+2/3、3+2/3、2+2/3、1+2/3，最高处在 c
    best = best_null_threshold(gold, predicted, differences)
    # 阈值取在 c 与 b 的正中：差一丝舍入也不会翻转
    assert best == pytest.approx((-0.25, (3 + 2 / 3) / 4, 3 / 4))
    kept = apply_null_threshold(predicted, differences, best.threshold)
    assert kept == {"a": "apple", "b": "", "c": "pie", "d": ""}


def test_where_never_answering_is_best_nothing_is_answered() -> None:
    gold: dict[str, list[str]] = {"a": [], "b": ["pie"]}
    predicted, differences = {"a": "x", "b": "y"}, {"a": -2.0, "b": -4.0}
    best = best_null_threshold(gold, predicted, differences)
    assert best == (-4.5, 0.5, 0.5)


def test_the_best_threshold_beats_every_other() -> None:
    generator = random.Random(6)
    for _ in range(100):
        gold = {
            f"q{number}": generator.choice([[], ["red apple"], ["pie", "tea"]])
            for number in range(12)
        }
        predicted = {
            key: generator.choice(["green apple", "pie", "x"]) for key in gold
        }
        # 差值互不相同且为正，F1 只有 0、1/2、1：没有并列，求和也没有误差
        numbers = generator.sample(range(1, 1000), 12)
        differences = dict(zip(gold, map(float, numbers), strict=True))
        best = best_null_threshold(gold, predicted, differences)
        every = [min(numbers) - 1.0, *sorted(differences.values())]
        scores = []
        for threshold in every:
            kept = apply_null_threshold(predicted, differences, threshold)
            parts = [reference_squad(gold[key], kept[key]) for key in gold]
            scores.append(sum(f1 for _, f1 in parts) / len(parts))
        assert best.f1 == pytest.approx(max(scores))


def test_odd_answers_and_ties_are_weighed_like_all_others() -> None:
    generator = random.Random(12)
    for _ in range(300):
        gold, predicted = random_questions(generator, 10)
        differences = {key: generator.randint(-4, 4) / 2 for key in gold}
        best = best_null_threshold(gold, predicted, differences)
        every = [min(differences.values()) - 1, *differences.values()]
        scores = [
            squad_scores(
                gold, apply_null_threshold(predicted, differences, threshold)
            )["f1"]
            for threshold in every
        ]
        assert best.f1 == pytest.approx(max(scores))
        kept = apply_null_threshold(predicted, differences, best.threshold)
        found = squad_scores(gold, kept)
        assert best[1:] == (found["f1"], found["exact_match"])


def test_questions_of_one_difference_are_answered_together() -> None:
    gold: dict[str, list[str]] = {"a": ["pie"], "b": [], "c": ["tea"]}
    predicted = {"a": "pie", "b": "x", "c": "no"}
    differences = {"a": 5.0, "b": 5.0, "c": 1.0}
    # 作答 a 得一分，却同时答错 b：不如全都不答
    best = best_null_threshold(gold, predicted, differences)
    assert best == pytest.approx((0.5, 1 / 3, 1 / 3))


def test_chinese_answers_are_weighed_by_characters() -> None:
    gold = {"a": ["这部电影"], "b": ["那座大山"], "c": []}
    predicted = {"a": "部电影", "b": "座大山", "c": "书"}
    differences = {"a": -3.0, "b": -2.0, "c": 2.0}
    assert best_null_threshold(gold, predicted, differences).threshold < -3
    best = best_null_threshold(gold, predicted, differences, as_cmrc=True)
    assert best.threshold == 0
    assert best.f1 > 0.85
    exact = best_null_threshold(
        gold, predicted, differences, as_cmrc=True, by="exact_match"
    )
    assert exact.threshold < -3
