"""`bert verify`: is this really a BERT, and is every claim about it true?"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from rich.cells import cell_len

from bert_from_scratch.cli.console import print_json, report_stages, say
from bert_from_scratch.cli.options import JsonFlag

if TYPE_CHECKING:
    from bert_from_scratch.analysis.verify.check import Language, Outcome
    from bert_from_scratch.analysis.verify.suite import Results

EXAMPLE = (
    'Example: bert verify my-bert --text "我喜欢学习人工[MASK]" --out report '
    "--language zh"
)


def verify(
    model: Annotated[Path, typer.Argument(help="Model or run directory.")],
    out: Annotated[
        Path, typer.Option(help="Folder for results.json and report.md.")
    ],
    text: Annotated[
        list[str] | None,
        typer.Option(
            help="Text to try the model on, with or without [MASK]; may be "
            "given several times."
        ),
    ] = None,
    language: Annotated[
        Literal["en", "zh"], typer.Option(help="Of the report.")
    ] = "en",
    as_json: JsonFlag = False,
) -> None:
    """Check a model by measurement; exit code 1 when a check fails."""
    from bert_from_scratch.analysis.verify.report import check_out, save
    from bert_from_scratch.analysis.verify.subject import Subject
    from bert_from_scratch.analysis.verify.suite import verify as run

    check_out(out)
    subject = Subject.load(model, text or ())
    with report_stages() as progress:
        results = run(subject, progress=progress)
    save(results, out, language)
    if as_json:
        print_json(results.to_dict())
    else:
        _show(results, language)
    say(f"Wrote {out / 'report.md'} and {out / 'results.json'}.")
    if results.verdict == "fail":
        raise typer.Exit(1)


def _show(results: "Results", language: "Language") -> None:
    """Prints one line a check, and under it what did not hold."""
    from bert_from_scratch.analysis.verify.report import VERDICTS

    words = {v: word.in_language(language) for v, word in VERDICTS.items()}
    width = max(cell_len(word) for word in words.values())
    longest = max(len(o.check.identifier) for o in results.outcomes)
    for outcome in results.outcomes:
        word = words[outcome.verdict]
        # 汉字占两格：按显示宽度补空格，列才对得齐
        padding = " " * (width - cell_len(word))
        print(
            f"{word}{padding}  {outcome.check.identifier:<{longest}}  "
            f"{outcome.check.title.in_language(language)}"
        )
        _show_problems(outcome, language)


def _show_problems(outcome: "Outcome", language: "Language") -> None:
    from bert_from_scratch.analysis.verify.report import format_value

    must_be = "应为" if language == "zh" else "must be"
    if outcome.reason is not None:
        print(f"    {outcome.reason.in_language(language)}")
    for measurement in outcome.measurements:
        if not measurement.holds:
            print(
                f"    {measurement.name.in_language(language)}: "
                f"{format_value(measurement.value, language)} "
                f"({must_be} {measurement.relation} "
                f"{format_value(measurement.bound, language)})"
            )
