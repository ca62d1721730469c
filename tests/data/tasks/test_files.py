"""Task files are UTF-8, with or without marks; faults name the place."""

from pathlib import Path

import pytest

from bert_from_scratch import BertError
from bert_from_scratch.config import read_json as read_config
from bert_from_scratch.data.tasks.files import read_json, read_lines
from bert_from_scratch.data.tasks.rows import is_number


def test_line_ends_and_marks_do_not_matter(tmp_path: Path) -> None:
    path = tmp_path / "a.tsv"
    path.write_bytes("\ufeffone\r\ntwo\n\r\n\n".encode())
    assert read_lines(path) == ["one", "two"]


def test_only_line_feeds_end_lines(tmp_path: Path) -> None:
    path = tmp_path / "a.tsv"
    path.write_bytes("a\u2028b\x85c\x0cd\ne".encode())
    assert read_lines(path) == ["a\u2028b\x85c\x0cd", "e"]


@pytest.mark.parametrize("content", [b"", b"\xef\xbb\xbf", b"\n\r\n \n"])
def test_an_empty_file_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "a.tsv"
    path.write_bytes(content)
    with pytest.raises(BertError, match=r"a\.tsv is empty"):
        read_lines(path)


def test_bytes_that_are_not_utf8_are_placed(tmp_path: Path) -> None:
    path = tmp_path / "a.tsv"
    path.write_bytes(b"ok\nna\xefve\n")
    with pytest.raises(BertError, match=r"byte 5 \(0xef\), line 2"):
        read_lines(path)


def test_files_that_cannot_be_opened_are_named(tmp_path: Path) -> None:
    with pytest.raises(BertError, match=r"no file .*gone\.tsv"):
        read_lines(tmp_path / "gone.tsv")
    with pytest.raises(BertError, match="Cannot open"):
        read_lines(tmp_path)


def test_bad_json_is_placed(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text('{"a": 1,\n "b": }')
    with pytest.raises(BertError, match=r"a\.json is not JSON.*line 2"):
        read_json(path)
    path.write_text("[" * 100_000)
    with pytest.raises(BertError, match="nested too deeply"):
        read_json(path)


def test_a_number_of_thousands_of_digits_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text('{"n": ' + "1" * 5000 + "}")
    with pytest.raises(BertError, match=r"a\.json holds too long a number"):
        read_json(path)
    with pytest.raises(BertError, match=r"a\.json cannot be read as JSON"):
        read_config(path)
    # 列号不会有几千位：那是列的名字
    assert not is_number("9" * 5000)
    assert is_number("12")
