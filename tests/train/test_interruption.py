"""One signal asks; a second Ctrl-C, some time later, does not ask."""

import os
import signal

import pytest

from bert_from_scratch.train import interruption
from bert_from_scratch.train.interruption import catch_signals


def test_a_signal_asks_to_stop_and_its_echo_does_no_harm() -> None:
    for number in (signal.SIGINT, signal.SIGTERM):
        with catch_signals() as stop:
            assert not stop.is_set()
            for _ in range(2):
                os.kill(os.getpid(), number)
            assert stop.is_set()


def test_a_second_interrupt_stops_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(interruption, "ECHO_SECONDS", -1.0)
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt), catch_signals():
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is before
