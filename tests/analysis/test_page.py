"""The page: whole in one file, and nothing in its data can break out."""

import base64
import hashlib
import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from hatchling.builders.wheel import WheelBuilder
from hypothesis import given
from hypothesis import strategies as st

from bert_from_scratch.analysis.page import SCRIPTS, build_page, to_safe_json

ROOT = Path(__file__).parents[2]
ASSETS = ROOT / "src" / "bert_from_scratch" / "analysis" / "page"
NASTY = '</script><script>alert(1)</script> "&<!-- \u2028\u2029 {{style}}'


class Outline(HTMLParser):
    """Collects tags with their attributes and text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text: dict[str, list[str]] = {}
        self.feed(page)

    def handle_starttag(
        self, tag: str, attrs: list[tuple[str, str | None]]
    ) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        if self.tags:
            self.text.setdefault(self.tags[-1][0], []).append(data)


def test_data_comes_back_and_never_ends_its_script() -> None:
    page = build_page(NASTY, {"text": NASTY})
    outline = Outline(page)
    scripts = [attrs for tag, attrs in outline.tags if tag == "script"]
    assert scripts == [{"type": "application/json", "id": "data"}, {}]
    assert json.loads(outline.text["script"][0]) == {"text": NASTY}
    assert page.count("alert(1)") == 2
    assert "&lt;/script&gt;&lt;script&gt;alert(1)" in page


@given(text=st.text(st.characters(exclude_categories=["Cs"])))
def test_safe_json_has_no_markup_and_loses_nothing(text: str) -> None:
    written = to_safe_json({"text": text})
    assert not set(written) & set("<>&\u2028\u2029")
    assert json.loads(written) == {"text": text}


def test_the_policy_allows_this_script_and_style_alone() -> None:
    page = build_page("t", {})
    outline = Outline(page)
    (policy,) = (
        str(attrs["content"])
        for tag, attrs in outline.tags
        if attrs.get("http-equiv") == "Content-Security-Policy"
    )
    style = page.split("<style>")[1].split("</style>")[0]
    script = page.split("<script>")[1].split("</script>")[0]
    for text in (style, script):
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest())
        assert f"'sha256-{digest.decode()}'" in policy
    assert policy.startswith("default-src 'none';")
    assert "unsafe" not in policy


def test_nothing_is_fetched() -> None:
    page = build_page("t", {})
    names = {name for _, attrs in Outline(page).tags for name in attrs}
    assert not names & {"src", "srcset", "style", "onclick", "onload"}
    # SVG 的命名空间只是一个名字，不会被访问
    links = set(re.findall(r"\w+://[^\s\"'`)]+", page))
    assert links == {"http://www.w3.org/2000/svg"}
    assert "@import" not in page
    assert "url(" not in page


def test_english_and_chinese_have_words_for_the_same_things() -> None:
    english, chinese = (
        re.findall(r"^  (\w+):", (ASSETS / name).read_text("utf-8"), re.M)
        for name in ("english.js", "chinese.js")
    )
    assert len(english) > 70
    assert english == chinese
    everything = "".join((ASSETS / name).read_text("utf-8") for name in SCRIPTS)
    markup = (ASSETS / "page.html").read_text(encoding="utf-8")
    wanted = set(re.findall(r'data-(?:word|label)="(\w+)"', markup))
    wanted |= set(re.findall(r'\bword\("(\w+)"', everything))
    assert wanted <= set(english)


def test_chinese_words_have_chinese_punctuation_and_one_name_for_a_token() -> (
    None
):
    text = (ASSETS / "chinese.js").read_text(encoding="utf-8")
    assert "词片" not in text
    assert "词元" in text
    # 汉字、引号或插入的值之后，不跟半角的逗号、冒号或句号
    said = re.findall(r'["`](.*?)["`]', text)
    wrong = [s for s in said if re.search(r"[一-鿿”}][,:;.]( |$|[一-鿿“])", s)]
    assert wrong == []


def test_no_scheme_is_called_dark_in_words_for_both() -> None:
    for name in ("english.js", "chinese.js"):
        text = (ASSETS / name).read_text(encoding="utf-8")
        assert not re.search("darkest|最深", text)


def test_every_script_is_in_the_page_and_every_file_is_used() -> None:
    files = {path.name for path in ASSETS.iterdir()}
    assert files == {*SCRIPTS, "page.html", "page.css"}


def test_a_long_title_is_cut() -> None:
    page = build_page("word " * 100, {})
    title = page.split("<title>")[1].split("</title>")[0]
    assert len(title) == 80
    assert title.endswith("…")


@pytest.mark.parametrize("name", ["page.html", "page.css", "page.js"])
def test_the_wheel_carries_the_assets(name: str) -> None:
    builder = WheelBuilder(str(ROOT))
    inside = {
        file.distribution_path for file in builder.recurse_included_files()
    }
    assert f"bert_from_scratch/analysis/page/{name}" in inside
