"""When this process began: a budget of minutes counts from there."""

import os
import time
from pathlib import Path

_imported = time.monotonic()
_STAT_PATH = Path("/proc/self/stat")
_START_FIELD = 19


def process_start() -> float:
    """Returns when this process began, by `time.monotonic`.

    Where the system does not tell, it is when this module was imported.
    """
    try:
        # 进程名可能含空格和括号：从最后一个右括号之后数起
        fields = _STAT_PATH.read_text().rpartition(")")[2].split()
        ticks = int(fields[_START_FIELD])
        began = ticks / os.sysconf("SC_CLK_TCK")
        running = time.clock_gettime(time.CLOCK_BOOTTIME) - began
    except (OSError, ValueError, IndexError, AttributeError):
        return _imported
    return time.monotonic() - running
