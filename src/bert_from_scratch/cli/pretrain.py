"""`bert pretrain`: MLM + NSP on token shards."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bert_from_scratch.cli.console import print_json, progress_bar, say
from bert_from_scratch.cli.options import DeviceOption, JsonFlag
from bert_from_scratch.config import BertConfig
from bert_from_scratch.errors import BertError

if TYPE_CHECKING:
    from bert_from_scratch.train.pretrain import PretrainingPlan, Progress

EXAMPLE = (
    "Example: bert pretrain my-data --preset tiny --minutes 5 --out my-run; "
    "bert pretrain --resume my-run"
)
INTERRUPTED = 75


def pretrain(
    data: Annotated[
        Path | None, typer.Argument(help="Token shards of bert prepare.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Run to make.")] = None,
    resume: Annotated[
        Path | None, typer.Option(help="Run to go on with.")
    ] = None,
    preset: Annotated[
        str | None, typer.Option(help="tiny, mini, small, medium, base, large.")
    ] = None,
    config: Annotated[
        Path | None, typer.Option(help="Model config file, JSON.")
    ] = None,
    init: Annotated[
        Path | None, typer.Option(help="BERT directory to start from.")
    ] = None,
    steps: Annotated[int | None, typer.Option(help="Budget in steps.")] = None,
    epochs: Annotated[
        int | None, typer.Option(help="Budget in epochs.")
    ] = None,
    minutes: Annotated[
        float | None, typer.Option(help="Budget in minutes.")
    ] = None,
    batch_tokens: Annotated[
        int | None, typer.Option(help="Tokens a step.")
    ] = None,
    max_length: Annotated[int, typer.Option(help="Longest sequence.")] = 128,
    lr: Annotated[float, typer.Option(help="Highest learning rate.")] = 1e-4,
    warmup_steps: Annotated[
        int | None, typer.Option(help="By default 10,000 or a tenth.")
    ] = None,
    accumulate: Annotated[
        int, typer.Option(help="Micro-batches a step and process.")
    ] = 1,
    mask_rate: Annotated[float, typer.Option(help="Share hidden.")] = 0.15,
    whole_word: Annotated[
        bool, typer.Option("--whole-word", help="Hide whole words.")
    ] = False,
    held_out: Annotated[
        float, typer.Option(help="Share of documents to evaluate on.")
    ] = 0.01,
    no_nsp: Annotated[
        bool, typer.Option("--no-nsp", help="No sentence pairs.")
    ] = False,
    seed: Annotated[int, typer.Option(help="Decides all that is random.")] = 0,
    log_every: Annotated[int, typer.Option(help="Steps a metrics line.")] = 10,
    eval_every: Annotated[
        int, typer.Option(help="Steps an evaluation; 0: only at the end.")
    ] = 500,
    checkpoint_every: Annotated[
        int, typer.Option(help="Steps a checkpoint; 0: only at the end.")
    ] = 1000,
    device: DeviceOption = "auto",
    as_json: JsonFlag = False,
) -> None:
    """Pre-train a BERT on prepared text, or go on with a run."""
    if resume is not None:
        if data is not None or out is not None:
            raise BertError("--resume takes the run alone: it knows the rest.")
        _run(None, resume, as_json)
        return
    if data is None or out is None:
        raise BertError(
            "DATA and --out are needed.", hint="or go on with --resume RUN"
        )
    from bert_from_scratch.data.shards import TokenShards
    from bert_from_scratch.model.device import choose_device
    from bert_from_scratch.train.pretrain import PretrainingPlan
    from bert_from_scratch.train.settings import TrainingSettings

    meta = TokenShards.open(data).meta
    is_gpu = choose_device(device).type == "cuda"
    plan = PretrainingPlan(
        data_dir=str(data.resolve()),
        data_sha256=meta.files["tokens.bin"]["sha256"],
        model=_choose_model(preset, config, init, meta.vocab_size, is_gpu),
        training=TrainingSettings(
            steps=steps,
            epochs=epochs,
            minutes=minutes,
            learning_rate=lr,
            warmup_steps=warmup_steps,
            num_accumulated=accumulate,
            precision="bf16" if is_gpu else "fp32",
            compiles=is_gpu,
            seed=seed,
            log_every=log_every,
            evaluate_every=eval_every,
            checkpoint_every=checkpoint_every,
        ),
        init_dir=None if init is None else str(init.resolve()),
        batch_tokens=batch_tokens or (65536 if is_gpu else 4096),
        max_length=max_length,
        with_pairs=not no_nsp,
        mask_rate=mask_rate,
        whole_word=whole_word,
        held_out_share=held_out,
        device=device,
    )
    _run(plan, out, as_json)


def _choose_model(
    preset: str | None,
    config_path: Path | None,
    init: Path | None,
    vocab_size: int,
    is_gpu: bool,
) -> BertConfig:
    from bert_from_scratch.model.directory import find

    given = [x for x in (preset, config_path, init) if x is not None]
    if len(given) > 1:
        raise BertError("Give one of --preset, --config, --init.")
    if init is not None:
        return BertConfig.load(find(init) / "config.json")
    if config_path is not None:
        return BertConfig.load(config_path)
    # GPU 的变长注意力内核没有 dropout；为快而设为 0，并写进 config.json
    attention_dropout = 0.0 if is_gpu else 0.1
    return BertConfig.preset(
        preset or "base",
        vocab_size=vocab_size,
        attention_probs_dropout_prob=attention_dropout,
    )


def _run(
    plan: "PretrainingPlan | None", directory: Path, as_json: bool
) -> None:
    from bert_from_scratch.train import pretrain as training

    last: Progress | None = None
    with progress_bar() as bar:
        task = bar.add_task("pre-training", total=1000)

        def report(progress: "Progress") -> None:
            nonlocal last
            last = progress
            bar.update(
                task,
                completed=int(1000 * progress.progress),
                description=_describe(progress),
            )

        try:
            if plan is None:
                model_dir = training.resume(directory, report)
            else:
                model_dir = training.start(plan, directory, report)
        except training.Interrupted as error:
            say(error.message)
            say(error.hint or "")
            sys.exit(INTERRUPTED)
    if as_json:
        loss = None if last is None else last.result.loss
        print_json({"model": str(model_dir), "loss": loss})
    else:
        if last is not None:
            say(_describe(last))
        say(f"The model is in {model_dir}.")
        say(f'Try: bert fill-mask {directory} "some text with a [MASK]"')


def _describe(progress: "Progress") -> str:
    result = progress.result
    parts = ", ".join(f"{n} {p.loss:.3f}" for n, p in result.parts.items())
    return (
        f"step {result.step:,}  loss {result.loss:.3f} ({parts})  "
        f"lr {result.learning_rate:.2e}  "
        f"{progress.tokens_per_second:,.0f} tokens/s"
    )
