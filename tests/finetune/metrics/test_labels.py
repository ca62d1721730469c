"""Scores of labels: worked out by hand, by counting, and by the libraries."""

from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import rankdata
from sklearn.metrics import accuracy_score, f1_score

from bert_from_scratch.finetune.metrics.labels import (
    classification_scores,
    confusion_matrix,
    correlation_scores,
    multi_label_scores,
)


def label_cases(number: int) -> Iterator[tuple[list[int], list[int], int]]:
    generator = np.random.default_rng(7)
    for case in range(number):
        num_labels = int(generator.integers(2, 6))
        size = int(generator.integers(1, 40))
        # 每四例有一例只用部分类别，另有一例预测为常数
        used = 1 if case % 4 == 0 else num_labels
        gold = generator.integers(0, used, size)
        predicted = generator.integers(0, num_labels, size)
        if case % 4 == 1:
            predicted[:] = num_labels - 1
        yield gold.tolist(), predicted.tolist(), num_labels


def f1_by_counting(
    gold: Sequence[int], predicted: Sequence[int], label: int
) -> float:
    pairs = list(zip(gold, predicted, strict=True))
    right = pairs.count((label, label))
    claimed = gold.count(label) + predicted.count(label)
    return 2 * right / claimed if claimed else 0.0


def matthews_by_correlation(gold: list[int], predicted: list[int]) -> float:
    """The covariance of one-hot rows over the product of their spreads."""
    rows = [np.eye(6)[np.array(side)] for side in (gold, predicted)]
    x, y = (side - side.mean(axis=0) for side in rows)
    spread = float((x**2).sum() * (y**2).sum()) ** 0.5
    return float((x * y).sum()) / spread if spread > 1e-9 else 0.0


def test_binary_scores_are_those_worked_out_by_hand() -> None:
    # 混淆矩阵：3 个真负、1 个假正、2 个假负、4 个真正
    gold = [0] * 4 + [1] * 6
    predicted = [0, 0, 0, 1, 0, 0, 1, 1, 1, 1]
    scores = classification_scores(gold, predicted, 2)
    assert scores == pytest.approx(
        {
            "accuracy": 0.7,
            "f1": 8 / 11,
            "f1_macro": (8 / 11 + 6 / 9) / 2,
            "f1_micro": 0.7,
            "matthews": (4 * 3 - 1 * 2) / (5 * 6 * 4 * 5) ** 0.5,
        }
    )
    assert confusion_matrix(gold, predicted, 2).tolist() == [[3, 1], [2, 4]]


def test_classification_scores_equal_plain_counting() -> None:
    for gold, predicted, num_labels in label_cases(120):
        scores = classification_scores(gold, predicted, num_labels)
        by_class = [
            f1_by_counting(gold, predicted, label)
            for label in sorted({*gold, *predicted})
        ]
        right = sum(g == p for g, p in zip(gold, predicted, strict=True))
        expected = {
            "accuracy": right / len(gold),
            "f1_macro": sum(by_class) / len(by_class),
            "f1_micro": right / len(gold),
            "matthews": matthews_by_correlation(gold, predicted),
        }
        if num_labels == 2:
            expected["f1"] = f1_by_counting(gold, predicted, 1)
        assert scores == pytest.approx(expected, abs=1e-12)


def test_classification_scores_equal_scikit_learns() -> None:
    for gold, predicted, num_labels in label_cases(24):
        scores = classification_scores(gold, predicted, num_labels)
        for average in ("macro", "micro"):
            assert scores[f"f1_{average}"] == pytest.approx(
                f1_score(gold, predicted, average=average)
            )
        assert scores["accuracy"] == accuracy_score(gold, predicted)


def test_confusion_matrix_counts_every_pair() -> None:
    for gold, predicted, num_labels in label_cases(1000):
        counts = confusion_matrix(gold, predicted, num_labels)
        assert counts.dtype == np.int64
        assert counts.shape == (num_labels, num_labels)
        pairs = Counter(zip(gold, predicted, strict=True))
        assert {k: n for k, n in np.ndenumerate(counts) if n} == pairs


def test_one_class_alone_scores_without_a_warning() -> None:
    zeros, ones = [0, 0, 0], [1, 1, 1]
    scores = classification_scores(zeros, zeros, 2)
    assert scores["accuracy"] == scores["f1_macro"] == 1.0
    assert scores["f1"] == scores["matthews"] == 0.0
    assert classification_scores(ones, ones, 2)["f1"] == 1.0
    assert classification_scores(zeros, ones, 2)["f1_micro"] == 0.0


@pytest.mark.parametrize(
    ("gold", "predicted", "message"),
    [
        ([0, 1], [0], "2 and 1"),
        ([], [], "0 and 0"),
        ([0, 2], [0, 1], "gold has classes from 0 to 2"),
        ([0, 1], [0, -1], "predicted has classes from -1 to 0"),
    ],
)
def test_impossible_labels_are_refused(
    gold: list[int], predicted: list[int], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        classification_scores(gold, predicted, 2)


def test_multi_label_scores_are_those_worked_out_by_hand() -> None:
    gold = np.array([[1, 0, 0], [1, 1, 0], [0, 0, 0], [1, 0, 0]], bool)
    predicted = np.array([[1, 0, 0], [1, 0, 0], [0, 1, 0], [1, 0, 0]], bool)
    assert multi_label_scores(gold, predicted) == pytest.approx(
        {"accuracy": 2 / 4, "f1_micro": 6 / 8, "f1_macro": (1 + 0 + 0) / 3}
    )


def test_multi_label_scores_equal_counting_and_scikit_learn() -> None:
    generator = np.random.default_rng(11)
    for case in range(40):
        shape = generator.integers(1, 20), 1 + case % 5
        density = (0.0, 0.2, 0.5, 1.0)[case % 4]
        gold: NDArray[np.bool_] = generator.random(shape) < density
        predicted: NDArray[np.bool_] = generator.random(shape) < 0.5
        scores = multi_label_scores(gold, predicted)
        flat = f1_by_counting(
            gold.ravel().tolist(), predicted.ravel().tolist(), 1
        )
        columns = [
            f1_by_counting(g.tolist(), p.tolist(), 1)
            for g, p in zip(gold.T, predicted.T, strict=True)
        ]
        rows = zip(gold.tolist(), predicted.tolist(), strict=True)
        assert scores == pytest.approx(
            {
                "accuracy": sum(g == p for g, p in rows) / len(gold),
                "f1_micro": flat,
                "f1_macro": sum(columns) / len(columns),
            }
        )
        if gold.shape[1] > 1:
            assert scores["f1_macro"] == pytest.approx(
                f1_score(gold, predicted, average="macro", zero_division=0.0)
            )


def test_multi_label_shapes_must_agree() -> None:
    with pytest.raises(ValueError, match=r"\(2, 3\) and \(2, 2\)"):
        multi_label_scores(np.zeros((2, 3), bool), np.zeros((2, 2), bool))


def pearson_by_sums(x: NDArray[np.float64], y: NDArray[np.float64]) -> float:
    x, y = x - x.mean(), y - y.mean()
    return float((x * y).sum() / ((x**2).sum() * (y**2).sum()) ** 0.5)


def ranks_by_comparing(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """A rank is what is below, and half of what is equal, itself too."""
    below = (values[None] < values[:, None]).sum(axis=1)
    equal = (values[None] == values[:, None]).sum(axis=1)
    return below + (equal + 1) / 2


def test_correlations_are_those_worked_out_by_hand() -> None:
    # 秩：1, 2.5, 2.5, 4 对 1, 2, 3, 4
    scores = correlation_scores([1, 2, 2, 10], [1.0, 2.0, 3.0, 4.0])
    assert scores["spearman"] == pytest.approx(4.5 / (4.5 * 5) ** 0.5)
    assert scores["pearson"] == pytest.approx(13.5 / (52.75 * 5) ** 0.5)
    assert scores["mse"] == pytest.approx((0 + 0 + 1 + 36) / 4)
    assert scores["mae"] == pytest.approx(7 / 4)
    assert correlation_scores([1, 2, 3], [9, 4, 1])["spearman"] == -1


def test_correlations_equal_plain_sums_with_and_without_ties() -> None:
    generator = np.random.default_rng(3)
    num_checked = 0
    for case in range(200):
        size = int(generator.integers(2, 30))
        x, y = generator.normal(size=(2, size))
        if case % 2:
            x, y = np.round(x), np.round(2 * y) / 2
        if not np.ptp(x) or not np.ptp(y):
            continue
        num_checked += 1
        scores = correlation_scores(x.tolist(), y.tolist())
        ranks = ranks_by_comparing(x), ranks_by_comparing(y)
        np.testing.assert_array_equal(ranks[0], rankdata(x))
        assert scores["pearson"] == pytest.approx(pearson_by_sums(x, y))
        assert scores["spearman"] == pytest.approx(
            pearson_by_sums(*ranks), abs=1e-12
        )
    assert num_checked > 150


@pytest.mark.parametrize(
    ("gold", "predicted"),
    [([1, 2, 3], [2.5] * 3), ([4.0, 4.0], [1, 2]), ([1.0], [1.0])],
)
def test_constant_numbers_correlate_with_nothing(
    gold: list[float], predicted: list[float]
) -> None:
    scores = correlation_scores(gold, predicted)
    assert scores["pearson"] == scores["spearman"] == 0.0


def test_nearly_constant_numbers_give_a_score_and_no_warning() -> None:
    predicted = [1e9, 1e9 + 1e-6, 1e9 + 2e-6]
    assert np.isfinite(correlation_scores([1, 2, 3], predicted)["pearson"])
