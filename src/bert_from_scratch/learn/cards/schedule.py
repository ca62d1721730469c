"""When to ask again: Leitner's boxes, as pure functions.

Every card and every question lies in a box. Each box waits longer than the
one before it: the first not at all, the last one a month. What was known moves
one box up, what was not falls back to the first: what is hard comes often,
what is easy seldom. An answer before its day counts in the score, but moves
nothing up, or a card could be learned by heart in one evening and then be
gone for a month.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import date, timedelta
from hashlib import blake2b

# 各盒的等待天数：答错回到第一盒，当天就会再来
WAITING_DAYS = (0, 1, 3, 7, 14, 30)
NUM_BOXES = len(WAITING_DAYS)


@dataclass(frozen=True)
class Memory:
    """What is known of one card or question.

    Attributes:
        box: 1 to NUM_BOXES.
        due: The day from which on it is asked again.
        num_right: How often it was known.
        num_wrong: How often it was not.
    """

    box: int
    due: date
    num_right: int = 0
    num_wrong: int = 0


def review(memory: Memory | None, is_right: bool, today: date) -> Memory:
    """Returns what is known after one more answer.

    Args:
        memory: What was known before; None: it was never asked.
        is_right: Whether it was known.
        today: The day of the answer.
    """
    before = memory or Memory(1, today)
    if not is_right:
        return Memory(1, today, before.num_right, before.num_wrong + 1)
    num_right = before.num_right + 1
    if before.due > today:
        # 未到期就复习：记分但不升盒，间隔才反映真正记住了多久
        return replace(before, num_right=num_right)
    box = min(before.box + 1, NUM_BOXES)
    due = today + timedelta(days=WAITING_DAYS[box - 1])
    return Memory(box, due, num_right, before.num_wrong)


def is_due(memory: Memory | None, today: date) -> bool:
    """Whether something should be asked: new, or its day has come."""
    return memory is None or memory.due <= today


def order_by_need(
    ids: Iterable[str],
    memories: Mapping[str, Memory],
    today: date,
    seed: int | None = None,
) -> list[str]:
    """Sorts by need: due ones, then new ones, then what can wait.

    Due ones come by box, so what was wrong comes first; within a box, and
    among those that can wait, the earliest day comes first.

    Args:
        ids: What could be asked.
        memories: What is known of each; what is missing is new.
        today: The day.
        seed: Shuffles what is equally needed; None: as in `ids`.
    """

    def need(name: str) -> tuple[int, int, date, int]:
        tie = 0 if seed is None else draw(seed, name)
        memory = memories.get(name)
        if memory is None:
            return 1, 0, today, tie
        if memory.due <= today:
            return 0, memory.box, memory.due, tie
        return 2, 0, memory.due, tie

    return sorted(ids, key=need)


def draw(seed: int, name: str) -> int:
    """Draws 64 bits: the same for the same seed and name, everywhere."""
    # 用散列代替随机数发生器：次序只取决于种子和名字，与先后调用无关
    digest = blake2b(f"{seed} {name}".encode(), digest_size=8).digest()
    return int.from_bytes(digest)
