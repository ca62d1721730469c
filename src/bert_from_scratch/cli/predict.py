"""`bert predict`: whatever task the model directory holds."""

import sys
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from bert_from_scratch.cli.console import print_json, say
from bert_from_scratch.cli.options import DeviceOption
from bert_from_scratch.errors import BertError

if TYPE_CHECKING:
    from bert_from_scratch.predict.task import TaskPredictor

EXAMPLE = (
    'Example: bert predict my-classifier "What a film!"; bert predict '
    'my-answerer "Who came?" "Anna came home."; bert predict my-model --input '
    "texts.jsonl > answers.jsonl"
)


def predict(
    model: Annotated[Path, typer.Argument(help="Fine-tuned model.")],
    texts: Annotated[
        list[str] | None,
        typer.Argument(
            help="Texts; or a prompt and its choices; or questions and, "
            "last, their context."
        ),
    ] = None,
    input_path: Annotated[
        Path | None,
        typer.Option(
            "--input",
            help="One text or JSON object a line, or the .tsv or .csv "
            "tables of training; - is stdin.",
        ),
    ] = None,
    top: Annotated[
        int, typer.Option(help="Candidates told of an answer or a choice.")
    ] = 5,
    batch_tokens: Annotated[
        int | None,
        typer.Option(
            help="Tokens that go through at once; by default 65,536 on a "
            "GPU, else 8,192."
        ),
    ] = None,
    device: DeviceOption = "auto",
    precision: Annotated[
        Literal["auto", "fp32", "bf16"],
        typer.Option(
            help="What to compute in; auto: bf16 on a GPU, else fp32."
        ),
    ] = "auto",
) -> None:
    """Predict labels, numbers, choices, names or answers, as JSON lines."""
    if texts == ["-"]:
        texts, input_path = None, Path("-")
    if bool(texts) == (input_path is not None):
        raise BertError(
            "Give texts or --input FILE, one of them.",
            hint="- as FILE is stdin",
        )
    if top < 1 or (batch_tokens is not None and batch_tokens < 1):
        raise BertError("--batch-tokens and --top must be at least 1.")
    from bert_from_scratch.predict.task import TaskPredictor

    predictor = TaskPredictor.load(model, device, precision)
    if texts:
        for line in predictor.predict_texts(texts):
            print_json(_shorten(line, top))
        return
    assert input_path is not None
    count = 0
    with _predict_file(predictor, model, input_path, batch_tokens) as found:
        for line in found:
            print_json(_shorten(line, top))
            count += 1
    if count == 0:
        raise BertError(f"{_name(input_path)} is empty.")
    say(f"Predicted {count:,}.")


def _shorten(line: dict[str, Any], top: int) -> dict[str, Any]:
    """Leaves out all but the first candidates."""
    return {
        key: value[:top] if key in ("n_best", "ranking") else value
        for key, value in line.items()
    }


@contextmanager
def _predict_file(
    predictor: "TaskPredictor",
    model: Path,
    path: Path,
    batch_tokens: int | None,
) -> Iterator[Iterable[dict[str, Any]]]:
    """Yields the predictions for a file, as they come."""
    from bert_from_scratch.finetune.loading import read_examples
    from bert_from_scratch.finetune.tasks import read_columns
    from bert_from_scratch.model.directory import find

    task = predictor.task.name
    if path.suffix in (".tsv", ".csv") and task in ("classify", "regress"):
        # 训练用的表格按训练时的列读：表头和标签都不是文字
        columns = read_columns(find(model))
        examples = read_examples(task, path, columns).examples
        yield predictor.predict(examples, batch_tokens=batch_tokens)
        return
    with (
        _open(path) as lines,
        closing(
            predictor.predict_lines(
                lines,
                _name(path),
                batch_tokens=batch_tokens,
                # 管道和键盘不预读：中途停下时，不必等还没来的行
                reads_ahead=path.is_file(),
            )
        ) as found,
    ):
        yield found


def _name(path: Path) -> str:
    return "stdin" if str(path) == "-" else str(path)


@contextmanager
def _open(path: Path) -> Iterator[Iterator[str]]:
    """Yields the lines of a file, as they come."""
    if str(path) == "-":
        yield _decode(sys.stdin.buffer, "stdin")
        return
    try:
        file = path.open("rb")
    except OSError as error:
        raise BertError(f"Cannot read {path}: {error.strerror}.") from error
    with file:
        yield _decode(file, str(path))


def _decode(lines: Iterable[bytes], name: str) -> Iterator[str]:
    for number, line in enumerate(lines, 1):
        try:
            text = line.decode().removeprefix("\ufeff").rstrip("\r\n")
        except UnicodeDecodeError as error:
            raise BertError(
                f"{name}, line {number} is not UTF-8 at byte {error.start}."
            ) from error
        yield text
