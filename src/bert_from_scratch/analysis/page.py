"""The page: HTML, style, scripts and data in one file that needs no network."""

import base64
import hashlib
import html
import json
import re
from collections.abc import Mapping
from importlib.resources import files
from typing import Any

# 合成一个脚本，次序即依赖：文字、数据、颜色、各视图，最后接线
SCRIPTS = (
    "english.js",
    "chinese.js",
    "words.js",
    "dom.js",
    "maps.js",
    "colours.js",
    "head_view.js",
    "matrix_view.js",
    "model_view.js",
    "cls_view.js",
    "tables.js",
    "course_chart.js",
    "predictions.js",
    "page.js",
)
MAX_TITLE = 80

# 这些字符在 <script> 或旧式脚本里有特殊含义，一律写成 JSON 转义
_UNSAFE = {ord(c): f"\\u{ord(c):04x}" for c in "<>&\u2028\u2029"}


def build_page(title: str, values: Mapping[str, Any]) -> str:
    """Makes the page.

    Args:
        title: Shown as the browser's title; cut when it is long.
        values: What the scripts show, ready for JSON.
    """
    style = _read("page.css")
    script = "\n".join(_read(name) for name in SCRIPTS)
    parts = {
        "title": html.escape(_shorten(title)),
        "policy": _policy(style, script),
        "style": style,
        "script": script,
        "data": to_safe_json(values),
    }
    # 一次替换完：数据里若有同样的记号，也不会再被替换
    return re.sub(
        r"\{\{(\w+)\}\}", lambda found: parts[found[1]], _read("page.html")
    )


def to_safe_json(values: Mapping[str, Any]) -> str:
    """Writes JSON that may stand inside a script element of any page."""
    # NaN 不是 JSON，浏览器读不了：宁可在这里停下，也不写一张空白页
    text = json.dumps(
        values, ensure_ascii=False, separators=(",", ":"), allow_nan=False
    )
    return text.translate(_UNSAFE)


def _policy(style: str, script: str) -> str:
    """Returns a content policy: this style, this script, nothing else."""
    return (
        f"default-src 'none'; style-src '{_hash(style)}'; "
        f"script-src '{_hash(script)}'; base-uri 'none'; form-action 'none'"
    )


def _hash(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return f"sha256-{base64.b64encode(digest).decode()}"


def _shorten(title: str) -> str:
    title = " ".join(title.split())
    return title if len(title) <= MAX_TITLE else title[: MAX_TITLE - 1] + "…"


def _read(name: str) -> str:
    folder = files("bert_from_scratch.analysis") / "page"
    return (folder / name).read_text(encoding="utf-8")
