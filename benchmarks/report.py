"""What every benchmark writes: numbers with all that made them."""

import json
import os
import platform
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table


def data_dir() -> Path:
    """Returns the folder of real data, or stops and says what to set."""
    default = Path(__file__).parents[2] / "shared" / "data"
    folder = Path(os.environ.get("BERT_DATA", default))
    if not folder.is_dir():
        sys.exit(f"error: no data in {folder}\nhint: set BERT_DATA")
    return folder


def describe_run(seed: int | None = None) -> dict[str, Any]:
    """Returns command, commit, hardware, versions and seed."""
    commit = subprocess.run(
        ["git", "describe", "--always", "--dirty"],
        capture_output=True,
        text=True,
        cwd=Path(__file__).parent,
        check=False,
    ).stdout.strip()
    packages = ("torch", "tokenizers", "transformers", "numpy")
    return {
        "command": " ".join([Path(sys.executable).name, *sys.argv]),
        "commit": commit or "unknown",
        "processor": _processor(),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "packages": {name: version(name) for name in packages},
        "seed": seed,
    }


def write(path: Path, run: dict[str, Any], rows: list[dict[str, Any]]) -> None:
    """Writes the JSON file and prints the rows as a table."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"run": run, "rows": rows}, indent=2) + "\n")
    # 成组的明细只写进文件，表里放不下
    shown = [name for name, value in rows[0].items() if _fits(value)]
    table = Table(*shown)
    for row in rows:
        table.add_row(*(_show(row[name]) for name in shown))
    console = Console()
    console.print(table)
    console.print(f"written to {path}", highlight=False)


def _fits(value: Any) -> bool:
    return not isinstance(value, list | dict)


def _show(value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def _processor() -> str:
    path = Path("/proc/cpuinfo")
    if path.exists():
        for line in path.read_text().split("\n"):
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor()
