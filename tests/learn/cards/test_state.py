"""The state file: every answer kept, nothing lost, two programs at once."""

import json
import logging
import os
import subprocess
import sys
from datetime import date
from pathlib import Path

import pytest

from bert_from_scratch import atomic
from bert_from_scratch.errors import BertError
from bert_from_scratch.learn.cards.schedule import Memory
from bert_from_scratch.learn.cards.state import StateFile, default_path

TODAY = date(2026, 3, 30)
ENTRY = {"box": 2, "due": "2026-03-31", "right": 1, "wrong": 0}
RECORD = """
import sys
from datetime import date
from pathlib import Path
from bert_from_scratch.learn.cards.state import StateFile
for number in range(25):
    StateFile(Path(sys.argv[1])).record(
        f"{sys.argv[2]}{number}", True, date(2026, 3, 30)
    )
    StateFile(Path(sys.argv[1])).record("shared", False, date(2026, 3, 30))
"""


@pytest.fixture
def state(tmp_path: Path) -> StateFile:
    return StateFile(tmp_path / "deep" / "progress.json")


def write(state: StateFile, text: str) -> None:
    state.path.parent.mkdir(parents=True, exist_ok=True)
    state.path.write_text(text, encoding="utf-8")


def entry(**changes: object) -> str:
    return json.dumps({"format": 1, "items": {"A01": ENTRY | changes}})


@pytest.mark.parametrize(
    ("environment", "platform", "expected"),
    [
        ({"XDG_STATE_HOME": "/s"}, "linux", "/s/bert-from-scratch"),
        ({}, "linux", "/home/me/.local/state/bert-from-scratch"),
        ({"XDG_STATE_HOME": ""}, "darwin", "/home/me/.local/state/bert-from-"),
        ({"XDG_STATE_HOME": "rel"}, "linux", "/home/me/.local/state/bert-"),
        ({"LOCALAPPDATA": "/L"}, "win32", "/L/bert-from-scratch"),
        ({"LOCALAPPDATA": "/L"}, "linux", "/home/me/.local/state/bert-from-"),
        ({}, "win32", "/home/me/AppData/Local/bert-from-scratch"),
    ],
)
def test_the_state_lies_where_the_system_keeps_it(
    environment: dict[str, str],
    platform: str,
    expected: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Path, "home", lambda: Path("/home/me"))
    path = default_path(environment, platform)
    assert path.as_posix().startswith(expected)
    assert path.name == "progress.json"


def test_nobody_knows_anything_at_first_and_reading_makes_no_file(
    state: StateFile,
) -> None:
    assert state.read() == {}
    assert not state.path.parent.exists()


def test_an_answer_is_on_disk_at_once(state: StateFile) -> None:
    memory = state.record("A01", True, TODAY)
    assert memory == Memory(2, date(2026, 3, 31), 1, 0)
    assert state.read() == {"A01": memory}
    assert json.loads(state.path.read_text()) == json.loads(entry())


def test_answers_add_up(state: StateFile) -> None:
    state.record("A01", True, TODAY)
    state.record("B01", False, TODAY)
    state.record("A01", False, TODAY)
    assert state.prepare() == {
        "A01": Memory(1, TODAY, 1, 1),
        "B01": Memory(1, TODAY, 0, 1),
    }


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "null",
        "\x00\x01",
        "[" * 100_000,
        '{"items": {}}',
        '{"format": 1}',
        '{"format": "1", "items": {}}',
        '{"format": true, "items": {}}',
        '{"format": 0, "items": {}}',
        '{"format": 1, "items": []}',
        '{"format": 1, "items": {"A01": 3}}',
        entry(box=0),
        entry(box=7),
        entry(box=True),
        entry(box=2.5),
        entry(due="soon"),
        entry(due=3),
        entry(right=-1),
        entry(wrong="1"),
    ],
    ids=lambda text: text[:40] or "empty",
)
def test_a_damaged_file_is_kept_aside_with_a_warning(
    state: StateFile, text: str, caplog: pytest.LogCaptureFixture
) -> None:
    write(state, text)
    with caplog.at_level(logging.WARNING):
        assert state.read() == {}
    aside = state.path.with_name("progress.json.damaged-1")
    assert aside.read_text(encoding="utf-8") == text
    assert not state.path.exists()
    (message,) = caplog.messages
    assert str(state.path) in message
    assert aside.name in message


def test_a_file_that_is_not_utf8_is_kept_aside(state: StateFile) -> None:
    write(state, "")
    state.path.write_bytes(b'{"format": 1, "items": {"\xff\xfe": {}}}')
    assert state.prepare() == {}
    aside = state.path.with_name("progress.json.damaged-1")
    assert b"\xff\xfe" in aside.read_bytes()


def test_damaged_files_never_overwrite_each_other(state: StateFile) -> None:
    for number in range(3):
        write(state, f"damage {number}")
        state.record("A01", True, TODAY)
        assert list(state.read()) == ["A01"]
    found = sorted(state.path.parent.glob("*.damaged-*"))
    assert [p.read_text() for p in found] == [f"damage {n}" for n in range(3)]


def test_a_newer_file_is_refused_and_left_alone(state: StateFile) -> None:
    text = '{"format": 2, "items": "unknown"}'
    write(state, text)
    for use in (state.read, state.prepare):
        with pytest.raises(BertError, match="newer version") as error:
            use()
        assert "--state FILE" in str(error.value.hint)
    assert state.path.read_text() == text


def test_ids_of_other_versions_are_kept(state: StateFile) -> None:
    write(state, json.dumps({"format": 1, "items": {"Z99": ENTRY}}))
    state.record("A01", True, TODAY)
    assert set(state.read()) == {"A01", "Z99"}


def test_a_file_in_the_way_of_the_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    path = tmp_path / "file" / "progress.json"
    with pytest.raises(BertError, match="Cannot keep the state in") as error:
        StateFile(path).prepare()
    assert str(path) in error.value.message
    assert error.value.hint == "--state FILE keeps it elsewhere"


def test_only_a_plain_file_can_be_a_state_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path, tmp_path / "pipe"):
        for use in (StateFile(path).read, StateFile(path).prepare):
            with pytest.raises(BertError) as error:
                use()
            assert error.value.message == f"{path} is not a file."
    assert {path.name for path in tmp_path.iterdir()} == {"pipe"}


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_without_permission_is_refused(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(BertError, match="Permission denied"):
        StateFile(tmp_path / "progress.json").prepare()


def test_a_failed_write_leaves_the_old_state(
    state: StateFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    state.record("A01", True, TODAY)
    before = state.path.read_bytes()

    def fail(path: Path) -> None:
        raise OSError(28, "No space left on device", str(path))

    monkeypatch.setattr(atomic, "_flush_to_disk", fail)
    with pytest.raises(BertError, match="No space left"):
        state.record("A01", False, TODAY)
    assert state.path.read_bytes() == before


def test_a_link_stays_a_link(state: StateFile, tmp_path: Path) -> None:
    state.path.parent.mkdir()
    state.path.symlink_to(tmp_path / "real.json")
    state.record("A01", True, TODAY)
    assert state.path.is_symlink()
    assert list(StateFile(tmp_path / "real.json").read()) == ["A01"]


def test_two_programs_at_once_lose_no_answer(state: StateFile) -> None:
    programs = [
        subprocess.Popen([sys.executable, "-c", RECORD, state.path, letter])
        for letter in "AB"
    ]
    assert [program.wait(timeout=60) for program in programs] == [0, 0]
    memories = state.read()
    expected = {f"{letter}{n}" for letter in "AB" for n in range(25)}
    assert set(memories) == expected | {"shared"}
    assert memories["shared"].num_wrong == 50
