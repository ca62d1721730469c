"""Has this line been seen before? Exact, at eight bytes a line."""

import hashlib

import numpy as np
from numpy.typing import NDArray

MERGE_AT = 1 << 19


class SeenLines:
    """The hashes of all lines so far."""

    def __init__(self) -> None:
        self._old: NDArray[np.uint64] = np.empty(0, dtype=np.uint64)
        self._new: set[int] = set()

    def add(self, line: str) -> bool:
        """Remembers a line; returns whether it was known already."""
        digest = hashlib.blake2b(line.encode(), digest_size=8).digest()
        key = int.from_bytes(digest, "little")
        if key in self._new or self._is_old(key):
            return True
        self._new.add(key)
        if len(self._new) >= MERGE_AT:
            # 攒满一批就并入有序数组：集合每项约六十字节，数组只要八字节
            recent = np.fromiter(self._new, np.uint64, len(self._new))
            self._old = np.union1d(self._old, recent)
            self._new.clear()
        return False

    def _is_old(self, key: int) -> bool:
        place = np.searchsorted(self._old, np.uint64(key))
        return bool(place < len(self._old) and self._old[place] == key)
