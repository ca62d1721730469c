"""Text can be read any number of times, wherever it comes from."""

import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from bert_from_scratch.corpus.source import (
    LINES_A_BLOCK,
    TextSource,
    open_source,
)
from bert_from_scratch.errors import BertError

LINES = ["The lamp was lit.", "", "灯塔上的灯亮了。", "  \u2028 two "]


def read(source: TextSource) -> list[str]:
    return [line for block in source.blocks() for line in block.lines]


def once(lines: Iterable[str | Path]) -> Iterator[str | Path]:
    yield from lines


def test_lines_can_be_read_again_and_again() -> None:
    with open_source(LINES) as source:
        assert read(source) == LINES
        assert read(source) == LINES
        assert source.num_bytes == 0


def test_an_iterator_can_be_read_again_and_again() -> None:
    with open_source(once(LINES)) as source:
        assert read(source) == LINES
        assert read(source) == LINES


def test_an_iterator_leaves_no_file_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with open_source(once(LINES)) as source:
        (kept,) = tmp_path.iterdir()
        assert source.num_bytes == kept.stat().st_size > 0
    assert list(tmp_path.iterdir()) == []


def test_an_iterator_may_hold_what_a_file_may_not() -> None:
    with open_source(once(["a\0b", "\ufeffc"])) as source:
        assert read(source) == ["ab", "\ufeffc"]


def test_lines_come_in_blocks_of_bounded_length() -> None:
    lines = [str(number) for number in range(2 * LINES_A_BLOCK + 1)]
    with open_source(lines) as source:
        blocks = list(source.blocks())
    assert [len(block.lines) for block in blocks] == [
        LINES_A_BLOCK,
        LINES_A_BLOCK,
        1,
    ]
    assert [line for block in blocks for line in block.lines] == lines


def test_no_lines_make_no_blocks() -> None:
    with open_source([]) as source:
        assert list(source.blocks()) == []
    with open_source(once([])) as source:
        assert list(source.blocks()) == []


def test_files_and_folders_are_read_in_the_order_given(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "b.txt").write_text("b\n")
    (folder / "a.txt").write_text("a1\na2\n")
    first = tmp_path / "z.dat"
    first.write_text("first")
    with open_source([first, folder]) as source:
        assert read(source) == ["first", "a1", "a2", "b"]
        assert read(source) == ["first", "a1", "a2", "b"]
        assert source.num_bytes == 5 + 6 + 2


def test_progress_adds_up_to_the_size_of_all_files(tmp_path: Path) -> None:
    for name in "ab":
        (tmp_path / f"{name}.txt").write_text("line\n" * 500_000)
    with open_source([tmp_path]) as source:
        assert sum(b.num_bytes for b in source.blocks()) == source.num_bytes
        assert source.num_bytes == 5_000_000


def test_strings_are_text_and_never_file_names(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("inside")
    with open_source([str(path)]) as source:
        assert read(source) == [str(path)]


def test_errors_are_handled_as_asked(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(b"a\xffb\n")
    with open_source([path], "replace") as source:
        assert read(source) == ["a\ufffdb"]
    with (
        open_source([path]) as source,
        pytest.raises(BertError, match="at byte 1 "),
    ):
        read(source)


def test_a_missing_file_is_reported_on_opening(tmp_path: Path) -> None:
    with (
        pytest.raises(BertError, match=r"no file or folder .*gone\.txt"),
        open_source([tmp_path / "gone.txt"]),
    ):
        pass


def test_lines_and_paths_do_not_mix(tmp_path: Path) -> None:
    with (
        open_source(["a line", tmp_path]) as source,
        pytest.raises(TypeError, match="not both"),
    ):
        read(source)
    with (
        pytest.raises(TypeError, match="not both"),
        open_source(once(["a line", tmp_path])),
    ):
        pass


def test_an_iterator_of_paths_names_files(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("inside\n")
    with open_source(tmp_path.glob("*.txt")) as source:
        assert read(source) == ["inside"]
        assert read(source) == ["inside"]


def test_one_string_is_not_a_list_of_lines() -> None:
    with (
        pytest.raises((TypeError, ValueError, BertError)),
        open_source("corpus.txt"),
    ):
        pass
