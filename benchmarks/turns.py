"""Several benchmarks on one GPU: all compile at once, each is timed alone.

    python benchmarks/turns.py COMMANDS.txt [--seconds 560] [--patience 240]
        [--logs build/turns]

COMMANDS.txt has a command a line; lines that begin with # are passed over. All
begin at once. A benchmark that calls `take` compiles and warms up there, and
waits until all the others wait too, or have ended; then they go on one after
the other, in the order of the file. So compiling, which is the work of one
core, is paid for once, and no measurement shares the GPU. Who is not ready
after `--patience` seconds is ended, and so is everybody after `--seconds`; the
output of each goes to `--logs` and, once it has ended, to the screen. Exit code
1: one failed or was ended.
"""

import argparse
import fcntl
import gc
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import report

VARIABLE = "BENCHMARK_TURN"
READY, GO, LOCK = "ready", "go", "lock"
POLL_SECONDS = 0.1
SHOWN_CHARACTERS = 3000
# 文件开着，锁就在：到进程结束为止
_HELD: list[IO[str]] = []


def take(warm_up: Callable[[], object], compiles: bool = True) -> None:
    """Warms up, then waits for this benchmark's turn, if there are turns.

    Args:
        warm_up: Takes the first steps, compiling included.
        compiles: Whether it begins by compiling; if not, it has the GPU to
            itself from the start.
    """
    parent = os.getppid()
    folder = os.environ.pop(VARIABLE, None)
    if folder is None:
        warm_up()
        return
    file = Path(folder).parent.joinpath(LOCK).open("w")
    # 出错时不交锁：进程退出之前显存还占着，下一个进来也会不够
    _HELD.append(file)
    with alone_once_compiled(file, compiles):
        warm_up()
        free_memory()
    fcntl.flock(file, fcntl.LOCK_UN)
    Path(folder, READY).touch()
    while not Path(folder, GO).exists():
        if os.getppid() != parent:
            sys.exit("error: nobody is left to give this benchmark its turn")
        time.sleep(POLL_SECONDS)


@contextmanager
def alone_once_compiled(file: IO[str], compiles: bool) -> Iterator[None]:
    """Compiles beside others, but runs beside nobody.

    Compiled kernels are chosen by their time when they first run, which others
    would falsify; nor is there memory for several steps at once.
    """
    import torch
    from torch._dynamo.callback import callback_handler

    # 默认要等第一次反向才编译反向图，其间激活一直占着显存
    functorch = torch._functorch.config
    if hasattr(functorch, "force_non_lazy_backward_lowering"):
        functorch.force_non_lazy_backward_lowering = True

    def lock(_: object) -> None:
        fcntl.flock(file, fcntl.LOCK_EX)

    def unlock(_: object) -> None:
        fcntl.flock(file, fcntl.LOCK_UN)

    if not compiles:
        lock(None)
    callback_handler.register_start_callback(unlock)
    callback_handler.register_end_callback(lock)
    try:
        yield
    finally:
        callback_handler.remove_start_callback(unlock)
        callback_handler.remove_end_callback(lock)


def free_memory() -> None:
    """Gives back what is not in use, so that others can have it."""
    import torch

    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.synchronize()
        torch.cuda.empty_cache()


def main() -> None:
    """Starts all commands, gives each its turn, says how each ended."""
    arguments = parse_arguments()
    end = time.monotonic() + arguments.seconds
    commands = read_commands(arguments.commands)
    arguments.logs.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        entrants: list[Entrant] = []
        try:
            for number, command in enumerate(commands):
                entrants.append(
                    Entrant(number, command, Path(folder), arguments.logs)
                )
            wait_for_all(
                entrants, min(end, time.monotonic() + arguments.patience)
            )
            for entrant in entrants:
                entrant.go(end)
                entrant.show()
        finally:
            for entrant in entrants:
                entrant.end()
    failed = [entrant for entrant in entrants if entrant.process.returncode]
    for entrant in failed:
        print(f"failed, or was ended: {entrant.command}")
    sys.exit(1 if failed else 0)


def read_commands(path: Path) -> list[str]:
    """Returns the commands of a file; says which cannot be begun."""
    try:
        lines = path.read_text().split("\n")
    except (OSError, UnicodeDecodeError) as error:
        sys.exit(f"error: {path} cannot be read: {error}")
    commands = [line for line in lines if line and not line.startswith("#")]
    if not commands:
        sys.exit(f"error: {path} has no command")
    for command in commands:
        try:
            program = shlex.split(command)[0]
        except (ValueError, IndexError) as error:
            sys.exit(f"error: not a command, {error}: {command}")
        if shutil.which(program) is None:
            sys.exit(f"error: there is no program {program}: {command}")
    return commands


def parse_arguments() -> argparse.Namespace:
    """Reads the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("commands", type=Path)
    parser.add_argument("--seconds", type=float, default=560.0)
    parser.add_argument("--patience", type=float, default=240.0)
    parser.add_argument("--logs", type=Path, default=Path("build/turns"))
    return parser.parse_args()


class Entrant:
    """A benchmark that runs in a process of its own."""

    def __init__(
        self, number: int, command: str, folder: Path, logs: Path
    ) -> None:
        """Starts it.

        Args:
            number: Its place in the order.
            command: What to run.
            folder: Where turns are given.
            logs: Where its output goes.
        """
        self.number, self.command = number, command
        self._begin = time.monotonic()
        self._folder = folder / str(number)
        self._folder.mkdir()
        self._log_path = logs / f"{number:02}.txt"
        with self._log_path.open("w") as log:
            self.process = subprocess.Popen(
                shlex.split(command),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env={**os.environ, VARIABLE: str(self._folder)},
                # 自成一组：结束它时，它开的进程也一起结束
                start_new_session=True,
            )

    @property
    def is_ready(self) -> bool:
        """Whether it waits for its turn, or needs none any more."""
        has_ended = self.process.poll() is not None
        return has_ended or (self._folder / READY).exists()

    def go(self, end: float) -> None:
        """Gives it its turn, and waits until it has ended."""
        (self._folder / GO).touch()
        try:
            self.process.wait(max(end - time.monotonic(), 0.0))
        except subprocess.TimeoutExpired:
            self.end()

    def end(self) -> None:
        """Ends it, if it runs."""
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()

    def show(self) -> None:
        """Prints the end of what it printed."""
        seconds = time.monotonic() - self._begin
        text = self._log_path.read_text(errors="replace")
        print(f"--- {self.number}, after {seconds:.0f} s: {self.command}")
        print(text[-SHOWN_CHARACTERS:], flush=True)


def wait_for_all(entrants: list[Entrant], end: float) -> None:
    """Waits until all are ready; ends those that are not in time."""
    known: set[int] = set()
    begin = time.monotonic()
    while len(known) < len(entrants) and time.monotonic() < end:
        for entrant in entrants:
            if entrant.number not in known and entrant.is_ready:
                known.add(entrant.number)
                seconds = time.monotonic() - begin
                print(
                    f"{entrant.number}: ready after {seconds:.0f} s", flush=True
                )
        time.sleep(POLL_SECONDS)
    for entrant in entrants:
        if entrant.number not in known:
            print(f"{entrant.number}: not ready in time, ended", flush=True)
            entrant.end()


if __name__ == "__main__":
    report.run(main)
