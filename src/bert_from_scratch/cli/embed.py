"""`bert embed`: texts to vectors."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from bert_from_scratch import atomic
from bert_from_scratch.cli.console import (
    print_json,
    progress_bar,
    read_texts,
    say,
)
from bert_from_scratch.cli.options import DeviceOption, JsonFlag
from bert_from_scratch.predict.pooling import Pooling

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

EXAMPLE = (
    "Example: bert embed my-bert --input texts.txt --pooling mean --normalize "
    "--out vectors.npy"
)


def embed(
    model: Annotated[Path, typer.Argument(help="Model or run directory.")],
    texts: Annotated[
        list[str] | None, typer.Argument(help="Texts to embed.")
    ] = None,
    input_path: Annotated[
        Path | None,
        typer.Option("--input", help="File with one text a line; - is stdin."),
    ] = None,
    pooling: Annotated[
        Pooling,
        typer.Option(
            help="[CLS] vector, mean of all tokens, or that mean of the "
            "last four layers side by side."
        ),
    ] = "mean",
    normalize: Annotated[
        bool, typer.Option("--normalize", help="Scale vectors to length 1.")
    ] = False,
    out: Annotated[
        Path | None, typer.Option(help="Write float32 vectors as .npy.")
    ] = None,
    max_length: Annotated[
        int | None, typer.Option(help="Longest text in tokens.")
    ] = None,
    strict: Annotated[
        bool, typer.Option("--strict", help="Too long a text is an error.")
    ] = False,
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
            help="What to compute in; auto: bf16 on a GPU, else fp32. "
            "Vectors are float32 in any case."
        ),
    ] = "auto",
    as_json: JsonFlag = False,
) -> None:
    """Turn texts into vectors, one a text, in their order."""
    lines = read_texts(texts, input_path)
    from bert_from_scratch.predict.embed import Embedder

    embedder = Embedder.load(model, device, precision)
    shape = (len(lines), embedder.width(pooling))
    with _open_array(out, shape) as array, progress_bar() as progress:
        task = progress.add_task("embedding texts", total=len(lines))
        vectors = embedder.embed(
            lines,
            pooling,
            normalize=normalize,
            max_length=max_length,
            strict=strict,
            batch_tokens=batch_tokens,
            out=array,
            progress=lambda count: progress.advance(task, count),
        )
    _show(lines, vectors, pooling, out, as_json)


@contextmanager
def _open_array(
    path: Path | None, shape: tuple[int, int]
) -> "Iterator[NDArray[np.float32] | None]":
    """Yields an array that lies in the file, so memory stays small."""
    if path is None:
        yield None
        return
    import numpy as np

    with atomic.replace_file(path) as temporary_path:
        array = np.lib.format.open_memmap(
            temporary_path, mode="w+", dtype=np.float32, shape=shape
        )
        yield array
        array.flush()


def _show(
    lines: list[str],
    vectors: "NDArray[np.float32]",
    pooling: Pooling,
    out: Path | None,
    as_json: bool,
) -> None:
    count, width = vectors.shape
    if as_json:
        result: dict[str, Any] = {
            "pooling": pooling,
            "count": count,
            "width": width,
        }
        if out is None:
            result["embeddings"] = vectors.tolist()
        else:
            result["out"] = str(out)
        print_json(result)
    elif out is None:
        for line, vector in zip(lines, vectors, strict=True):
            numbers = " ".join(f"{number:+.4f}" for number in vector[:4])
            print(f"[{numbers} ... {width} numbers]  {line}")
    else:
        say(f"Wrote {count:,} vectors of {width} numbers to {out}.")
