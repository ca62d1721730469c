"""Task files as text, lines or JSON; every failure names the place."""

import json
from pathlib import Path
from typing import Any

from bert_from_scratch.errors import BertError


def read_text(path: Path) -> str:
    """Reads a whole UTF-8 file; a byte order mark is dropped.

    Raises:
        BertError: It cannot be opened, is empty, or is not UTF-8.
    """
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise BertError(f"There is no file {path}.") from None
    except OSError as error:
        raise BertError(f"Cannot open {path}: {error.strerror}.") from error
    try:
        text = data.decode("utf-8").removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        # 字节号给工具用，行号给编辑器用，两个都说
        line = data.count(b"\n", 0, error.start) + 1
        raise BertError(
            f"{path} is not UTF-8 at byte {error.start} "
            f"(0x{data[error.start]:02x}), line {line}.",
            hint=f"convert it: iconv -f ENCODING -t UTF-8 {path.name}",
        ) from error
    if not text.strip():
        raise BertError(f"{path} is empty.")
    return text


def read_lines(path: Path) -> list[str]:
    r"""Reads lines that end in \n or \r\n, without the blank ones at the end.

    Other characters that some call a line end, such as U+2028, stay where
    they are: they are part of a text.
    """
    # 不用 splitlines：它会在 U+2028 等字符处断行，之后的行号全部错位
    lines = [line.removesuffix("\r") for line in read_text(path).split("\n")]
    while not lines[-1]:
        lines.pop()
    return lines


def read_json(path: Path) -> Any:
    """Reads a JSON file of any shape."""
    return parse_json(read_text(path), str(path))


def parse_json(text: str, place: str) -> Any:
    """Reads a piece of JSON, or says where it is none.

    Args:
        text: What to read.
        place: Where it comes from, for the message.
    """
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        # 单行的 JSON 已在 place 里写明行号，不再重复
        where = f"line {error.lineno}, " if "\n" in text else ""
        raise BertError(
            f"{place} is not JSON: {error.msg} ({where}column {error.colno})."
        ) from error
    # 恶意的深层嵌套会耗尽调用栈，几千位的整数 Python 不读：都不能让用户看到回溯
    except RecursionError:
        raise BertError(f"{place} is not JSON: nested too deeply.") from None
    except ValueError as error:
        raise BertError(f"{place} holds too long a number.") from error
