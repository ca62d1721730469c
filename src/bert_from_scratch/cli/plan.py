"""`bert plan`: what a run will take, before it runs."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from bert_from_scratch.cli.console import print_json, print_table, say
from bert_from_scratch.cli.options import (
    AccumulateOption,
    AddTokensOption,
    BatchTokensOption,
    CompileFlag,
    ConfigOption,
    DeviceOption,
    DropoutOption,
    EpochsOption,
    InitOption,
    JsonFlag,
    MaxLengthOption,
    MinutesOption,
    NoNspFlag,
    OptimizerOption,
    PhasesOption,
    PrecisionOption,
    PresetOption,
    RecomputeFlag,
    StepsOption,
)
from bert_from_scratch.cli.recipe import (
    RecipeOption,
    recipe_value,
    unless_replaced,
)
from bert_from_scratch.cli.training_progress import format_time

EXAMPLE = "Example: bert plan my-data --preset base --epochs 10 --price 2.50"


def plan(
    context: typer.Context,
    data: Annotated[Path, typer.Argument(help="Token shards of bert prepare.")],
    recipe: RecipeOption = None,
    preset: PresetOption = None,
    config: ConfigOption = None,
    init: InitOption = None,
    add_tokens: AddTokensOption = None,
    steps: StepsOption = None,
    epochs: EpochsOption = None,
    minutes: MinutesOption = None,
    batch_tokens: BatchTokensOption = None,
    max_length: MaxLengthOption = None,
    phases: PhasesOption = None,
    optimizer: OptimizerOption = "adamw",
    dropout: DropoutOption = None,
    accumulate: AccumulateOption = 1,
    no_nsp: NoNspFlag = False,
    precision: PrecisionOption = "auto",
    compiles: CompileFlag = None,
    recompute: RecomputeFlag = False,
    price: Annotated[
        float | None, typer.Option(help="Of an hour of this machine.", min=0)
    ] = None,
    trial: Annotated[
        float, typer.Option(help="Seconds to measure each phase.", min=0.1)
    ] = 10.0,
    device: DeviceOption = "auto",
    as_json: JsonFlag = False,
) -> None:
    """Measure some steps here, and say what the whole run will take."""
    from bert_from_scratch.train.defaults import make_plan
    from bert_from_scratch.train.trial import forecast

    del recipe  # its callback has set the defaults
    found = forecast(
        make_plan(
            data,
            preset=unless_replaced(context, "preset", preset),
            config_path=config,
            init_dir=init,
            words_path=add_tokens,
            batch_tokens=batch_tokens,
            max_length=max_length,
            phases=unless_replaced(context, "phases", phases),
            no_nsp=no_nsp,
            recomputes=recompute,
            precision=precision,
            compiles=compiles,
            dropout=dropout,
            optimizer=optimizer,
            device=device,
            steps=steps,
            epochs=epochs,
            minutes=unless_replaced(context, "minutes", minutes),
            num_accumulated=accumulate,
            evaluate_every=recipe_value(context, "eval_every", 500),
        ),
        trial,
    )
    hours = found.seconds / 3600
    cost = None if price is None else hours * price
    if as_json:
        print_json({**asdict(found), "hours": hours, "cost": cost})
        return
    rows = [
        ("weights", f"{found.num_parameters:,}"),
        ("steps", f"{found.num_steps:,}"),
        ("epochs", f"{found.num_epochs:.2f}"),
        ("tokens", f"{found.num_tokens:,}"),
        ("speed", f"{found.tokens_per_second:,.0f} tokens/s"),
        ("memory", f"{found.peak_bytes / 2**30:.2f} GiB"),
        ("time", f"{format_time(found.seconds)} ({hours:.2f} hours)"),
    ]
    if cost is not None:
        rows.append(("cost", f"{cost:,.2f}"))
    print_table(rows)
    say(f"Start it: bert pretrain {data} --out my-run, with the same options.")
