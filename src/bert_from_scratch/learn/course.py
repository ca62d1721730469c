"""The whole course: every lesson by its name, and as a folder of pages."""

from collections.abc import Callable
from pathlib import Path

from bert_from_scratch import atomic
from bert_from_scratch.learn.cards.pages import write_cards
from bert_from_scratch.learn.language import LANGUAGES, Language, speaker
from bert_from_scratch.learn.lesson import Lesson
from bert_from_scratch.learn.lessons.attention import attention
from bert_from_scratch.learn.lessons.history import history
from bert_from_scratch.learn.lessons.losses import losses
from bert_from_scratch.learn.lessons.minibert import minibert
from bert_from_scratch.learn.lessons.pipeline import pipeline
from bert_from_scratch.learn.lessons.positions import positions
from bert_from_scratch.learn.markdown import to_markdown
from bert_from_scratch.learn.materials import Materials
from bert_from_scratch.learn.syllabus import TOPICS, TUTORIAL

TEACHERS: dict[str, Callable[[Language, Materials], Lesson]] = {
    "attention": lambda language, _: attention(language),
    "minibert": minibert,
    "positions": positions,
    "pipeline": pipeline,
    "losses": lambda language, _: losses(language),
    "history": lambda language, _: history(language),
}


def teach(name: str, language: Language, materials: Materials) -> Lesson:
    """Computes a lesson.

    Args:
        name: That of a topic of the syllabus.
        language: "en" or "zh".
        materials: What takes time to make; lessons share it.
    """
    return TEACHERS[name](language, materials)


def write_course(directory: Path, materials: Materials) -> list[Path]:
    """Writes lessons, cards and questions as Markdown, and an index.

    Returns:
        The paths of the pages, the index first.
    """
    atomic.check_writable(directory)
    paths = [directory / "README.md"]
    atomic.write_text(paths[0], index())
    for language in LANGUAGES:
        for topic in TOPICS:
            page = to_markdown(teach(topic.name, language, materials))
            paths.append(directory / language / f"{topic.name}.md")
            atomic.write_text(paths[-1], page)
    return paths + write_cards(directory)


def index() -> str:
    """Returns the page that leads to all others, in both languages."""
    lines = [
        "# The course · 课程",
        "",
        "Every number in these pages is computed by the code of this project "
        "when a page is made: `bert learn write docs/course`. Two lessons, "
        f"`minibert` and `positions`, are modelled on {TUTORIAL['en']}, and "
        "quote its figures as it gives them. In the terminal: "
        "`bert learn`. The paper itself, asked and answered: "
        "`bert learn flashcards`, `bert learn quiz`.",
        "",
        "页面里的每个数都由本项目的代码在生成时算出："
        "`bert learn write docs/course`。`minibert` 与 `positions` 两课仿照"
        f"{TUTORIAL['zh']}；引用它的数时照原样。在终端里看："
        "`bert learn --language zh`。论文本身的问与答："
        "`bert learn flashcards`、`bert learn quiz`。",
        "",
        "| English | 中文 | `bert learn` |",
        "|---|---|---|",
    ]
    for topic in TOPICS:
        links = [
            f"[{topic.title(language)}]({language}/{topic.name}.md)"
            f"{speaker(language)(': ', '：')}{topic.summary(language)}"
            for language in LANGUAGES
        ]
        lines.append(f"| {links[0]} | {links[1]} | `{topic.name}` |")
    lines += [
        "| [The paper as flashcards](en/cards.md) | "
        "[论文闪卡](zh/cards.md) | `flashcards` |",
        "| [The paper as questions](en/questions.md), every option explained | "
        "[论文选择题](zh/questions.md)，每个选项都有解释 | `quiz` |",
    ]
    return "\n".join(lines) + "\n"
