"""What every benchmark writes: numbers with all that made them."""

import json
import os
import platform
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

WIDTH = 200
ENDED = 143


def run(main: Callable[[], object]) -> None:
    """Runs a script; what a user did wrong ends it without a traceback."""
    from bert_from_scratch.errors import BertError

    # 被叫停时照常收尾：自己开的进程也要结束
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(ENDED))
    try:
        main()
    except BertError as error:
        hint = f"\nhint: {error.hint}" if error.hint else ""
        sys.exit(f"error: {error.message}{hint}")


def data_dir() -> Path:
    """Returns the folder of real data, or stops and says what to set."""
    default = Path(__file__).parents[2] / "shared" / "data"
    folder = Path(os.environ.get("BERT_DATA", default))
    if not folder.is_dir():
        sys.exit(f"error: no data in {folder}\nhint: set BERT_DATA")
    return folder


def describe_run(seed: int | None = None) -> dict[str, Any]:
    """Returns command, commit, hardware, versions and seed."""
    packages = ("torch", "tokenizers", "transformers", "numpy")
    return {
        "command": shlex.join([Path(sys.executable).name, *sys.argv]),
        "commit": _commit(),
        "device": _device(),
        "processor": _processor(),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "packages": {name: version(name) for name in packages},
        "seed": seed,
    }


def save(path: Path, run: dict[str, Any], rows: list[dict[str, Any]]) -> None:
    """Writes the JSON file."""
    from bert_from_scratch import atomic

    text = json.dumps({"run": run, "rows": rows}, indent=2)
    atomic.write_text(path, text + "\n")


def write(path: Path, run: dict[str, Any], rows: list[dict[str, Any]]) -> None:
    """Writes the JSON file and prints the rows as a table."""
    save(path, run, rows)
    if not rows:
        print(f"nothing was measured; written to {path}")
        return
    # 成组的明细只写进文件，表里放不下
    shown = [name for name, value in rows[0].items() if _fits(value)]
    table = Table(*shown)
    for row in rows:
        table.add_row(*(_show(row[name]) for name in shown))
    # 不在终端里时默认只有八十列，长表会折得读不出来
    console = Console(width=None if sys.stdout.isatty() else WIDTH)
    console.print(table)
    console.print(f"written to {path}", highlight=False)


def read(path: Path, columns: set[str]) -> dict[str, Any]:
    """Reads a JSON file of `save` whose rows have some columns.

    Raises:
        BertError: It is another file.
    """
    from bert_from_scratch.errors import BertError

    try:
        found: dict[str, Any] = json.loads(path.read_text())
        missing = [columns - row.keys() for row in found["rows"]]
        known = found["run"]
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise BertError(
            f"{path} is no result of this script: {error}",
            hint="give files that it has written by --out",
        ) from None
    if any(missing) or not isinstance(known, dict):
        raise BertError(
            f"{path} is the result of another script.",
            hint="give files that this one has written by --out",
        )
    return found


def _fits(value: Any) -> bool:
    return not isinstance(value, list | dict)


def _show(value: Any) -> str:
    if value is None:
        return "-"
    if not isinstance(value, float):
        return str(value)
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def _commit() -> str:
    try:
        done = subprocess.run(
            ["git", "describe", "--always", "--dirty"],
            capture_output=True,
            text=True,
            cwd=Path(__file__).parent,
            check=False,
        )
    except OSError:
        # 租来的机器上可能没有 git：为一个名字丢掉整次测量不值得
        return "unknown"
    return done.stdout.strip() or "unknown"


def _device() -> str:
    # 用不到 PyTorch 的测量不为这一行去导入它
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_available():
        return str(torch.cuda.get_device_name())
    return "cpu"


def _processor() -> str:
    path = Path("/proc/cpuinfo")
    if path.exists():
        for line in path.read_text().split("\n"):
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor()
