"""Benchmarks that share a GPU: all get ready, then each runs alone."""

import json
import os
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
# 每家记下自己何时准备好、何时开始与结束测量
ENTRANT = """
import json, sys, time, turns
from pathlib import Path
path, seconds = Path(sys.argv[1]), float(sys.argv[2])
times = {}
def warm_up():
    times["start"] = time.monotonic()
    time.sleep(seconds)
    times["ready"] = time.monotonic()
turns.take(warm_up, compiles="eager" not in sys.argv)
times["begin"] = time.monotonic()
time.sleep(0.3)
times["end"] = time.monotonic()
path.write_text(json.dumps(times))
"""


def run_in_turns(
    commands: list[str], folder: Path, *options: str
) -> subprocess.CompletedProcess[str]:
    lines = folder / "commands.txt"
    lines.write_text("# a comment\n\n" + "\n".join(commands) + "\n")
    script = ROOT / "benchmarks" / "turns.py"
    return subprocess.run(
        [sys.executable, script, lines, "--logs", folder / "logs", *options],
        env={**os.environ, "PYTHONPATH": str(script.parent)},
        capture_output=True,
        text=True,
    )


@pytest.mark.slow
def test_nobody_is_timed_beside_another(tmp_path: Path) -> None:
    program = tmp_path / "entrant.py"
    program.write_text(ENTRANT)
    paths = [tmp_path / f"{number}.json" for number in range(3)]
    commands = [
        f"{sys.executable} {program} {path} {seconds}"
        for path, seconds in zip(paths, (0.5, 1.5, 0.0), strict=True)
    ]
    done = run_in_turns(commands, tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    times = [json.loads(path.read_text()) for path in paths]
    ready = max(time["ready"] for time in times)
    for time, following in pairwise(times):
        assert ready < time["begin"] < time["end"] < following["begin"]


@pytest.mark.slow
def test_what_is_not_compiled_warms_up_beside_nobody(tmp_path: Path) -> None:
    program = tmp_path / "entrant.py"
    program.write_text(ENTRANT)
    paths = [tmp_path / f"{number}.json" for number in range(2)]
    commands = [f"{sys.executable} {program} {path} 2 eager" for path in paths]
    done = run_in_turns(commands, tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    times = [json.loads(path.read_text()) for path in paths]
    first, second = sorted(times, key=lambda time: float(time["start"]))
    assert first["ready"] <= second["start"]


@pytest.mark.slow
def test_who_fails_keeps_its_turn_until_it_has_ended(tmp_path: Path) -> None:
    # 第一个拿到锁就出错，再过一秒才退出：显存到那时才空出来
    failing = tmp_path / "failing.py"
    failing.write_text(
        "import atexit, pathlib, sys, time, turns\n"
        "def linger():\n"
        "    time.sleep(3)\n"
        "    pathlib.Path(sys.argv[1]).write_text(str(time.monotonic()))\n"
        "atexit.register(linger)\n"
        "def warm_up():\n"
        "    pathlib.Path(sys.argv[2]).touch()\n"
        "    raise MemoryError\n"
        "turns.take(warm_up, compiles=False)\n"
    )
    entrant = tmp_path / "entrant.py"
    # 等前一个拿到锁，才来排队
    entrant.write_text(
        "import pathlib, sys, time\n"
        "while not pathlib.Path(sys.argv[3]).exists(): time.sleep(0.02)\n"
        f"{ENTRANT}"
    )
    gone, held, path = (tmp_path / name for name in ("gone", "held", "path"))
    done = run_in_turns(
        [
            f"{sys.executable} {failing} {gone} {held}",
            f"{sys.executable} {entrant} {path} 0 {held} eager",
        ],
        tmp_path,
    )
    assert "failed, or was ended" in done.stdout
    times = json.loads(path.read_text())
    assert float(gone.read_text()) <= times["start"]


@pytest.mark.slow
def test_one_that_is_late_or_fails_does_not_stop_the_others(
    tmp_path: Path,
) -> None:
    program = tmp_path / "entrant.py"
    program.write_text(ENTRANT)
    paths = [tmp_path / f"{number}.json" for number in range(2)]
    late, fine = (
        f"{sys.executable} {program} {path} {seconds}"
        for path, seconds in zip(paths, (600, 0), strict=True)
    )
    broken = f"{sys.executable} -c 'raise SystemExit(3)'"
    done = run_in_turns([late, broken, fine], tmp_path, "--patience", "15")
    assert done.returncode == 1
    assert "0: not ready in time, ended" in done.stdout
    assert f"failed, or was ended: {broken}" in done.stdout
    assert [path.exists() for path in paths] == [False, True]


@pytest.mark.slow
def test_who_is_ended_leaves_no_process_behind(tmp_path: Path) -> None:
    child = tmp_path / "child.py"
    child.write_text("import time; time.sleep(300)\n")
    parent = tmp_path / "parent.py"
    parent.write_text(
        "import subprocess, sys, pathlib\n"
        f"child = subprocess.Popen([sys.executable, {str(child)!r}])\n"
        f"pathlib.Path({str(tmp_path / 'pid')!r}).write_text(str(child.pid))\n"
        "child.wait()\n"
    )
    done = run_in_turns(
        [f"{sys.executable} {parent}"], tmp_path, "--patience", "3"
    )
    assert done.returncode == 1
    state = Path("/proc", (tmp_path / "pid").read_text(), "stat")
    # 已结束的进程，若无人领回，还会以 Z 的样子留着
    assert not state.exists() or state.read_text().split()[2] == "Z"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("# nothing\n", "has no command"),
        ("no-such-program-here --x\n", "there is no program"),
        ("echo 'half\n", "not a command"),
    ],
)
def test_a_file_of_commands_that_cannot_begin_is_refused(
    text: str, reason: str, tmp_path: Path
) -> None:
    lines = tmp_path / "commands.txt"
    lines.write_text(text)
    script = ROOT / "benchmarks" / "turns.py"
    done = subprocess.run(
        [sys.executable, script, lines, "--logs", tmp_path / "logs"],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1
    assert "error: " in done.stderr
    assert reason in done.stderr
    assert "Traceback" not in done.stderr
