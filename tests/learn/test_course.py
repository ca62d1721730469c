"""The course in docs/ is what the code says today, in both languages."""

import re
from pathlib import Path

import pytest

from bert_from_scratch.errors import BertError
from bert_from_scratch.learn.cards.content import load_parts
from bert_from_scratch.learn.cards.pages import cards_page, questions_page
from bert_from_scratch.learn.course import (
    TEACHERS,
    index,
    teach,
    write_course,
)
from bert_from_scratch.learn.language import LANGUAGES, Language
from bert_from_scratch.learn.lesson import Code, Formula, Items, Matrix, Table
from bert_from_scratch.learn.markdown import to_markdown
from bert_from_scratch.learn.materials import Materials
from bert_from_scratch.learn.syllabus import TOPICS

COURSE_DIR = Path(__file__).parents[2] / "docs" / "course"
QUICK = ("attention", "pipeline", "losses", "history")
NUMBER = re.compile(r"[-+]?\d[\d,]*(?:\.\d+)?(?:e[-+]?\d+)?%?")


@pytest.fixture(scope="module")
def materials() -> Materials:
    """The real ones; a quick lesson never makes the slow parts."""
    return Materials()


@pytest.fixture(scope="module")
def short_materials() -> Materials:
    return Materials(num_epochs=2)


def assert_same_page(made: str, kept: str) -> None:
    """Compares text exactly, numbers as numbers."""
    assert NUMBER.sub("#", made) == NUMBER.sub("#", kept)
    pairs = zip(NUMBER.findall(made), NUMBER.findall(kept), strict=True)
    for left, right in pairs:
        # 没有误差时写作 0，别的机器上可能是 2e-07：那不是整数之间的不同
        is_error = "e" in left + right
        if re.fullmatch(r"[-+]?[\d,]+", left) and not is_error:
            assert left == right
            continue
        one, two = (float(re.sub("[,%]", "", text)) for text in (left, right))
        # 最后一位可能因机器不同而进退一格；近乎为零的误差另有测试管
        digits = len(left.rstrip("%").partition(".")[2])
        step = 1e-5 if is_error else 1.1 * 10**-digits
        assert one == pytest.approx(two, rel=0.05, abs=step), (left, right)


def test_the_syllabus_names_every_lesson_and_no_other() -> None:
    assert [topic.name for topic in TOPICS] == list(TEACHERS)


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("name", QUICK)
def test_a_quick_page_is_what_the_code_says_today(
    name: str, language: Language, materials: Materials
) -> None:
    kept = (COURSE_DIR / language / f"{name}.md").read_text("utf-8")
    made = to_markdown(teach(name, language, materials))
    assert_same_page(made, kept)


@pytest.mark.slow
@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("name", sorted(TEACHERS.keys() - set(QUICK)))
def test_a_trained_page_is_what_the_code_says_today(
    name: str, language: Language, materials: Materials
) -> None:
    kept = (COURSE_DIR / language / f"{name}.md").read_text("utf-8")
    made = to_markdown(teach(name, language, materials))
    assert_same_page(made, kept)


def test_the_index_is_what_the_code_says_and_its_links_lead_somewhere() -> None:
    kept = (COURSE_DIR / "README.md").read_text("utf-8")
    assert kept == index()
    links = re.findall(r"\]\(([^)]+)\)", kept)
    assert len(links) == (len(TOPICS) + 2) * len(LANGUAGES)
    assert all((COURSE_DIR / link).is_file() for link in links)


@pytest.mark.parametrize("name", sorted(TEACHERS))
def test_both_languages_show_the_same_things(
    name: str, short_materials: Materials
) -> None:
    english, chinese = (
        teach(name, language, short_materials) for language in LANGUAGES
    )
    assert [type(b) for b in english.blocks] == [
        type(b) for b in chinese.blocks
    ]
    for left, right in zip(english.blocks, chinese.blocks, strict=True):
        if isinstance(left, Code | Formula):
            assert left == right
        if isinstance(left, Matrix) and isinstance(right, Matrix):
            assert left.digits == right.digits
            if name != "pipeline":
                assert (left.values == right.values).all()
        if isinstance(left, Table) and isinstance(right, Table):
            assert len(left.columns) == len(right.columns)
        if isinstance(left, Items) and isinstance(right, Items):
            assert len(left.points) == len(right.points)


@pytest.mark.parametrize("name", sorted(TEACHERS))
def test_a_chinese_page_is_chinese_and_an_english_one_is_not(
    name: str, short_materials: Materials
) -> None:
    # 代码块里的中文注释两种页面都有，先去掉
    pages = [
        re.sub(
            r"(?s)```.*?```",
            "",
            to_markdown(teach(name, language, short_materials)),
        )
        for language in LANGUAGES
    ]
    counts = [len(re.findall("[\u4e00-\u9fff]", page)) for page in pages]
    limit = 60 if name == "history" else 0
    assert counts[0] <= limit
    assert counts[1] > 200


@pytest.mark.parametrize("name", sorted(TEACHERS))
def test_chinese_prose_has_chinese_punctuation(
    name: str, short_materials: Materials
) -> None:
    page = to_markdown(teach(name, "zh", short_materials))
    prose = re.sub(r"(?s)```.*?```|`[^`]*`", "", page)
    han = "[\u4e00-\u9fff]"
    # 逗号可以在公式和向量里；冒号后面空一格，只能是英文的写法
    wrong = rf"{han} ?[,:;?!]|[,:;?!] ?{han}|\w: \w"
    assert not re.findall(wrong, prose)


def test_the_chinese_of_the_lessons_is_that_of_the_cards(
    short_materials: Materials,
) -> None:
    pages = [
        *(to_markdown(teach(n, "zh", short_materials)) for n in TEACHERS),
        index(),
        *(write(load_parts(), "zh") for write in (cards_page, questions_page)),
    ]
    # 一物一名：词元、掩码语言模型、样例、轮
    for other in ("词片", "遮盖语言模型", "样本", "个 epoch"):
        assert not any(other in page for page in pages), other


@pytest.mark.parametrize("name", ["minibert", "positions"])
@pytest.mark.parametrize(
    ("language", "introduction", "mention"),
    [
        ("en", "a tutorial that builds", r"the tutorial|The tutorial"),
        ("zh", "一篇教程", "教程"),
    ],
)
def test_the_tutorial_is_introduced_before_it_is_named(
    name: str,
    language: Language,
    introduction: str,
    mention: str,
    short_materials: Materials,
) -> None:
    page = to_markdown(teach(name, language, short_materials))
    assert introduction in page
    rest = page.partition(introduction)
    assert not re.search(mention, rest[0])
    assert re.search(mention, rest[2])
    assert not re.search("[Tt]he document|文档", page)
    assert introduction in index()


def test_writing_makes_every_page(tmp_path: Path) -> None:
    paths = write_course(tmp_path / "new" / "course", Materials(num_epochs=2))
    assert len(paths) == 1 + (len(TOPICS) + 2) * len(LANGUAGES)
    assert paths[0].read_text("utf-8") == index()
    for path in paths:
        assert path.read_text("utf-8").startswith("# ")


def test_a_file_in_the_way_is_refused_before_any_work(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("x")
    with pytest.raises(BertError, match="is a file"):
        write_course(path / "course", Materials())
