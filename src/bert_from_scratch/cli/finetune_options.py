"""Options that all `bert finetune` commands have."""

import functools
import inspect
import typing
from collections.abc import Callable
from dataclasses import MISSING, dataclass, fields
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from bert_from_scratch.cli.options import DeviceOption, JsonFlag


@dataclass(frozen=True)
class FinetuneOptions:
    """What is given on the command line, for any task."""

    out: Annotated[Path, typer.Option(help="Result directory to make.")]
    train: Annotated[
        Path | None, typer.Option(help="File or folder to train on.")
    ] = None
    dev: Annotated[
        Path | None, typer.Option(help="File or folder to judge by.")
    ] = None
    test: Annotated[
        Path | None, typer.Option(help="Scored once, at the very end.")
    ] = None
    recipe: Annotated[
        str | None,
        typer.Option(help="Built-in recipe, such as sst2 or squad."),
    ] = None
    data: Annotated[
        Path | None, typer.Option(help="Folder with the recipe's files.")
    ] = None
    seeds: Annotated[
        int, typer.Option(help="So many seeds: mean and deviation.")
    ] = 1
    seed: Annotated[int, typer.Option(help="The first seed.")] = 0
    lr: Annotated[
        str | None,
        typer.Option(
            help="Learning rate, or a grid: 5e-5,3e-5,2e-5; grid: the paper's."
        ),
    ] = None
    epochs: Annotated[
        int | None,
        typer.Option(
            help="Passes; by default 3, the recipe's, or 8 without BERT."
        ),
    ] = None
    batch_size: Annotated[
        int | None,
        typer.Option(help="Examples a step; by default 32 or the recipe's."),
    ] = None
    batch_tokens: Annotated[
        int | None, typer.Option(help="Tokens at once; bounds the memory.")
    ] = None
    max_length: Annotated[
        int | None, typer.Option(help="Longest sequence in tokens.")
    ] = None
    warmup: Annotated[
        float, typer.Option(help="Share of steps in which the rate rises.")
    ] = 0.1
    weight_decay: Annotated[float, typer.Option(help="Of matrices.")] = 0.01
    freeze_layers: Annotated[
        int, typer.Option(help="Do not train embeddings and K first layers.")
    ] = 0
    layer_decay: Annotated[
        float, typer.Option(help="Rate of a layer over that of the next.")
    ] = 1.0
    patience: Annotated[
        int | None,
        typer.Option(help="Early stopping after so many epochs; keep best."),
    ] = None
    attention_dropout: Annotated[
        float | None,
        typer.Option(help="Of attention weights; by default the model's own."),
    ] = None
    limit: Annotated[
        int | None, typer.Option(help="Train on so many examples at most.")
    ] = None
    dev_limit: Annotated[
        int | None, typer.Option(help="Judge by so many examples at most.")
    ] = None
    metric: Annotated[
        str | None, typer.Option(help="The score that decides.")
    ] = None
    precision: Annotated[
        Literal["auto", "fp32", "bf16"],
        typer.Option(help="auto: bf16 on a GPU, else fp32."),
    ] = "auto"
    compiles: Annotated[
        bool, typer.Option("--compile", help="Use torch.compile.")
    ] = False
    threads: Annotated[
        int | None, typer.Option(help="On a CPU; by default PyTorch's choice.")
    ] = None
    log_every: Annotated[
        int, typer.Option(help="Steps between lines of metrics.")
    ] = 10
    checkpoint_every: Annotated[
        int, typer.Option(help="Steps between checkpoints; one an epoch too.")
    ] = 1000
    device: DeviceOption = "auto"
    as_json: JsonFlag = False


def takes_finetune_options(
    function: Callable[..., None],
) -> Callable[..., None]:
    """Gives a command all fields of `FinetuneOptions` as options.

    The command itself has one argument `options`.
    """
    own = inspect.signature(function, eval_str=True)
    hints = typing.get_type_hints(FinetuneOptions, include_extras=True)
    shared = [
        inspect.Parameter(
            field.name,
            inspect.Parameter.KEYWORD_ONLY,
            annotation=hints[field.name],
            default=inspect.Parameter.empty
            if field.default is MISSING
            else field.default,
        )
        for field in fields(FinetuneOptions)
    ]

    @functools.wraps(function)
    def command(**given: Any) -> None:
        options = FinetuneOptions(**{p.name: given.pop(p.name) for p in shared})
        function(**given, options=options)

    kept = [
        parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY)
        for name, parameter in own.parameters.items()
        if name != "options"
    ]
    # typer 从签名读出选项：把共有的接在各命令自己的后面，免得写五遍
    command.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [*kept, *shared]
    )
    command.__annotations__ = {p.name: p.annotation for p in (*kept, *shared)}
    return command
