"""Stopping in good order when somebody asks for it."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from bert_from_scratch.errors import BertError


class Interrupted(BertError):  # noqa: N818
    """The run was asked to stop; it was saved and can be resumed."""


@contextmanager
def catch_signals() -> Iterator[threading.Event]:
    """Turns SIGINT and SIGTERM into a wish to stop after the step."""
    stop = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return
    signals = (signal.SIGINT, signal.SIGTERM)
    before = [signal.signal(s, lambda *_: stop.set()) for s in signals]
    try:
        yield stop
    finally:
        for number, handler in zip(signals, before, strict=True):
            signal.signal(number, handler)
