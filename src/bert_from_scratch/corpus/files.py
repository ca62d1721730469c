"""Finding text files, and reading them as blocks of lines in little memory."""

import codecs
import glob
import gzip
import lzma
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Literal, Protocol, cast

from bert_from_scratch.errors import BertError

DecodeErrors = Literal["strict", "replace"]

SUFFIXES = (".txt", ".txt.gz", ".txt.xz", ".txt.zst")
BLOCK_BYTES = 1 << 20
ZSTD_BYTES = 256


class _Readable(Protocol):
    def read(self, size: int, /) -> bytes: ...
    def close(self) -> None: ...


@dataclass(frozen=True)
class TextBlock:
    """Some lines of one file.

    Attributes:
        lines: Lines without their ends.
        num_bytes: How much further into the file, as stored, this block
            went; the sum over a file is its size.
    """

    lines: list[str]
    num_bytes: int


def find_files(paths: Iterable[str | Path]) -> list[Path]:
    """Lists text files in a fixed order.

    Args:
        paths: Files of any name, folders (searched for .txt, .txt.gz,
            .txt.xz and .txt.zst, also below), or glob patterns.

    Raises:
        BertError: A path does not exist, or a folder holds no text.
    """
    found: list[Path] = []
    for path in map(Path, paths):
        if _exists(path):
            found += _list_text(path)
        else:
            matches = sorted(map(Path, glob.glob(str(path), recursive=True)))  # noqa: PTH207
            matches = [match for match in matches if match.exists()]
            if not matches:
                raise BertError(f"There is no file or folder {path}.")
            found += [file for match in matches for file in _list_text(match)]
    if not found:
        raise BertError("No text files were given.")
    return list(dict.fromkeys(found))


def _exists(path: Path) -> bool:
    try:
        path.stat()
    except FileNotFoundError:
        return False
    except OSError as error:
        raise BertError(f"Cannot open {path}: {error.strerror}.") from error
    return True


def _list_text(path: Path) -> list[Path]:
    """Returns a file itself, or the text files of a folder."""
    if path.is_file():
        return [path]
    if not path.is_dir():
        raise BertError(
            f"{path} is neither a file nor a folder.",
            hint="text is read more than once; write it to a file first",
        )
    # 排序后再返回：目录的遍历次序因系统而异，而训练必须可重复
    inside = sorted(p for p in path.rglob("*") if _is_text_file(p))
    if not inside:
        raise BertError(
            f"The folder {path} holds no text files.",
            hint=f"expected names that end in {', '.join(SUFFIXES)}",
        )
    return inside


def read_blocks(
    path: Path, errors: DecodeErrors = "strict"
) -> Iterator[TextBlock]:
    r"""Reads a text file in blocks of about one megabyte.

    Lines may end in \n, \r\n or \r; a byte order mark is dropped. A line over
    a megabyte is cut at a space where it has one.

    Args:
        path: UTF-8 text, plain or compressed (.gz, .xz, .zst).
        errors: "strict" stops at a byte that is not UTF-8 text, "replace"
            puts U+FFFD in its place.

    Raises:
        BertError: The file cannot be read; for a bad byte, with its offset.
    """
    with ExitStack() as stack:
        stored = stack.enter_context(_open_stored(path))
        content = stack.enter_context(closing(_decompress(path, stored)))
        position = 0
        for start, data in _cut_at_line_ends(path, content):
            text = _decode(path, start, data, errors)
            lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
            if lines[-1] == "":
                lines.pop()
            num_bytes = stored.tell() - position
            position += num_bytes
            yield TextBlock(lines, num_bytes)


def _is_text_file(path: Path) -> bool:
    # 词表也叫 .txt，但它不是语料：输出目录放在语料目录里时不能读回自己
    is_vocabulary = (
        path.name == "vocab.txt"
        and path.with_name("tokenizer_config.json").exists()
    )
    return path.name.endswith(SUFFIXES) and path.is_file() and not is_vocabulary


def _open_stored(path: Path) -> BinaryIO:
    try:
        return path.open("rb")
    except OSError as error:
        raise BertError(f"Cannot open {path}: {error.strerror}.") from error


def _decompress(path: Path, stored: BinaryIO) -> _Readable:
    match path.suffix:
        case ".gz":
            return cast("_Readable", gzip.GzipFile(fileobj=stored))
        case ".xz":
            return lzma.LZMAFile(stored)
        case ".zst":
            return _ZstdReader(stored)
        case _:
            return stored


class _ZstdReader:
    """Reads zstd frames; unlike the library's reader, never half of one."""

    def __init__(self, stored: BinaryIO) -> None:
        # Python 3.11 的标准库没有 zstd，用到时才导入第三方库
        import zstandard

        self._stored = stored
        self._decompressor = zstandard.ZstdDecompressor()
        self._frame = self._decompressor.decompressobj()
        self._is_inside = False
        self._content = b""

    def read(self, size: int, /) -> bytes:
        # 每次只喂很少的压缩数据：几十字节也可能展开成几兆，内存要有上界
        pieces = [self._content]
        num_bytes = len(self._content)
        while num_bytes < size and (data := self._stored.read(ZSTD_BYTES)):
            pieces.append(self._decompress(data))
            num_bytes += len(pieces[-1])
        if not num_bytes and self._is_inside:
            raise EOFError("the compressed text ends too early")
        content = b"".join(pieces)
        self._content = content[size:]
        return content[:size]

    def _decompress(self, data: bytes) -> bytes:
        content = b""
        while data:
            if self._frame.eof:
                self._frame = self._decompressor.decompressobj()
            content += self._frame.decompress(data)
            data = self._frame.unused_data if self._frame.eof else b""
        self._is_inside = not self._frame.eof
        return content

    def close(self) -> None:
        self._stored.close()


def _cut_at_line_ends(
    path: Path, content: _Readable
) -> Iterator[tuple[int, bytes]]:
    """Yields (offset, bytes) that end at line ends, of bounded size."""
    start, rest = 0, b""
    is_mid_line = False
    while data := _read(path, content):
        if start == 0 and not rest:
            _refuse_other_encodings(path, data)
            if data.startswith(codecs.BOM_UTF8):
                start, data = len(codecs.BOM_UTF8), data[3:]
        rest += data
        if is_mid_line:
            # 长行恰好切在行尾之前：剩下的换行符不是一个空行
            rest, num_dropped = _drop_line_end(rest)
            start += num_dropped
        cut = _after_last_line(rest)
        is_mid_line = not cut and len(rest) > BLOCK_BYTES
        if is_mid_line:
            cut = _cut_long_line(rest)
        if cut:
            yield start, rest[:cut]
            start, rest = start + cut, rest[cut:]
    if rest:
        yield start, rest


def _after_last_line(data: bytes) -> int:
    """Returns where the last complete line ends; 0 when none does."""
    # 末尾的 \r 可能是 \r\n 的前一半，等读到下一块再说
    return data.rfind(b"\n") + 1 or data[:-1].rfind(b"\r") + 1


def _drop_line_end(data: bytes) -> tuple[bytes, int]:
    for line_end in (b"\r\n", b"\n", b"\r"):
        if data.startswith(line_end):
            return data[len(line_end) :], len(line_end)
    return data, 0


def _cut_long_line(data: bytes) -> int:
    """Returns where to cut a line that is too long to hold."""
    cut = data.rfind(b" ") + 1
    if cut:
        return cut
    # 没有空格（例如中文）：退到最后一个字符的首字节，不把它切成两半
    cut = len(data) - 1
    while cut > len(data) - 4 and data[cut] & 0xC0 == 0x80:
        cut -= 1
    return cut


def _read(path: Path, content: _Readable) -> bytes:
    try:
        return content.read(BLOCK_BYTES)
    except MemoryError:
        raise
    except Exception as error:
        raise BertError(
            f"{path} cannot be read: {error}.",
            hint="the file is truncated or damaged",
        ) from error


def _refuse_other_encodings(path: Path, data: bytes) -> None:
    for mark in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
        if data.startswith(mark):
            raise BertError(
                f"{path} is UTF-16 text, not UTF-8.",
                hint=f"convert it: iconv -f UTF-16 -t UTF-8 {path.name}",
            )


def _decode(path: Path, start: int, data: bytes, errors: DecodeErrors) -> str:
    if errors == "replace":
        return data.decode("utf-8", "replace").replace("\0", "\ufffd")
    hint = "go on with --errors replace, or repair the file"
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise BertError(
            f"{path} is not UTF-8 at byte {start + error.start} "
            f"(0x{data[error.start]:02x}).",
            hint=hint,
        ) from error
    # NUL 在文本里没有意义，多半是二进制文件或 UTF-16
    if (place := data.find(b"\0")) >= 0:
        raise BertError(
            f"{path} has a NUL byte at byte {start + place}; it is "
            "binary or not UTF-8.",
            hint=hint,
        )
    return text
