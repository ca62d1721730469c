"""What a learner knows, kept in a file that survives crashes and mistakes.

Each answer is written at once: under a lock the file is read again, one entry
is changed, and the new file takes the place of the old one in one step. So
two programs at once lose nothing of each other, and a reader needs no lock.
"""

import json
import logging
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import IO, Any

from bert_from_scratch import atomic
from bert_from_scratch.errors import BertError
from bert_from_scratch.learn.cards.schedule import NUM_BOXES, Memory, review

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

FORMAT = 1
FOLDER = "bert-from-scratch"
FILE = "progress.json"

logger = logging.getLogger(__name__)


def default_path(environment: Mapping[str, str], platform: str) -> Path:
    """Returns where the state lies, by the customs of the system.

    Args:
        environment: As `os.environ`.
        platform: As `sys.platform`.
    """
    variable = "LOCALAPPDATA" if platform == "win32" else "XDG_STATE_HOME"
    given = Path(environment.get(variable, ""))
    # XDG 规范：相对路径无效，应当忽略
    if given.is_absolute():
        return given / FOLDER / FILE
    try:
        home = Path.home()
    except RuntimeError as error:
        raise BertError(
            "There is no home directory to keep the state in.", hint=_HINT
        ) from error
    local = "AppData/Local" if platform == "win32" else ".local/state"
    return home / local / FOLDER / FILE


@dataclass(frozen=True)
class StateFile:
    """The memories of one learner on disk.

    Attributes:
        path: The file; it and its folder appear with the first use.
    """

    path: Path

    def read(self) -> dict[str, Memory]:
        """Returns what is known, by id of the card or question.

        A damaged file is set aside, with a warning, and nothing is known.

        Raises:
            BertError: The file cannot be read or is of a newer version.
        """
        _refuse_other_kinds(self.path)
        try:
            return _read(self.path)
        except _DamagedError:
            with self._locked():
                return self._read_or_set_aside()

    def prepare(self) -> dict[str, Memory]:
        """Reads, and makes sure that answers can be written.

        Raises:
            BertError: They cannot be, or the file cannot be read.
        """
        with self._locked():
            return self._read_or_set_aside()

    def record(self, name: str, is_right: bool, today: date) -> Memory:
        """Writes one answer, and returns what is known after it."""
        with self._locked():
            # 持锁后重读：另一个程序可能刚写入了它的答案
            memories = self._read_or_set_aside()
            memory = review(memories.get(name), is_right, today)
            _write(self.path, memories | {name: memory})
        return memory

    def _read_or_set_aside(self) -> dict[str, Memory]:
        try:
            return _read(self.path)
        except _DamagedError as error:
            aside = _set_aside(self.path)
            logger.warning(
                "%s is damaged (%s); it is kept as %s, and learning starts "
                "afresh.",
                *(self.path, error, aside.name),
            )
            return {}

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Lets one program at a time through."""
        _refuse_other_kinds(self.path)
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            # 锁在旁边的文件上：状态文件本身每次都被整个换掉
            lock = self.path.with_name(f"{self.path.name}.lock").open("ab")
            with lock, _hold(lock):
                yield
        except OSError as error:
            raise BertError(
                f"Cannot keep the state in {self.path}: {error.strerror}.",
                hint=_HINT,
            ) from error


_HINT = "--state FILE keeps it elsewhere"


class _DamagedError(Exception):
    """A state file that says nothing sensible."""


def _refuse_other_kinds(path: Path) -> None:
    # 管道会读到天荒地老，设备文件绝不能被改名搁置
    if path.exists() and not path.is_file():
        raise BertError(f"{path} is not a file.", hint=_HINT)


def _read(path: Path) -> dict[str, Memory]:
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise BertError(
            f"Cannot read {path}: {error.strerror}.", hint=_HINT
        ) from error
    try:
        values = json.loads(data)
        _check_format(values["format"], path)
        entries = values["items"].items()
        return {name: _memory(value) for name, value in entries}
    except (ValueError, TypeError, LookupError, AttributeError) as error:
        raise _DamagedError(str(error) or type(error).__name__) from error
    except RecursionError:
        raise _DamagedError("nested too deeply") from None


def _check_format(version: object, path: Path) -> None:
    if type(version) is not int or version < FORMAT:
        raise ValueError(f"there is no format {version!r}")
    if version > FORMAT:
        # 新版本写的文件没有损坏，搁置它反而会丢掉进度
        raise BertError(
            f"{path} was written by a newer version of this program "
            f"(format {version}; this one knows {FORMAT}).",
            hint=f"update the program; or {_HINT}",
        )


def _memory(values: Mapping[str, Any]) -> Memory:
    numbers = [values[key] for key in ("box", "right", "wrong")]
    box, num_right, num_wrong = numbers
    # bool 也是 int，True 不能当作第一盒
    if any(type(number) is not int or number < 0 for number in numbers):
        raise ValueError(f"not counts: {numbers}")
    if not 1 <= box <= NUM_BOXES:
        raise ValueError(f"there is no box {box}")
    due = date.fromisoformat(values["due"])
    return Memory(box, due, num_right, num_wrong)


def _write(path: Path, memories: Mapping[str, Memory]) -> None:
    items = {
        name: {
            "box": memory.box,
            "due": memory.due.isoformat(),
            "right": memory.num_right,
            "wrong": memory.num_wrong,
        }
        for name, memory in sorted(memories.items())
    }
    # 符号链接指向的文件才是真正的状态，换掉链接会与它脱节
    atomic.write_json(path.resolve(), {"format": FORMAT, "items": items})


def _set_aside(path: Path) -> Path:
    """Renames a damaged file; nothing that exists is overwritten."""
    number = 1
    while True:
        aside = path.with_name(f"{path.name}.damaged-{number}")
        if not aside.exists():
            return path.rename(aside)
        number += 1


@contextmanager
def _hold(lock: IO[bytes]) -> Iterator[None]:
    """Waits for a lock and holds it; the system frees it after a crash."""
    if sys.platform == "win32":
        lock.seek(0)
        msvcrt.locking(lock.fileno(), msvcrt.LK_LOCK, 1)
        try:
            yield
        finally:
            lock.seek(0)
            msvcrt.locking(lock.fileno(), msvcrt.LK_UNLCK, 1)
    else:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
