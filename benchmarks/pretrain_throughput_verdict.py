"""What the rows of `pretrain_throughput.py` say: ours over each of the others.

A row is a dictionary; its columns are those of `pretrain_throughput.py`.
"""

from itertools import groupby
from typing import Any

OURS = "ours"
CASE = ("preset", "length", "dropout", "pairs")


def judge(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Adds ratios to rows of several cases, and prints the verdicts."""

    def case(row: dict[str, Any]) -> str:
        return str([row[name] for name in CASE])

    rows = sorted(rows, key=case)
    for _, group in groupby(rows, key=case):
        same = list(group)
        add_ratios(same)
        print_verdict(same)
    return rows


def add_ratios(rows: list[dict[str, Any]]) -> None:
    """Adds what our fastest row without fp8 is, over each row."""
    ours = [r for r in rows if r["who"] == OURS and r["precision"] != "fp8"]
    fastest = max((row["real tokens/s"] for row in ours), default=None)
    # 步子大小相同，内存才可比
    memory = {row["rows"]: row["peak GB"] for row in ours}
    for row in rows:
        row["ours / this"] = row["memory of ours / this"] = None
        if fastest is None or row["real tokens/s"] is None:
            continue
        row["ours / this"] = fastest / row["real tokens/s"]
        if row["peak GB"] and row["rows"] in memory:
            peak = memory[row["rows"]]
            row["memory of ours / this"] = peak / row["peak GB"]


def print_row(row: dict[str, Any]) -> None:
    """Prints a row at once, in case the run is cut off."""
    shown = (
        f"{name} {value:.4g}" if isinstance(value, float) else str(value)
        for name, value in row.items()
        if value not in (None, "")
    )
    print("; ".join(shown), flush=True)


def print_verdict(rows: list[dict[str, Any]]) -> None:
    """Prints what ours is beside the fastest of each kind of peer."""
    done = [row for row in rows if row["ours / this"] is not None]
    for who in dict.fromkeys(row["who"] for row in done if row["who"] != OURS):
        best = min(
            (row for row in done if row["who"] == who),
            key=lambda row: row["ours / this"],
        )
        print(
            f"{best['preset']}:{best['length']}, dropout {best['dropout']}: "
            f"ours is {best['ours / this']:.3f} times as fast as {who} at its "
            f"best, {best['rows']} rows",
            flush=True,
        )
