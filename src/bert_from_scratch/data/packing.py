"""Filling rows of a fixed number of tokens with whole sequences."""

from collections import deque

import numpy as np
from numpy.typing import NDArray

IntArray = NDArray[np.int64]

WINDOW = 2048


def pack_rows(lengths: IntArray, row_tokens: int) -> list[IntArray]:
    """Packs sequences into rows, nearly in their order and nearly full.

    A row takes the next sequences as they come; where the next one is too
    long for what is left, the longest that fits is taken from the window ahead.

    Args:
        lengths: Of every sequence, none over `row_tokens`.
        row_tokens: Tokens a row can hold.

    Returns:
        For each row, the numbers of its sequences.
    """
    window = _Window(lengths.tolist())
    rows: list[IntArray] = []
    while window:
        row: list[int] = []
        room = row_tokens
        while (index := window.take(room)) is not None:
            row.append(index)
            room -= window.lengths[index]
        rows.append(np.array(row, dtype=np.int64))
    return rows


class _Window:
    """The next sequences in line, findable by turn and by length."""

    def __init__(self, lengths: list[int]) -> None:
        self.lengths = lengths
        self._next = 0
        self._line: deque[int] = deque()
        self._taken = bytearray(len(lengths))
        self._by_length: dict[int, deque[int]] = {}
        # 位集合：第 n 位表示有长度为 n 的序列，求“不超过 room 的最长”只需位运算
        self._present = 0
        self._fill()

    def __bool__(self) -> bool:
        return bool(self._line)

    def take(self, room: int) -> int | None:
        """Takes the next sequence, or the longest that fits; None: none."""
        if not self._line:
            return None
        index = self._line[0]
        if self.lengths[index] > room:
            fitting = self._present & ((1 << (room + 1)) - 1)
            if not fitting:
                return None
            index = self._first_of(fitting.bit_length() - 1)
        self._remove(index)
        self._fill()
        return index

    def _first_of(self, length: int) -> int:
        return self._by_length[length][0]

    def _remove(self, index: int) -> None:
        self._taken[index] = 1
        while self._line and self._taken[self._line[0]]:
            self._line.popleft()
        length = self.lengths[index]
        same = self._by_length[length]
        while same and self._taken[same[0]]:
            same.popleft()
        if not same:
            self._present &= ~(1 << length)

    def _fill(self) -> None:
        while len(self._line) < WINDOW and self._next < len(self.lengths):
            index = self._next
            self._next += 1
            self._line.append(index)
            length = self.lengths[index]
            self._by_length.setdefault(length, deque()).append(index)
            self._present |= 1 << length
