"""Batches by tokens instead of by number, without padding."""

from collections.abc import Iterable, Iterator, Sequence


def longest_first(lengths: Sequence[int]) -> list[int]:
    """Returns the numbers of sequences, the longest first."""
    # 等长的排在一起：CPU 上的注意力可以成组计算；先长后短：内存不够时
    # 第一批就会暴露，而不是跑到最后才失败
    return sorted(range(len(lengths)), key=lambda number: -lengths[number])


def cut_by_tokens(
    numbers: Iterable[int], lengths: Sequence[int], batch_tokens: int
) -> Iterator[list[int]]:
    """Cuts sequences into batches, in the order given.

    Args:
        numbers: Of the sequences.
        lengths: Tokens of every sequence, by its number.
        batch_tokens: Tokens of a batch at the most; a sequence that is
            longer by itself makes a batch of its own.
    """
    batch: list[int] = []
    num_tokens = 0
    for number in numbers:
        if batch and num_tokens + lengths[number] > batch_tokens:
            yield batch
            batch, num_tokens = [], 0
        batch.append(number)
        num_tokens += lengths[number]
    if batch:
        yield batch
