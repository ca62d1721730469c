"""`bert predict`: whatever task the model directory holds."""

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from bert_from_scratch.cli.console import print_json, say
from bert_from_scratch.cli.options import DeviceOption
from bert_from_scratch.errors import BertError

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
            help="One text or JSON object a line; - is stdin.",
        ),
    ] = None,
    batch_tokens: Annotated[
        int, typer.Option(help="Tokens that go through at once.")
    ] = 8192,
    device: DeviceOption = "auto",
) -> None:
    """Predict labels, numbers, choices, names or answers, as JSON lines."""
    if bool(texts) == (input_path is not None):
        raise BertError(
            "Give texts or --input FILE, one of them.",
            hint="- as FILE is stdin",
        )
    if batch_tokens < 1:
        raise BertError(f"--batch-tokens must be at least 1: {batch_tokens}.")
    from bert_from_scratch.predict.task import TaskPredictor

    predictor = TaskPredictor.load(model, device)
    if texts:
        for line in predictor.predict_texts(texts):
            print_json(line)
        return
    assert input_path is not None
    count = 0
    with _open(input_path) as lines:
        for line in predictor.predict_lines(
            lines, _name(input_path), batch_tokens=batch_tokens
        ):
            print_json(line)
            count += 1
    if count == 0:
        raise BertError(f"{_name(input_path)} is empty.")
    say(f"Predicted {count:,}.")


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
