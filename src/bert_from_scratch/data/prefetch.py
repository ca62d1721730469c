"""Preparing the next steps while the device works on this one."""

import queue
import threading
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from typing import TypeVar

Item = TypeVar("Item")


@dataclass(frozen=True)
class _End:
    """The iterator is exhausted, or failed."""

    error: BaseException | None = None


def prefetch(items: Iterator[Item], depth: int = 2) -> Generator[Item]:
    """Runs an iterator in a thread, a few items ahead.

    An error in the thread is raised here, in its place.
    """
    ready: queue.Queue[Item | _End] = queue.Queue(depth)
    is_over = threading.Event()

    def offer(item: Item | _End) -> None:
        while not is_over.is_set():
            try:
                ready.put(item, timeout=0.1)
                return
            except queue.Full:
                continue

    def work() -> None:
        try:
            for item in items:
                offer(item)
                if is_over.is_set():
                    return
            offer(_End())
        except BaseException as error:
            offer(_End(error))

    thread = threading.Thread(target=work, daemon=True, name="prefetch")
    thread.start()
    try:
        while not isinstance(item := ready.get(), _End):
            yield item
        if item.error is not None:
            raise item.error
    finally:
        # 训练提前结束时让线程也停下，不再占用数据文件
        is_over.set()
        thread.join()
