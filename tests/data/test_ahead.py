"""Finding the next result in the background."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from bert_from_scratch.data.ahead import REST_SECONDS, Ahead, Rest


class Counter:
    """Finds squares; notes who does it, in which thread."""

    def __init__(self, seconds: float = 0.0) -> None:
        self.seconds = seconds
        self.found: list[tuple[int, str]] = []

    def __call__(self, number: int, rest: Rest) -> int:
        self.found.append((number, threading.current_thread().name))
        end = time.monotonic() + self.seconds
        while time.monotonic() < end:
            time.sleep(0.001)
            rest()
        return number**2


def test_a_result_is_found_once_and_remembered() -> None:
    find = Counter()
    results = Ahead(find)
    assert [results(3), results(3), results(4)] == [9, 9, 16]
    assert [number for number, _ in find.found] == [3, 4]
    assert {thread for _, thread in find.found} == {"MainThread"}


def test_what_was_begun_is_found_in_another_thread() -> None:
    find = Counter()
    results = Ahead(find)
    results.begin(5)
    results.begin(5)
    assert results(5) == 25
    assert find.found == [(5, "plan")]


def test_only_the_newest_are_kept() -> None:
    find = Counter()
    results = Ahead(find, num_kept=2)
    for number in (1, 2, 1, 3, 1, 2):
        results(number)
    assert [number for number, _ in find.found] == [1, 2, 3, 2]


def test_several_who_ask_at_once_get_one_result() -> None:
    find = Counter(seconds=0.05)
    results = Ahead(find)
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(results, [7] * 4)) == [49] * 4
    assert len(find.found) == 1


@pytest.mark.parametrize("is_begun", [False, True])
def test_an_error_reaches_whoever_asks_and_the_next_one_tries_again(
    is_begun: bool,
) -> None:
    tries = []

    def fail_once(number: int, rest: Rest) -> int:
        tries.append(number)
        if len(tries) == 1:
            time.sleep(0.01)
            raise OSError("the disk is gone")
        return number

    results = Ahead(fail_once)
    if is_begun:
        results.begin(1)
    with pytest.raises(OSError, match="the disk is gone"):
        results(1)
    assert results(1) == 1


def test_the_background_rests_until_somebody_waits() -> None:
    rests: list[float] = []
    is_done = threading.Event()

    def work(number: int, rest: Rest) -> int:
        for _ in range(40):
            time.sleep(0.003)
            begun = time.monotonic()
            rest()
            rests.append(time.monotonic() - begun)
        is_done.set()
        return number

    results = Ahead(work)
    results.begin(0)
    while len(rests) < 4:
        time.sleep(0.001)
    # 没有人等时，每干一小段就歇一会儿
    assert min(rests[:4]) >= 0.9 * REST_SECONDS
    results(0)
    assert is_done.is_set()
    # 有人等了，就一口气干完
    assert max(rests[-20:]) < REST_SECONDS
