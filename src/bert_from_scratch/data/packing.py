"""Filling rows of a fixed number of tokens with whole sequences."""

from collections import defaultdict, deque

import numpy as np
from numpy.typing import NDArray

from bert_from_scratch.data.ahead import Rest, never_rest

IntArray = NDArray[np.int64]

WINDOW = 2048


def pack_rows(
    lengths: IntArray, row_tokens: int, rest: Rest = never_rest
) -> list[IntArray]:
    """Packs sequences into rows, nearly in their order and nearly full.

    A row takes the next sequences as they come; where the next one is too
    long for what is left, the longest that fits is taken from the window ahead.

    Args:
        lengths: Of every sequence, none over `row_tokens`.
        row_tokens: Tokens a row can hold.
        rest: Called every now and then, for other threads' sake.

    Returns:
        For each row, the numbers of its sequences.
    """
    sizes = lengths.tolist()
    window = _Window(sizes)
    is_taken = window.is_taken
    rows: list[IntArray] = []
    head = 0
    while head < len(sizes):
        row: list[int] = []
        room = row_tokens
        # 绝大多数序列按次序取：这一圈要快，一条只做几步
        while head < len(sizes):
            if is_taken[head]:
                head += 1
            elif sizes[head] <= room:
                row.append(head)
                room -= sizes[head]
                head += 1
            elif (index := window.take(head, room)) is not None:
                row.append(index)
                room -= sizes[index]
            else:
                break
        rows.append(np.array(row, dtype=np.int64))
        rest()
    return rows


class _Window:
    """The sequences ahead, findable by length."""

    def __init__(self, sizes: list[int]) -> None:
        self.is_taken = bytearray(len(sizes))
        self._sizes = sizes
        self._end = 0
        self._by_length: defaultdict[int, deque[int]] = defaultdict(deque)
        # 位集合：第 n 位表示有长度为 n 的序列，求“不超过 room 的最长”只需位运算
        self._present = 0

    def take(self, head: int, room: int) -> int | None:
        """Takes the longest sequence after `head` that fits; None: none."""
        self._extend(head)
        while fitting := self._present & ((1 << (room + 1)) - 1):
            length = fitting.bit_length() - 1
            same = self._by_length[length]
            while same and (self.is_taken[same[0]] or same[0] < head):
                same.popleft()
            if same:
                self.is_taken[same[0]] = 1
                return same.popleft()
            self._present &= ~(1 << length)
        return None

    def _extend(self, head: int) -> None:
        """Looks at more sequences, up to a window's width ahead."""
        end = min(head + WINDOW, len(self._sizes))
        for index in range(max(self._end, head), end):
            self._by_length[self._sizes[index]].append(index)
            self._present |= 1 << self._sizes[index]
        self._end = max(self._end, end)
