"""`bert pretrain`: MLM + NSP on token shards."""

import os
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

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
    is_typed,
    unless_replaced,
)
from bert_from_scratch.cli.training_progress import format_time, show_training
from bert_from_scratch.errors import BertError

if TYPE_CHECKING:
    from bert_from_scratch.train.pretrain import Result
    from bert_from_scratch.train.pretraining_plan import PretrainingPlan

EXAMPLE = (
    "Example: bert pretrain my-data --preset tiny --minutes 5 --out my-run; "
    "bert pretrain --resume my-run"
)
INTERRUPTED = 75


def pretrain(
    context: typer.Context,
    data: Annotated[
        Path | None, typer.Argument(help="Token shards of bert prepare.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Run to make.")] = None,
    resume: Annotated[
        Path | None, typer.Option(help="Run to go on with.")
    ] = None,
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
    lr: Annotated[
        float | None,
        typer.Option(help="Highest learning rate; by default by the width."),
    ] = None,
    warmup_steps: Annotated[
        int | None, typer.Option(help="By default 10,000 or a tenth of all.")
    ] = None,
    optimizer: OptimizerOption = "adamw",
    dropout: DropoutOption = None,
    accumulate: AccumulateOption = 1,
    mask_rate: Annotated[
        float, typer.Option(help="Share of tokens that are hidden.")
    ] = 0.15,
    whole_word: Annotated[
        bool, typer.Option("--whole-word", help="Hide all pieces of a word.")
    ] = False,
    held_out: Annotated[
        float, typer.Option(help="Share of documents to evaluate on.")
    ] = 0.01,
    no_nsp: NoNspFlag = False,
    seed: Annotated[int, typer.Option(help="Decides all that is random.")] = 0,
    log_every: Annotated[
        int, typer.Option(help="Steps between lines of metrics.")
    ] = 10,
    eval_every: Annotated[
        int, typer.Option(help="Steps between evaluations; 0: one at the end.")
    ] = 500,
    checkpoint_every: Annotated[
        int, typer.Option(help="Steps between checkpoints; 0: one at the end.")
    ] = 1000,
    keep: Annotated[
        int, typer.Option(help="Newest checkpoints kept, besides the best.")
    ] = 2,
    precision: PrecisionOption = "auto",
    compiles: CompileFlag = None,
    recompute: RecomputeFlag = False,
    shard: Annotated[
        bool,
        typer.Option("--shard", help="With torchrun: FSDP2 instead of DDP."),
    ] = False,
    threads: Annotated[
        int | None, typer.Option(help="On a CPU; by default measured.")
    ] = None,
    device: DeviceOption = "auto",
    as_json: JsonFlag = False,
) -> None:
    """Pre-train a BERT on prepared text, or go on with a run."""
    del recipe  # its callback has set the defaults
    if resume is not None:
        _check_alone(context)
        _run(None, resume, as_json)
        return
    if data is None or out is None:
        missing = "DATA" if data is None else "--out"
        raise BertError(
            f"{missing} is missing.", hint="or go on with --resume RUN"
        )
    from bert_from_scratch.train.defaults import make_plan

    plan = make_plan(
        data,
        preset=unless_replaced(context, "preset", preset),
        config_path=config,
        init_dir=init,
        words_path=add_tokens,
        batch_tokens=batch_tokens,
        max_length=max_length,
        phases=unless_replaced(context, "phases", phases),
        no_nsp=no_nsp,
        mask_rate=mask_rate,
        whole_word=whole_word,
        held_out_share=held_out,
        recomputes=recompute,
        device=device,
        num_threads=threads,
        precision=precision,
        compiles=compiles,
        learning_rate=lr,
        dropout=dropout,
        steps=steps,
        epochs=epochs,
        minutes=unless_replaced(context, "minutes", minutes),
        warmup_steps=warmup_steps,
        optimizer=optimizer,
        num_accumulated=accumulate,
        shards_weights=shard,
        seed=seed,
        log_every=log_every,
        evaluate_every=eval_every,
        checkpoint_every=checkpoint_every,
        keep_checkpoints=keep,
    )
    if os.environ.get("RANK", "0") == "0":
        _announce(plan)
    _run(plan, out, as_json)


def _check_alone(context: typer.Context) -> None:
    """Refuses options beside --resume: the run knows them all."""
    given = [
        parameter.opts[-1]
        for parameter in context.command.params
        if parameter.name not in ("resume", "as_json")
        and is_typed(context, parameter.name or "")
    ]
    if given:
        raise BertError(
            f"--resume takes no {', '.join(given)}: the run knows all that.",
            hint="for other settings start a new run, with --init RUN",
        )


def _announce(plan: "PretrainingPlan") -> None:
    """Says what is going to be trained, before anything runs."""
    from bert_from_scratch.model.device import choose_device

    training, model = plan.training, plan.model
    budget = next(
        f"{value:g} {name}"
        for name in ("steps", "epochs", "minutes")
        if (value := getattr(training, name)) is not None
    )
    lengths = dict.fromkeys(str(phase.max_length) for phase in plan.phases)
    sizes = dict.fromkeys(
        f"{phase.batch_tokens or plan.batch_tokens:,}" for phase in plan.phases
    )
    threads = f", {plan.num_threads} threads" if plan.num_threads else ""
    say(
        f"BERT-{plan.preset or 'custom'}: {model.num_hidden_layers} layers of "
        f"{model.hidden_size}; {budget}, {' then '.join(sizes)} tokens "
        f"a step, length {' then '.join(lengths)}, "
        f"lr {training.learning_rate:g}, "
        f"{training.precision} on {choose_device(plan.device)}{threads}."
    )


def _run(
    plan: "PretrainingPlan | None", directory: Path, as_json: bool
) -> None:
    from bert_from_scratch.train import pretrain as training
    from bert_from_scratch.train.clock import process_start
    from bert_from_scratch.train.interruption import Interrupted

    begun = process_start()
    with show_training() as report:
        try:
            if plan is None:
                result = training.resume(directory, report, begun)
            else:
                result = training.start(plan, directory, report, begun)
        except Interrupted as error:
            say(error.message)
            say(error.hint or "")
            sys.exit(INTERRUPTED)
    if result is None:
        return
    if as_json:
        print_json(_to_json(result))
    else:
        _print_summary(result, directory)


def _to_json(result: "Result") -> dict[str, Any]:
    return {
        "model": str(result.model_dir),
        "steps": result.num_steps,
        "epochs": result.num_epochs,
        "tokens": result.num_tokens,
        "seconds": result.seconds,
        "loss": result.loss,
        "held_out": None
        if result.evaluation is None
        else {name: asdict(part) for name, part in result.evaluation.items()},
        "best_step": result.best_step,
        "curve": None if result.curve_path is None else str(result.curve_path),
    }


def _print_summary(result: "Result", directory: Path) -> None:
    rows = [
        ("steps", f"{result.num_steps:,}"),
        ("epochs", f"{result.num_epochs:.2f}"),
        ("tokens", f"{result.num_tokens:,}"),
        ("time", format_time(result.seconds)),
        ("tokens/s", f"{result.num_tokens / max(result.seconds, 1e-9):,.0f}"),
        ("last loss", "-" if result.loss is None else f"{result.loss:.3f}"),
    ]
    for name, part in (result.evaluation or {}).items():
        rows.append((f"held-out {name} loss", f"{part.loss:.3f}"))
        rows.append((f"held-out {name} accuracy", f"{part.accuracy:.1%}"))
    if result.best_step is not None:
        rows.append(("best step", f"{result.best_step:,}"))
    if result.curve_path is not None:
        rows.append(("curve", str(result.curve_path)))
    rows.append(("model", str(result.model_dir)))
    print_table(rows)
    say(f'Try: bert fill-mask {directory} "some text with a [MASK]"')
