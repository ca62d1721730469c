"""Random numbers by place instead of by turn.

Each number is a hash of where it is used: no state to save, the same value in
any order, on any number of processes. That is what makes resuming exact.
"""

import numpy as np
from numpy.typing import NDArray

_U64 = np.uint64
_GOLDEN = _U64(0x9E3779B97F4A7C15)


def hash_places(*keys: int | NDArray[np.integer]) -> NDArray[np.uint64]:
    """Mixes integers, each a scalar or an array, into 64 random bits.

    Args:
        *keys: What the number depends on, such as seed, epoch, document;
            arrays broadcast against each other.
    """
    with np.errstate(over="ignore"):
        mixed: NDArray[np.uint64] = np.zeros(1, dtype=np.uint64)
        for key in keys:
            number = np.asarray(key).astype(np.uint64)
            # SplitMix64 的终混函数：逐个吸收键值，相邻的键也互不相关
            mixed = _finish((mixed ^ number) * _GOLDEN + _GOLDEN)
        return mixed


def uniform(*keys: int | NDArray[np.integer]) -> NDArray[np.float64]:
    """Returns numbers in [0, 1) that depend on the keys alone."""
    top = hash_places(*keys) >> _U64(11)
    return top.astype(np.float64) * 2.0**-53


def below(
    limits: NDArray[np.int64], *keys: int | NDArray[np.integer]
) -> NDArray[np.int64]:
    """Returns integers from 0 to `limits` - 1 that depend on the keys."""
    return (uniform(*keys) * limits).astype(np.int64)


def permutation(size: int, *keys: int) -> NDArray[np.int64]:
    """Returns the numbers below `size` in an order that the keys decide."""
    order = np.argsort(hash_places(*keys, np.arange(size)), kind="stable")
    return order.astype(np.int64)


def _finish(x: NDArray[np.uint64]) -> NDArray[np.uint64]:
    x = (x ^ (x >> _U64(30))) * _U64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> _U64(27))) * _U64(0x94D049BB133111EB)
    return x ^ (x >> _U64(31))
