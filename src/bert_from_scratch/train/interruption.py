"""Stopping in good order when somebody asks for it."""

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from bert_from_scratch.errors import BertError

ECHO_SECONDS = 2.0


class Interrupted(BertError):  # noqa: N818
    """The run was asked to stop; it was saved and can be resumed."""


@contextmanager
def catch_signals() -> Iterator[threading.Event]:
    """Turns SIGINT and SIGTERM into a wish to stop after the step.

    Who presses Ctrl-C once more, some time later, does not want to wait.
    """
    stop = threading.Event()
    asked: list[float] = []

    def note(number: int, _: object) -> None:
        now = time.monotonic()
        # 启动器会把同一次 Ctrl-C 转发第二遍：隔一会儿的才算再按了一次
        if number == signal.SIGINT and asked and now > asked[0] + ECHO_SECONDS:
            raise KeyboardInterrupt
        asked.append(now)
        stop.set()

    if threading.current_thread() is not threading.main_thread():
        yield stop
        return
    signals = (signal.SIGINT, signal.SIGTERM)
    before = [signal.signal(s, note) for s in signals]
    try:
        yield stop
    finally:
        for number, handler in zip(signals, before, strict=True):
            signal.signal(number, handler)
