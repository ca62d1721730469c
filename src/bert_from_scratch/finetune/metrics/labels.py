"""Scores of classes, of several classes at once, and of numbers."""

import warnings
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray


def classification_scores(
    gold: Sequence[int], predicted: Sequence[int], num_labels: int
) -> dict[str, float]:
    """Scores one class an example, as GLUE and scikit-learn do.

    Args:
        gold: The right classes, from 0.
        predicted: The chosen ones, in the same order.
        num_labels: How many classes there are.

    Returns:
        `accuracy`; `f1` of class 1, only where there are two classes;
        `f1_macro` over the classes that occur, gold or predicted;
        `f1_micro`; `matthews`, 0 where gold or predicted is constant.
    """
    from sklearn.metrics import f1_score, matthews_corrcoef

    counts = confusion_matrix(gold, predicted, num_labels)
    f1 = f1_score(
        gold,
        predicted,
        labels=list(range(num_labels)),
        average=None,
        zero_division=0.0,
    )
    # 两边都没出现的类别不进宏平均，与 scikit-learn 的默认一致
    occurs = (counts.sum(axis=0) + counts.sum(axis=1)) > 0
    accuracy = float(counts.trace() / counts.sum())
    scores = {"accuracy": accuracy}
    if num_labels == 2:
        scores["f1"] = float(f1[1])
    scores["f1_macro"] = float(f1[occurs].mean())
    # 单标签分类里，每个错例恰是一个假正加一个假负，微平均即准确率
    scores["f1_micro"] = accuracy
    # 总共只有一个类别时 scikit-learn 会告警；按惯例记 0
    is_constant = len({*gold, *predicted}) == 1
    scores["matthews"] = (
        0.0 if is_constant else float(matthews_corrcoef(gold, predicted))
    )
    return scores


def multi_label_scores(
    gold: NDArray[np.bool_], predicted: NDArray[np.bool_]
) -> dict[str, float]:
    """Scores any number of classes an example.

    Args:
        gold: Which classes hold, bool [N, C].
        predicted: Which were chosen, bool [N, C].

    Returns:
        `accuracy`: how often the whole row is right; `f1_micro` over all
        decisions; `f1_macro` over the classes, 0 for one that never occurs.
    """
    from sklearn.metrics import f1_score

    gold, predicted = np.asarray(gold, bool), np.asarray(predicted, bool)
    if gold.shape != predicted.shape or gold.ndim != 2 or not gold.size:
        raise ValueError(
            f"gold and predicted must be [N, C] and not empty, not "
            f"{gold.shape} and {predicted.shape}"
        )
    scores = {"accuracy": float((gold == predicted).all(axis=1).mean())}
    for average in ("micro", "macro"):
        scores[f"f1_{average}"] = float(
            f1_score(
                _with_false_column(gold),
                _with_false_column(predicted),
                labels=list(range(gold.shape[1])),
                average=average,
                zero_division=0.0,
            )
        )
    return scores


def correlation_scores(
    gold: Sequence[float], predicted: Sequence[float]
) -> dict[str, float]:
    """Scores predicted numbers, as GLUE does for STS-B.

    Args:
        gold: The right numbers.
        predicted: The predicted ones, in the same order.

    Returns:
        `pearson`, `spearman` (ties share their mean rank), `mse`, `mae`.
        The correlations are 0 where either side is constant.
    """
    x, y = np.asarray(gold, np.float64), np.asarray(predicted, np.float64)
    _check_lengths(len(x), len(y))
    return {
        "pearson": _correlation("pearsonr", x, y),
        "spearman": _correlation("spearmanr", x, y),
        "mse": float(((x - y) ** 2).mean()),
        "mae": float(np.abs(x - y).mean()),
    }


def confusion_matrix(
    gold: Sequence[int], predicted: Sequence[int], num_labels: int
) -> NDArray[np.int64]:
    """Counts how often each class was taken for each.

    Returns:
        Counts, int64 [num_labels, num_labels]: row gold, column predicted.
    """
    _check_lengths(len(gold), len(predicted))
    rows, columns = np.asarray(gold), np.asarray(predicted)
    for name, values in (("gold", rows), ("predicted", columns)):
        if values.min() < 0 or values.max() >= num_labels:
            raise ValueError(
                f"{name} has classes from {values.min()} to {values.max()}, "
                f"but {num_labels=}"
            )
    # 把（行，列）编成一个整数再一次数完，不必逐例循环
    pairs = np.bincount(rows * num_labels + columns, minlength=num_labels**2)
    return pairs.reshape(num_labels, num_labels).astype(np.int64)


def _with_false_column(rows: NDArray[np.bool_]) -> NDArray[np.int64]:
    # 补一列不计分的全假：单列数组会被 scikit-learn 当成二分类的标签
    return np.pad(rows.astype(np.int64), ((0, 0), (0, 1)))


def _correlation(
    name: str, x: NDArray[np.float64], y: NDArray[np.float64]
) -> float:
    from scipy import stats

    # 常数序列没有相关性可言：给 0，否则 NaN 会一路传到选模型的比较里
    if not np.ptp(x) or not np.ptp(y):
        return 0.0
    with warnings.catch_warnings():
        # 近似常数时仍有确定的值；是否可信由看分数的人判断
        warnings.simplefilter("ignore", stats.NearConstantInputWarning)
        return float(getattr(stats, name)(x, y).statistic)


def _check_lengths(num_gold: int, num_predicted: int) -> None:
    if num_gold != num_predicted or num_gold == 0:
        raise ValueError(
            f"gold and predicted must be as long and not empty, not "
            f"{num_gold} and {num_predicted}"
        )
