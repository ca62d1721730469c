"""Files that appear whole or not at all."""

import contextlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bert_from_scratch.errors import BertError


def write_text(path: Path, text: str) -> None:
    """Writes a UTF-8 file with bare newlines, whole or not at all."""
    with replace_file(path) as temporary_path:
        temporary_path.write_bytes(text.encode("utf-8"))


def write_json(path: Path, values: Mapping[str, Any]) -> None:
    """Writes an object as a JSON file for people, whole or not at all."""
    text = json.dumps(values, indent=2, ensure_ascii=False)
    write_text(path, text + "\n")


@contextmanager
def replace_file(path: Path) -> Iterator[Path]:
    """Yields a path to write to; on success it takes the place of `path`.

    Whatever goes wrong inside the block, the old file stays as it was. A link
    is followed: what it leads to is replaced, not the link.
    """
    path = _plain_file(path)
    _make_folder(path.parent)
    # 临时文件放在同一目录：只有同一文件系统内的改名才是原子的
    temporary_path = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        yield temporary_path
        _flush_to_disk(temporary_path)
        temporary_path.replace(path)
    except BaseException:
        temporary_path.unlink(missing_ok=True)
        raise


@contextmanager
def replace_files(directory: Path) -> Iterator[Path]:
    """Yields a scratch folder; on success its files move into `directory`.

    A new directory appears in one step. In an existing one, every file is
    replaced by a rename, after all of them have been written in full.
    """
    check_directory(directory)
    _make_folder(directory.parent)
    scratch_dir = Path(
        tempfile.mkdtemp(prefix=f".{directory.name}.", dir=directory.parent)
    )
    try:
        yield scratch_dir
        written = sorted(scratch_dir.iterdir())
        for path in written:
            _flush_to_disk(path)
        scratch_dir.chmod(0o777 & ~_current_umask())
        if directory.exists():
            for path in written:
                path.replace(directory / path.name)
        else:
            scratch_dir.rename(directory)
    finally:
        # 成功改名后此目录已不存在；失败时不留下半成品
        shutil.rmtree(scratch_dir, ignore_errors=True)


@contextmanager
def new_directory(directory: Path) -> Iterator[Path]:
    """Yields a scratch folder that becomes `directory`, which must not exist.

    Folders inside it are welcome.
    """
    if directory.exists():
        raise BertError(
            f"{directory} exists already.",
            hint="choose another name, or remove it first",
        )
    check_directory(directory)
    _make_folder(directory.parent)
    scratch_dir = Path(
        tempfile.mkdtemp(prefix=f".{directory.name}.", dir=directory.parent)
    )
    try:
        yield scratch_dir
        for path in scratch_dir.rglob("*"):
            if path.is_file():
                _flush_to_disk(path)
        scratch_dir.chmod(0o777 & ~_current_umask())
        scratch_dir.rename(directory)
    finally:
        shutil.rmtree(scratch_dir, ignore_errors=True)


def check_file(path: Path) -> None:
    """Raises where no file can be put: before long work, not after it."""
    check_writable(_plain_file(path).parent)


def check_writable(directory: Path) -> None:
    """Raises where nothing can be put: before long work, not after it.

    Args:
        directory: Need not exist yet.
    """
    check_directory(directory)
    ancestors = (directory, *directory.absolute().parents)
    nearest = next(path for path in ancestors if path.is_dir())
    try:
        # 真写一次才作数：只读的磁盘、root 用户，权限位都说不准
        with tempfile.TemporaryFile(dir=nearest):
            pass
    except OSError as error:
        raise BertError(
            f"Cannot write to {directory}: {error.strerror}.",
            hint="choose a folder that you may write to",
        ) from error


def _plain_file(path: Path) -> Path:
    """Returns where a file may be put; refuses folders, devices and pipes."""
    target = path.resolve()
    if target.is_dir():
        raise BertError(f"{path} is a folder, not a file.")
    # 改名会顶掉设备或管道：以 root 身份写 /dev/null 会毁掉整台机器
    if target.exists() and not target.is_file():
        raise BertError(f"{path} is a device or a pipe, not a file.")
    return target


def check_directory(directory: Path) -> None:
    """Raises where no folder can be made: before long work, not after it."""
    check_name(directory)
    for path in (directory, *directory.absolute().parents):
        if path.exists() and not path.is_dir():
            raise BertError(f"{path} is a file, not a folder.")


def check_name(path: Path | str) -> None:
    """Raises where a path cannot be written down as UTF-8."""
    try:
        str(path).encode()
    except UnicodeEncodeError as error:
        # 计划与模型卡要写下路径，权重库也只认 UTF-8
        shown = str(path).encode("utf-8", "backslashreplace").decode()
        raise BertError(
            f"The name of {shown} is not UTF-8.", hint="rename it first"
        ) from error


def _make_folder(directory: Path) -> None:
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BertError(
            f"Cannot make the folder {directory}: {error.strerror}."
        ) from error


def _flush_to_disk(path: Path) -> None:
    with path.open("rb") as file:
        os.fsync(file.fileno())
    # mkstemp 风格的权限过严，恢复成普通新文件的权限
    with contextlib.suppress(OSError):
        path.chmod(0o666 & ~_current_umask())


def _current_umask() -> int:
    umask = os.umask(0)
    os.umask(umask)
    return umask
