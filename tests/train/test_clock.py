"""The clock of a budget starts with the process."""

import subprocess
import sys
import time
from pathlib import Path

import pytest

from bert_from_scratch.train import clock


def test_it_is_when_the_process_began() -> None:
    code = (
        "import time; time.sleep(1); "
        "from bert_from_scratch.train.clock import process_start; "
        "print(time.monotonic() - process_start())"
    )
    begin = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    taken = time.monotonic() - begin
    if Path("/proc/self/stat").exists():
        assert 1 <= float(done.stdout) <= taken + 0.1


def test_without_a_word_from_the_system_it_is_the_import(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(clock, "_STAT_PATH", tmp_path / "no such file")
    assert clock.process_start() == clock._imported
    (tmp_path / "stat").write_text("1 (odd) name) R 2")
    monkeypatch.setattr(clock, "_STAT_PATH", tmp_path / "stat")
    assert clock.process_start() == clock._imported
