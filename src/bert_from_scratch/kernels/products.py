"""Products of half-precision matrices, by the fastest algorithm there is.

PyTorch leaves it to cuBLAS how to multiply. cuBLASLt, the library below, offers
several algorithms; on an H200 the best take up to a sixth less time. A product
that comes again and again is therefore tried with each of them, once. Only
those count whose result is PyTorch's, bit for bit: choosing by the clock then
changes no number, and a run that is gone on with comes out as if it had never
been stopped. What decides PyTorch's bits (`torch.backends.cuda.matmul`) must
stay as it is while a process runs.

Letters: M rows and N columns of the result, K what is summed over.
"""

import logging
import statistics
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from bert_from_scratch.kernels import usable
from bert_from_scratch.kernels.cublaslt import ALIGNMENT, Algorithm, Product

logger = logging.getLogger(__name__)

# 更小的乘法，挑算法省下的时间还不够 Python 多走的几步
MIN_SIZE = 1 << 35
# 试一遍约等于做一百次这样的乘法：来过这么多次的才值得
SIGHTINGS = 100
MOST_ALGORITHMS = 16
ROUNDS = 3
LAUNCHES = 2
# 差得比这还少，多半是计时的误差
NOTICEABLE = 0.98

# 描述一种乘积的形状，与替它挑好的算法
Choice = tuple[Product, Algorithm]


@dataclass
class _Shape:
    """A shape of products: how often it came, and what was chosen for it."""

    sightings: int = 0
    is_tried: bool = False
    choice: Choice | None = None


_shapes: dict[Hashable, _Shape] = {}


def multiply(a: Tensor, b: Tensor, bias: Tensor | None = None) -> Tensor:
    """Computes a @ b, plus a bias.

    Args:
        a: [M, K].
        b: [K, N].
        bias: [N], or None.

    Returns:
        [M, N].
    """
    choice = _choose(a, b, bias)
    if choice is None:
        return _multiply(a, b, bias)
    out = a.new_empty((len(a), b.shape[1]))
    product, algorithm = choice
    product.run(algorithm, a, b, bias, out)
    return out


def add_product(target: Tensor, a: Tensor, b: Tensor) -> None:
    """Adds a @ b to what is in `target`, [M, N], contiguous."""
    choice = _choose(a, b, None, target)
    if choice is None:
        target.addmm_(a, b)
        return
    product, algorithm = choice
    product.run(algorithm, a, b, None, target)


def _multiply(a: Tensor, b: Tensor, bias: Tensor | None) -> Tensor:
    """Computes the same by PyTorch."""
    return torch.mm(a, b) if bias is None else torch.addmm(bias, a, b)


def _choose(
    a: Tensor,
    b: Tensor,
    bias: Tensor | None,
    target: Tensor | None = None,
) -> Choice | None:
    """Returns what is faster than PyTorch's choice, if that is known."""
    if not _suits(a, b, bias, target):
        return None
    factors = (*a.shape, *a.stride(), *b.shape, *b.stride())
    key = (factors, bias is None, target is None, a.dtype, a.device)
    shape = _shapes.setdefault(key, _Shape())
    shape.sightings += 1
    # 录制中的图不能计时：这一张就一直用 PyTorch 的
    if (
        shape.sightings >= SIGHTINGS
        and not shape.is_tried
        and not torch.cuda.is_current_stream_capturing()
    ):
        shape.is_tried = True
        shape.choice = _try_each(a, b, bias, target)
    return shape.choice


def _suits(
    a: Tensor, b: Tensor, bias: Tensor | None, target: Tensor | None
) -> bool:
    """Whether a product is large enough, and lies as the library asks for."""
    is_large = len(a) * a.shape[1] * b.shape[1] >= MIN_SIZE
    if not is_large or not usable(a):
        return False
    parts = [part for part in (a, b, bias, target) if part is not None]
    return (
        a.device.index == torch.cuda.current_device()
        and all(1 in factor.stride() for factor in (a, b))
        and all(part.is_contiguous() for part in parts[2:])
        and all(part.dtype == a.dtype for part in parts)
        and not any(part.data_ptr() % ALIGNMENT for part in parts)
    )


def _try_each(
    a: Tensor, b: Tensor, bias: Tensor | None, target: Tensor | None
) -> Choice | None:
    """Returns the fastest algorithm; None: PyTorch's."""
    try:
        ways = list(find_equals(a, b, bias, target))
        times = measure([launch for _, launch in ways])
    except RuntimeError as error:
        # 库不在、不认得这种形状、显存不够：照旧用 PyTorch 的
        logger.debug("products of %s: %s", tuple(a.shape), error)
        return None
    fastest = min(range(len(times)), key=times.__getitem__)
    logger.debug(
        "products of %s and %s: %.3f ms instead of %.3f",
        *(tuple(a.shape), tuple(b.shape), times[fastest], times[0]),
    )
    if times[fastest] > NOTICEABLE * times[0]:
        return None
    return ways[fastest][0]


def find_equals(
    a: Tensor, b: Tensor, bias: Tensor | None, target: Tensor | None
) -> Iterator[tuple[Choice | None, Callable[[], object]]]:
    """Yields PyTorch's way, then those algorithms whose bits are the same."""
    if target is None:
        expected = _multiply(a, b, bias)
        yield None, partial(_multiply, a, b, bias)
    else:
        expected = target.addmm(a, b)
        yield None, partial(target.clone().addmm_, a, b)
    if expected.count_nonzero() < expected.numel() / 2:
        # 都是零的结果，怎么算都一样：比不出谁的位数对
        return
    out = torch.empty_like(expected)
    product = Product(a, b, bias, adds=target is not None)
    for algorithm in product.find_algorithms(MOST_ALGORITHMS):
        if target is not None:
            out.copy_(target)
        run = partial(product.run, algorithm, a, b, bias, out)
        try:
            run()
        except RuntimeError as error:
            # 库肯给的，未必都能跑
            logger.debug("an algorithm for %s: %s", tuple(a.shape), error)
            continue
        if torch.equal(out, expected):
            yield (product, algorithm), run


def measure(ways: list[Callable[[], object]]) -> list[float]:
    """Returns how long each way takes on the GPU, in milliseconds."""
    # 轮流：处理器的频率随冷热变，一个接一个地量，先来的占便宜
    rounds = [
        [time_on_gpu(way, LAUNCHES) for way in ways] for _ in range(ROUNDS)
    ]
    return [statistics.median(times) for times in zip(*rounds, strict=True)]


def time_on_gpu(
    launch: Callable[[], object], repeats: int, warm_ups: int = 1
) -> float:
    """Returns the mean time of a launch by the GPU's clock, in milliseconds."""
    for _ in range(warm_ups):
        launch()
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    for _ in range(repeats):
        launch()
    end.record()
    end.synchronize()
    return begin.elapsed_time(end) / repeats
