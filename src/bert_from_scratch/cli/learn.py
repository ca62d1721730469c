"""`bert learn`: the course in the terminal, or as a folder of pages."""

from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from bert_from_scratch.cli import learn_cards
from bert_from_scratch.cli.console import report_stages, say
from bert_from_scratch.errors import BertError
from bert_from_scratch.learn.language import Language, speaker
from bert_from_scratch.learn.syllabus import NUM_EPOCHS, SEED, TOPICS

LanguageOption = Annotated[Language, typer.Option(help="English or Chinese.")]
EpochsOption = Annotated[
    int, typer.Option(help="How often MiniBert reads its sentences.")
]
SeedOption = Annotated[
    int, typer.Option(help="Decides MiniBert's weights, masks and dropout.")
]


class LessonGroup(TyperGroup):
    """A group of commands that answers a wrong name with the right ones."""

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Returns a lesson or another command of the course."""
        found = super().get_command(ctx, cmd_name)
        if found is None:
            raise BertError(
                f"There is no lesson {cmd_name!r}.",
                hint=f"choose one of {', '.join(self.list_commands(ctx))}",
            )
        return found


app = typer.Typer(
    cls=LessonGroup,
    help="The course: every number inside BERT, from paper and pencil on.",
    invoke_without_command=True,
    epilog="Example: bert learn attention --language zh",
)


@app.callback()
def list_lessons(ctx: typer.Context, language: LanguageOption = "en") -> None:
    """The course: every number inside BERT, from paper and pencil on."""
    if ctx.invoked_subcommand is not None:
        # 语言写在课名前面也算数
        ctx.default_map = {ctx.invoked_subcommand: {"language": language}}
        return
    pick = speaker(language)
    for topic in TOPICS:
        print(
            f"{topic.name:<10} {topic.title(language)}{pick(': ', '：')}"
            f"{topic.summary(language)}"
        )
    say(
        pick(
            "Start with: bert learn attention (--language zh: 中文). Then "
            "bert learn flashcards, bert learn quiz.",
            "从这里开始：bert learn attention --language zh。然后是 "
            "bert learn flashcards 和 bert learn quiz。",
        )
    )


@app.command(epilog="Example: bert learn attention --language zh")
def attention(language: LanguageOption = "en") -> None:
    """Self-attention by hand: every matrix from X to Z."""
    _show("attention", language)


@app.command(epilog="Example: bert learn minibert --epochs 100")
def minibert(
    language: LanguageOption = "en",
    epochs: EpochsOption = NUM_EPOCHS,
    seed: SeedOption = SEED,
) -> None:
    """MiniBert in NumPy: every gradient by hand, checked and trained."""
    _show("minibert", language, epochs=epochs, seed=seed)


@app.command(epilog="Example: bert learn positions --seed 3")
def positions(
    language: LanguageOption = "en",
    epochs: EpochsOption = NUM_EPOCHS,
    seed: SeedOption = SEED,
) -> None:
    """What a model without positions gets wrong: trains four of them."""
    _show("positions", language, epochs=epochs, seed=seed)


@app.command(epilog="Example: bert learn pipeline --model my-bert")
def pipeline(
    language: LanguageOption = "en",
    model: Annotated[
        Path | None,
        typer.Option(help="Model or run directory; by default a tiny one."),
    ] = None,
    text: Annotated[str | None, typer.Option(help="Segment A.")] = None,
    pair: Annotated[str | None, typer.Option(help="Segment B.")] = None,
) -> None:
    """From text to vectors, with the ids of a model of your own."""
    if (text is None) != (pair is None):
        raise BertError("Give --text and --pair together, or neither.")
    texts = None if text is None or pair is None else (text, pair)
    _show("pipeline", language, model_dir=model, texts=texts)


@app.command(epilog="Example: bert learn losses")
def losses(language: LanguageOption = "en") -> None:
    """Where the MLM and NSP losses come from."""
    _show("losses", language)


@app.command(epilog="Example: bert learn history --language zh")
def history(language: LanguageOption = "en") -> None:
    """What came before BERT, and three forms of one stack."""
    _show("history", language)


@app.command(epilog="Example: bert learn write my-course")
def write(
    directory: Annotated[
        Path, typer.Argument(help="Folder to write.", metavar="DIR")
    ],
) -> None:
    """Write the whole course as Markdown, in English and Chinese."""
    from bert_from_scratch.learn.course import write_course
    from bert_from_scratch.learn.materials import Materials

    with report_stages() as report:
        paths = write_course(directory, Materials(progress=report))
    say(f"Wrote {len(paths)} pages; start at {paths[0]}.")


def _show(
    name: str,
    language: Language,
    *,
    epochs: int = NUM_EPOCHS,
    seed: int = SEED,
    model_dir: Path | None = None,
    texts: tuple[str, str] | None = None,
) -> None:
    if epochs < 1 or seed < 0:
        raise BertError(
            "--epochs must be at least 1 and --seed at least 0, got "
            f"{epochs} and {seed}."
        )
    from bert_from_scratch.cli.lesson_view import print_lesson
    from bert_from_scratch.learn.course import teach
    from bert_from_scratch.learn.materials import Materials

    with report_stages() as report:
        materials = Materials(epochs, seed, model_dir, texts, report)
        lesson = teach(name, language, materials)
    print_lesson(lesson)


learn_cards.register(app)
