"""Files appear whole or not at all, whatever happens meanwhile."""

import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from bert_from_scratch import atomic
from bert_from_scratch.errors import BertError

FAILURES = [RuntimeError, KeyboardInterrupt, SystemExit]


@pytest.fixture(params=[0o022, 0o027], ids=oct)
def umask(request: pytest.FixtureRequest) -> Iterator[int]:
    """Sets the permissions that new files must not have."""
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


def contents(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir()}


def permissions(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


# 单个文件


def test_text_is_written_as_utf_8_with_bare_newlines(tmp_path: Path) -> None:
    atomic.write_text(tmp_path / "a", "灯\none\r\n")
    assert contents(tmp_path) == {"a": "灯\none\r\n".encode()}


def test_a_file_takes_its_place_only_at_the_end(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_text("old")
    with atomic.replace_file(path) as temporary_path:
        temporary_path.write_text("new")
        assert path.read_text() == "old"
    assert contents(tmp_path) == {"a": b"new"}


def test_the_scratch_lies_beside_the_file_so_the_rename_is_atomic(
    tmp_path: Path,
) -> None:
    with atomic.replace_file(tmp_path / "a") as temporary_path:
        temporary_path.write_text("new")
        assert temporary_path.parent == tmp_path


@pytest.mark.parametrize("failure", FAILURES)
def test_a_crash_leaves_the_old_file_and_no_scratch(
    tmp_path: Path, failure: type[BaseException]
) -> None:
    path = tmp_path / "a"
    path.write_text("old")
    with pytest.raises(failure), atomic.replace_file(path) as temporary_path:
        temporary_path.write_text("half")
        raise failure
    assert contents(tmp_path) == {"a": b"old"}


def test_a_crash_makes_no_new_file(tmp_path: Path) -> None:
    with (
        pytest.raises(RuntimeError),
        atomic.replace_file(tmp_path / "a") as temporary_path,
    ):
        temporary_path.write_text("half")
        raise RuntimeError
    assert contents(tmp_path) == {}


def test_a_full_disk_leaves_the_old_file_and_no_scratch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(descriptor: int) -> None:
        raise OSError("no space left")

    (tmp_path / "a").write_text("old")
    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="no space"):
        atomic.write_text(tmp_path / "a", "new")
    assert contents(tmp_path) == {"a": b"old"}


def test_a_file_gets_the_permissions_of_any_new_file(
    tmp_path: Path, umask: int
) -> None:
    atomic.write_text(tmp_path / "a", "new")
    assert permissions(tmp_path / "a") == 0o666 & ~umask


def test_a_file_cannot_take_the_place_of_a_folder(tmp_path: Path) -> None:
    folder = tmp_path / "a"
    folder.mkdir()
    worked = False
    with (
        pytest.raises(BertError, match="a folder"),
        atomic.replace_file(folder) as temporary_path,
    ):
        worked = True
        temporary_path.write_text("new")
    assert not worked
    assert folder.is_dir()


# 整个目录


def test_a_pipe_is_refused_and_stays(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    with pytest.raises(BertError, match="a device or a pipe"):
        atomic.write_text(path, "new")
    assert path.is_fifo()
    assert list(tmp_path.iterdir()) == [path]


def test_a_link_stays_and_what_it_leads_to_is_replaced(tmp_path: Path) -> None:
    target, link = tmp_path / "folder" / "target.txt", tmp_path / "link.txt"
    target.parent.mkdir()
    target.write_text("old")
    link.symlink_to(target)
    atomic.write_text(link, "new")
    assert link.is_symlink()
    assert target.read_text() == "new"
    assert list(target.parent.iterdir()) == [target]


def test_a_new_folder_appears_in_one_step(tmp_path: Path) -> None:
    directory = tmp_path / "deep" / "model"
    with atomic.replace_files(directory) as scratch_dir:
        (scratch_dir / "a").write_text("new")
        assert not directory.exists()
        assert scratch_dir.parent == directory.parent
    assert contents(directory) == {"a": b"new"}
    assert list(directory.parent.iterdir()) == [directory]


def test_files_are_replaced_and_others_stay(tmp_path: Path) -> None:
    directory = tmp_path / "model"
    directory.mkdir()
    (directory / "a").write_text("old")
    (directory / "other").write_text("mine")
    with atomic.replace_files(directory) as scratch_dir:
        (scratch_dir / "a").write_text("new")
        (scratch_dir / "b").write_text("more")
        assert contents(directory) == {"a": b"old", "other": b"mine"}
    assert contents(directory) == {"a": b"new", "b": b"more", "other": b"mine"}
    assert list(tmp_path.iterdir()) == [directory]


@pytest.mark.parametrize("failure", FAILURES)
def test_a_crash_leaves_the_old_folder_whole_and_no_scratch(
    tmp_path: Path, failure: type[BaseException]
) -> None:
    directory = tmp_path / "model"
    directory.mkdir()
    (directory / "a").write_text("old")
    with (
        pytest.raises(failure),
        atomic.replace_files(directory) as scratch_dir,
    ):
        (scratch_dir / "a").write_text("half")
        (scratch_dir / "b").write_text("half")
        raise failure
    assert contents(directory) == {"a": b"old"}
    assert list(tmp_path.iterdir()) == [directory]


def test_a_crash_makes_no_new_folder(tmp_path: Path) -> None:
    with (
        pytest.raises(RuntimeError),
        atomic.replace_files(tmp_path / "model") as scratch_dir,
    ):
        (scratch_dir / "a").write_text("half")
        raise RuntimeError
    assert list(tmp_path.iterdir()) == []


def test_no_file_is_replaced_before_all_are_on_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = tmp_path / "model"
    directory.mkdir()
    for name in "abc":
        (directory / name).write_text("old")
    flushed: list[int] = []

    def fail_at_the_third(descriptor: int) -> None:
        flushed.append(descriptor)
        if len(flushed) == 3:
            raise OSError("no space left")

    monkeypatch.setattr(os, "fsync", fail_at_the_third)
    with (
        pytest.raises(OSError, match="no space"),
        atomic.replace_files(directory) as scratch_dir,
    ):
        for name in "abc":
            (scratch_dir / name).write_text("new")
    assert contents(directory) == dict.fromkeys("abc", b"old")
    assert list(tmp_path.iterdir()) == [directory]


def test_a_process_that_dies_leaves_the_old_files_whole(
    tmp_path: Path,
) -> None:
    directory = tmp_path / "model"
    directory.mkdir()
    (directory / "a").write_text("old")
    program = (
        "import os, sys\n"
        "from pathlib import Path\n"
        "from bert_from_scratch import atomic\n"
        "with atomic.replace_files(Path(sys.argv[1])) as scratch_dir:\n"
        "    (scratch_dir / 'a').write_text('half')\n"
        "    with atomic.replace_file(Path(sys.argv[1]) / 'a') as path:\n"
        "        path.write_text('half')\n"
        "        os._exit(9)\n"
    )
    command = [sys.executable, "-c", program, str(directory)]
    assert subprocess.run(command, check=False).returncode == 9
    assert (directory / "a").read_text() == "old"


def test_a_folder_and_its_files_get_ordinary_permissions(
    tmp_path: Path, umask: int
) -> None:
    directory = tmp_path / "model"
    with atomic.replace_files(directory) as scratch_dir:
        (scratch_dir / "a").touch(mode=0o600)
    assert permissions(directory) == 0o777 & ~umask
    assert permissions(directory / "a") == 0o666 & ~umask


def test_a_file_in_place_of_the_folder_is_refused_before_any_work(
    tmp_path: Path,
) -> None:
    path = tmp_path / "model"
    path.write_text("mine")
    worked = False
    with (
        pytest.raises(BertError, match="is a file"),
        atomic.replace_files(path),
    ):
        worked = True
    assert not worked
    assert contents(tmp_path) == {"model": b"mine"}


def test_a_folder_below_a_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("mine")
    with (
        pytest.raises(BertError, match=r"notes\.txt"),
        atomic.replace_files(path / "model"),
    ):
        pass
    assert contents(tmp_path) == {"notes.txt": b"mine"}


# 只许新建的目录


def test_a_folder_with_folders_inside_appears_whole(
    tmp_path: Path, umask: int
) -> None:
    directory = tmp_path / "deep" / "data"
    with atomic.new_directory(directory) as scratch_dir:
        (scratch_dir / "shards").mkdir()
        (scratch_dir / "shards" / "0").touch(mode=0o600)
        assert not directory.exists()
    assert list(directory.parent.iterdir()) == [directory]
    assert permissions(directory) == 0o777 & ~umask
    assert permissions(directory / "shards" / "0") == 0o666 & ~umask


@pytest.mark.parametrize("is_folder", [True, False])
def test_a_new_folder_never_takes_the_place_of_an_old_one(
    tmp_path: Path, is_folder: bool
) -> None:
    path = tmp_path / "data"
    if is_folder:
        path.mkdir()
    else:
        path.write_text("mine")
    worked = False
    with (
        pytest.raises(BertError, match="exists already"),
        atomic.new_directory(path),
    ):
        worked = True
    assert not worked
    assert path.is_dir() == is_folder


@pytest.mark.parametrize("failure", FAILURES)
def test_a_crash_leaves_nothing_of_a_new_folder(
    tmp_path: Path, failure: type[BaseException]
) -> None:
    with (
        pytest.raises(failure),
        atomic.new_directory(tmp_path / "data") as scratch_dir,
    ):
        (scratch_dir / "half").write_text("half")
        raise failure
    assert list(tmp_path.iterdir()) == []


def test_what_cannot_be_written_is_told_before_the_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    atomic.check_file(tmp_path / "new" / "file.txt")
    assert list(tmp_path.iterdir()) == []
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(BertError, match="a device or a pipe"):
        atomic.check_file(tmp_path / "pipe")

    def refuse(**rest: object) -> None:
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr("tempfile.TemporaryFile", refuse)
    with pytest.raises(BertError, match="Read-only file system") as caught:
        atomic.check_writable(tmp_path / "new")
    assert caught.value.hint
