"""Text files read whole, in little memory, or refused with the place."""

import codecs
import gzip
import lzma
import os
import re
import struct
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
import zstandard

from bert_from_scratch.corpus.files import (
    BLOCK_BYTES,
    DecodeErrors,
    find_files,
    read_blocks,
)
from bert_from_scratch.errors import BertError

COMPRESS: dict[str, Callable[[bytes], bytes]] = {
    ".txt": bytes,
    ".txt.gz": gzip.compress,
    ".txt.xz": partial(lzma.compress, preset=0),
    ".txt.zst": zstandard.compress,
}
COMPRESSED = [suffix for suffix in COMPRESS if suffix != ".txt"]
ENGLISH = "The lamp was lit. "
CHINESE = "灯塔上的灯亮了，船慢慢靠岸。"
EMOJI = "灯🗼é"


def write(folder: Path, data: bytes, name: str = "text.txt") -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


def read(path: Path, errors: DecodeErrors = "strict") -> list[str]:
    return [line for block in read_blocks(path, errors) for line in block.lines]


def numbered_lines(num_bytes: int) -> bytes:
    """Returns lines, each one different, so that a lost one is seen."""
    lines = (f"{number} {number**3} 灯\n" for number in range(num_bytes // 12))
    return "".join(lines).encode()


# 读取：压缩、换行、字节序标记


@pytest.mark.parametrize("suffix", COMPRESS)
def test_compressed_files_read_as_plain_ones(
    tmp_path: Path, suffix: str
) -> None:
    data = numbered_lines(2 * BLOCK_BYTES)
    assert len(data) > 2 * BLOCK_BYTES
    path = write(tmp_path, COMPRESS[suffix](data), f"text{suffix}")
    assert read(path) == data.decode().split("\n")[:-1]


@pytest.mark.parametrize("suffix", COMPRESSED)
def test_files_of_several_compressed_parts_are_read_to_the_end(
    tmp_path: Path, suffix: str
) -> None:
    parts = [COMPRESS[suffix](part) for part in (b"one\n", b"", b"two\n")]
    path = write(tmp_path, b"".join(parts), f"text{suffix}")
    assert read(path) == ["one", "two"]
    assert sum(b.num_bytes for b in read_blocks(path)) == path.stat().st_size


def test_zstd_frames_that_hold_no_text_are_skipped(tmp_path: Path) -> None:
    # pzstd 在每一帧之前写一个“可跳过”的帧
    skipped = struct.pack("<II", 0x184D2A50, 4) + b"abcd"
    frames = [zstandard.compress(part) for part in (b"one\n", b"two\n")]
    data = skipped + frames[0] + skipped + frames[1] + skipped
    assert read(write(tmp_path, data, "text.txt.zst")) == ["one", "two"]


@pytest.mark.parametrize("suffix", COMPRESS)
@pytest.mark.parametrize("last_line_end", [b"", b"\n"])
def test_progress_adds_up_to_the_stored_size(
    tmp_path: Path, suffix: str, last_line_end: bytes
) -> None:
    # 随机字节写成十六进制：压不小，压缩文件也横跨好几块
    noise = os.urandom(BLOCK_BYTES).hex().encode()
    lines = [noise[i : i + 70] for i in range(0, len(noise), 70)]
    data = b"\n".join(lines) + last_line_end
    path = write(tmp_path, COMPRESS[suffix](data), f"text{suffix}")
    blocks = list(read_blocks(path))
    assert len(blocks) > 1
    assert all(block.num_bytes >= 0 for block in blocks)
    assert sum(block.num_bytes for block in blocks) == path.stat().st_size


def test_lines_may_end_in_any_way(tmp_path: Path) -> None:
    path = write(tmp_path, b"one\ntwo\r\nthree\rfour\n\nsix")
    assert read(path) == ["one", "two", "three", "four", "", "six"]


@pytest.mark.parametrize("line_end", [b"\n", b"\r\n", b"\r"])
def test_a_last_line_end_adds_no_line(tmp_path: Path, line_end: bytes) -> None:
    path = write(tmp_path, b"one" + line_end + b"two" + line_end)
    assert read(path) == ["one", "two"]


@pytest.mark.parametrize(
    "character", ["\u2028", "\u2029", "\x85", "\x0b", "\x0c", "\x1c", "\x1e"]
)
def test_only_line_feed_and_carriage_return_end_a_line(
    tmp_path: Path, character: str
) -> None:
    line = f"one{character}two"
    assert read(write(tmp_path, f"{line}\nthree".encode())) == [line, "three"]


def test_a_line_end_across_two_blocks_is_one_line_end(tmp_path: Path) -> None:
    first = "a" * (BLOCK_BYTES - 1)
    path = write(tmp_path, f"{first}\r\nb\r\n".encode())
    assert read(path) == [first, "b"]


@pytest.mark.parametrize("suffix", COMPRESS)
def test_a_byte_order_mark_is_dropped(tmp_path: Path, suffix: str) -> None:
    data = codecs.BOM_UTF8 + "灯\r\ntwo\n".encode()
    path = write(tmp_path, COMPRESS[suffix](data), f"text{suffix}")
    assert read(path) == ["灯", "two"]


def test_a_byte_order_mark_is_dropped_only_at_the_start(
    tmp_path: Path,
) -> None:
    path = write(tmp_path, codecs.BOM_UTF8 * 2 + b"one\n" + codecs.BOM_UTF8)
    assert read(path) == ["\ufeffone", "\ufeff"]
    first = b"x" * (BLOCK_BYTES - 1) + b"\n"
    path = write(tmp_path, first + codecs.BOM_UTF8 + b"second block")
    assert read(path)[1:] == ["\ufeffsecond block"]


@pytest.mark.parametrize("suffix", COMPRESS)
@pytest.mark.parametrize("data", [b"", codecs.BOM_UTF8])
def test_an_empty_file_has_no_lines(
    tmp_path: Path, suffix: str, data: bytes
) -> None:
    path = write(tmp_path, COMPRESS[suffix](data), f"text{suffix}")
    assert read(path) == []


# 很长的行


@pytest.mark.parametrize("text", [ENGLISH, CHINESE, EMOJI])
@pytest.mark.parametrize("shift", range(4))
def test_a_long_line_is_cut_into_bounded_pieces_without_loss(
    tmp_path: Path, text: str, shift: int
) -> None:
    # 开头错开 0–3 个字节：切口落在多字节字符的每一种位置上
    line = "x" * shift + text * (3 * BLOCK_BYTES // len(text.encode()))
    path = write(tmp_path, f"before\n{line}\nafter\n".encode())
    lines = read(path)
    assert (lines[0], lines[-1]) == ("before", "after")
    pieces = lines[1:-1]
    assert len(pieces) > 1
    assert "".join(pieces) == line
    assert max(len(piece.encode()) for piece in pieces) <= 2 * BLOCK_BYTES


def test_a_long_line_is_cut_between_words(tmp_path: Path) -> None:
    line = ENGLISH * (4 * BLOCK_BYTES // len(ENGLISH))
    pieces = read(write(tmp_path, line.encode()))
    words = [word for piece in pieces for word in piece.split()]
    assert words == line.split()


@pytest.mark.parametrize("suffix", COMPRESS)
@pytest.mark.parametrize("line", [b"x", b"one line\n"], ids=["one", "many"])
def test_blocks_stay_small_however_well_a_file_is_compressed(
    tmp_path: Path, suffix: str, line: bytes
) -> None:
    data = line * (5 * BLOCK_BYTES // len(line))
    path = write(tmp_path, COMPRESS[suffix](data), f"text{suffix}")
    sizes = [sum(map(len, block.lines)) for block in read_blocks(path)]
    assert sum(sizes) == len(data) - data.count(b"\n")
    assert max(sizes) <= 2 * BLOCK_BYTES


@pytest.mark.parametrize("last_byte", [b" ", b"\r"])
def test_a_cut_before_the_line_end_adds_no_empty_line(
    tmp_path: Path, last_byte: bytes
) -> None:
    line = b"x" * (2 * BLOCK_BYTES - 1) + last_byte
    lines = read(write(tmp_path, line + b"\nafter\n"))
    assert lines[-1] == "after"
    assert "" not in lines


def test_old_mac_line_ends_hold_in_a_large_file(tmp_path: Path) -> None:
    lines = [f"line number {number} of many" for number in range(100_000)]
    path = write(tmp_path, "\r".join(lines).encode())
    assert path.stat().st_size > 2 * BLOCK_BYTES
    assert read(path) == lines


# 坏字节：文件名与确切的位置


@pytest.mark.parametrize(
    ("before", "offset"),
    [
        (b"", 0),
        ("灯".encode(), 3),
        (codecs.BOM_UTF8, 3),
        (codecs.BOM_UTF8 + b"one\r\n", 8),
        (b"line\n" * BLOCK_BYTES, 5 * BLOCK_BYTES),
        (codecs.BOM_UTF8 + b"line\n" * BLOCK_BYTES, 5 * BLOCK_BYTES + 3),
        (b"x" * 3 * BLOCK_BYTES, 3 * BLOCK_BYTES),
        (CHINESE.encode() * 100_000, len(CHINESE.encode()) * 100_000),
    ],
    ids=[
        "first byte",
        "after a character",
        "after a BOM",
        "second line after a BOM",
        "past the first megabyte",
        "past the first megabyte after a BOM",
        "in a long line",
        "in a long Chinese line",
    ],
)
@pytest.mark.parametrize("bad", [b"\xff", b"\x00", b"\xe4\xbd"])
def test_a_bad_byte_is_reported_with_file_and_offset(
    tmp_path: Path, before: bytes, offset: int, bad: bytes
) -> None:
    path = write(tmp_path, before + bad + b"\nmore\n")
    with pytest.raises(BertError) as caught:
        read(path)
    assert str(path) in caught.value.message
    assert re.search(rf"\bbyte {offset}\b", caught.value.message)
    assert caught.value.hint is not None
    assert "--errors replace" in caught.value.hint


def test_a_character_cut_off_by_the_end_is_reported(tmp_path: Path) -> None:
    path = write(tmp_path, "abc灯".encode()[:-1])
    with pytest.raises(BertError, match=r"not UTF-8 at byte 3 \(0xe7\)"):
        read(path)


def test_offsets_count_the_text_inside_a_compressed_file(
    tmp_path: Path,
) -> None:
    data = gzip.compress(b"one line\n" * 1000 + b"\xff\n")
    with pytest.raises(BertError, match="byte 9000 "):
        read(write(tmp_path, data, "text.txt.gz"))


def test_replace_puts_a_sign_for_bad_bytes_and_goes_on(tmp_path: Path) -> None:
    path = write(tmp_path, b"a\xffb\nc\0d\n\xe4\xbd\nlast\n")
    lines = ["a\ufffdb", "c\ufffdd", "\ufffd", "last"]
    assert read(path, "replace") == lines


def test_replace_leaves_good_text_as_it_is(tmp_path: Path) -> None:
    data = numbered_lines(BLOCK_BYTES + 1000)
    path = write(tmp_path, data)
    assert read(path, "replace") == read(path)


@pytest.mark.parametrize("errors", ["strict", "replace"])
@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
@pytest.mark.parametrize("suffix", [".txt", ".txt.gz"])
def test_utf_16_is_refused_by_name(
    tmp_path: Path, encoding: str, suffix: str, errors: DecodeErrors
) -> None:
    data = "\ufeffone\ntwo\n".encode(encoding)
    path = write(tmp_path, COMPRESS[suffix](data), f"text{suffix}")
    with pytest.raises(BertError, match="UTF-16") as caught:
        read(path, errors)
    assert str(path) in caught.value.message
    assert caught.value.hint is not None
    assert "iconv" in caught.value.hint


# 损坏的文件


@pytest.mark.parametrize("suffix", COMPRESSED)
@pytest.mark.parametrize("kept", [0.3, 0.9, 0.9999])
def test_a_truncated_file_is_an_error_not_a_shorter_text(
    tmp_path: Path, suffix: str, kept: float
) -> None:
    data = COMPRESS[suffix](os.urandom(50_000).hex().encode())
    path = write(tmp_path, data[: int(len(data) * kept)], f"text{suffix}")
    with pytest.raises(BertError, match="cannot be read") as caught:
        read(path)
    assert str(path) in caught.value.message
    assert caught.value.hint is not None
    assert "truncated" in caught.value.hint


@pytest.mark.parametrize("suffix", COMPRESSED)
def test_a_file_that_is_not_compressed_at_all_is_refused(
    tmp_path: Path, suffix: str
) -> None:
    path = write(tmp_path, b"plain text under a wrong name\n", f"text{suffix}")
    with pytest.raises(BertError, match="cannot be read"):
        read(path)


@pytest.mark.parametrize("suffix", [".txt.gz", ".txt.xz"])
def test_a_damaged_file_is_refused(tmp_path: Path, suffix: str) -> None:
    data = bytearray(COMPRESS[suffix](numbered_lines(100_000)))
    data[len(data) // 2] ^= 0xFF
    path = write(tmp_path, bytes(data), f"text{suffix}")
    with pytest.raises(BertError, match="cannot be read"):
        read(path)


def test_a_missing_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(BertError, match=r"Cannot open .*gone\.txt: No such"):
        read(tmp_path / "gone.txt")


def test_a_folder_is_not_read_as_a_file(tmp_path: Path) -> None:
    with pytest.raises(BertError, match="directory"):
        read(tmp_path)


# 找文件


def test_a_folder_is_searched_for_text_in_a_fixed_order(
    tmp_path: Path,
) -> None:
    names = ["b.txt", "a.txt.zst", "deep/er/c.txt.gz", "deep/d.txt.xz"]
    for name in [*names, "notes.md", "z.gz", "txt", "picture.png"]:
        write(tmp_path, b"", name)
    (tmp_path / "folder.txt").mkdir()
    found = find_files([tmp_path])
    assert found == sorted(tmp_path / name for name in names)


def test_paths_keep_the_order_given_and_stand_once(tmp_path: Path) -> None:
    b, a = write(tmp_path, b"", "b.txt"), write(tmp_path, b"", "a.txt")
    assert find_files([b, a]) == [b, a]
    assert find_files([b, tmp_path, str(a)]) == [b, a]


def test_a_file_named_outright_may_have_any_name(tmp_path: Path) -> None:
    path = write(tmp_path, b"", "corpus.dat")
    assert find_files([path]) == [path]


def test_patterns_are_expanded_and_sorted(tmp_path: Path) -> None:
    for name in ["b2.txt", "b1.txt", "c.txt", "sub/b3.txt", "sub/x.md"]:
        write(tmp_path, b"", name)
    assert find_files([str(tmp_path / "b*.txt")]) == [
        tmp_path / "b1.txt",
        tmp_path / "b2.txt",
    ]
    assert find_files([str(tmp_path / "**" / "b*.txt")]) == [
        tmp_path / "b1.txt",
        tmp_path / "b2.txt",
        tmp_path / "sub/b3.txt",
    ]
    assert find_files([str(tmp_path / "su*")]) == [tmp_path / "sub/b3.txt"]


def test_a_name_that_looks_like_a_pattern_is_a_name_first(
    tmp_path: Path,
) -> None:
    odd = write(tmp_path, b"", "[ab].txt")
    write(tmp_path, b"", "a.txt")
    assert find_files([str(odd)]) == [odd]


def test_a_folder_without_text_is_an_error(tmp_path: Path) -> None:
    write(tmp_path, b"", "notes.md")
    with pytest.raises(BertError, match="holds no text files") as caught:
        find_files([tmp_path])
    assert str(tmp_path) in caught.value.message
    assert caught.value.hint is not None
    assert ".txt.zst" in caught.value.hint


@pytest.mark.parametrize("name", ["gone.txt", "gone", "*.txt", "no/such/*"])
def test_a_path_that_is_not_there_is_an_error(
    tmp_path: Path, name: str
) -> None:
    with pytest.raises(BertError, match="no file or folder") as caught:
        find_files([str(tmp_path / name)])
    assert str(tmp_path / name) in caught.value.message


def test_no_paths_at_all_are_an_error() -> None:
    with pytest.raises(BertError, match="No text files were given"):
        find_files([])


@pytest.mark.parametrize("pattern", ["broken.txt", "*.txt"])
def test_a_broken_link_is_an_error(tmp_path: Path, pattern: str) -> None:
    (tmp_path / "broken.txt").symlink_to(tmp_path / "gone")
    with pytest.raises(BertError, match=r"\.txt"):
        find_files([str(tmp_path / pattern)])


def test_a_name_too_long_for_the_system_is_an_error() -> None:
    with pytest.raises(BertError, match="too long"):
        find_files(["a text typed where a file is asked for " * 10])


def test_a_pipe_is_refused_because_it_cannot_be_read_twice(
    tmp_path: Path,
) -> None:
    path = tmp_path / "pipe.txt"
    os.mkfifo(path)
    with pytest.raises(BertError, match=r"pipe\.txt"):
        find_files([path])
