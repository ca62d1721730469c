"""`bert evaluate`: how good is this model on that data?"""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bert_from_scratch.cli.console import print_json, say
from bert_from_scratch.cli.options import DeviceOption, JsonFlag
from bert_from_scratch.errors import BertError

if TYPE_CHECKING:
    from bert_from_scratch.data.tasks.recipes import TaskData

DEFAULT_PART = "dev"
EXAMPLE = (
    "Example: bert evaluate my-run --data held-out.txt; bert evaluate "
    "my-classifier --data test.tsv --out report"
)


def evaluate(
    model: Annotated[Path, typer.Argument(help="Model or run directory.")],
    data: Annotated[
        Path,
        typer.Option(
            help="Token shards or text; labelled data for a fine-tuned model."
        ),
    ],
    recipe: Annotated[
        str | None, typer.Option(help="--data is the folder of this recipe.")
    ] = None,
    part: Annotated[
        str, typer.Option(help="Of the recipe: dev, test, ...")
    ] = DEFAULT_PART,
    text_column: Annotated[
        str | None, typer.Option(help="Column of the text, name or number.")
    ] = None,
    pair_column: Annotated[
        str | None, typer.Option(help="Column of the second text of a pair.")
    ] = None,
    label_column: Annotated[
        str | None, typer.Option(help="Column of the label.")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="Folder for predictions, mistakes, confusion."),
    ] = None,
    max_length: Annotated[
        int, typer.Option(help="Longest sequence of masked words.")
    ] = 128,
    max_tokens: Annotated[
        int, typer.Option(help="How much text to read at the most.")
    ] = 1 << 20,
    seed: Annotated[int, typer.Option(help="Decides pairs and masks.")] = 0,
    device: DeviceOption = "auto",
    as_json: JsonFlag = False,
) -> None:
    """Measure a model: masked words on text, or a task's metric.

    Give data that the model was not trained on.
    """
    if text_column is None and (pair_column or label_column):
        raise BertError("--pair-column and --label-column need --text-column.")
    if _is_finetuned(model):
        columns = {
            "text": text_column,
            "pair": pair_column,
            "label": label_column,
        }
        _evaluate_task(model, data, recipe, part, columns, out, device, as_json)
        return
    is_other = part != DEFAULT_PART or recipe is not None or out is not None
    if is_other or text_column is not None:
        raise BertError(
            f"{model} is not fine-tuned: --recipe, --part, --text-column and "
            "--out have no meaning.",
            hint="fine-tune it first: bert finetune --help",
        )
    _evaluate_text(model, data, max_length, max_tokens, seed, device, as_json)


def _is_finetuned(model: Path) -> bool:
    from bert_from_scratch.config import read_json
    from bert_from_scratch.model.directory import find

    directory = find(model)
    architectures = read_json(directory / "config.json").get("architectures")
    has_head = any(name in _HEADS for name in architectures or ())
    return has_head or (directory / "task.json").is_file()


_HEADS = (
    "BertForSequenceClassification",
    "BertForTokenClassification",
    "BertForQuestionAnswering",
    "BertForMultipleChoice",
)


def _evaluate_text(
    model: Path,
    data: Path,
    max_length: int,
    max_tokens: int,
    seed: int,
    device: str,
    as_json: bool,
) -> None:
    from bert_from_scratch.train.evaluate import evaluate as measure

    found = measure(
        model,
        data,
        max_length=max_length,
        max_tokens=max_tokens,
        seed=seed,
        device=device,
    )
    if as_json:
        print_json(asdict(found))
        return
    print(f"MLM loss      {found.mlm_loss:.4f}")
    print(f"perplexity    {found.perplexity:.2f}")
    print(f"MLM accuracy  {found.mlm_accuracy:.2%}")
    if found.nsp_accuracy is None:
        print("NSP accuracy  not measured: pairs need two documents")
    else:
        print(f"NSP accuracy  {found.nsp_accuracy:.2%}")
    say(f"Read {found.num_tokens:,} tokens.")


def _evaluate_task(
    model: Path,
    data: Path,
    recipe: str | None,
    part: str,
    columns: dict[str, str | None],
    out: Path | None,
    device: str,
    as_json: bool,
) -> None:
    from bert_from_scratch.finetune.classification import ClassificationTask
    from bert_from_scratch.finetune.evaluate import evaluate_task
    from bert_from_scratch.finetune.tasks import read_columns
    from bert_from_scratch.model.directory import find
    from bert_from_scratch.predict.task import TaskPredictor

    predictor = TaskPredictor.load(model, device)
    task = predictor.task
    if isinstance(task, ClassificationTask) and task.is_multi_label:
        columns["label_separator"] = task.label_separator
    stored = read_columns(find(model))
    examples = _read(task.name, data, recipe, part, columns, stored)
    found = evaluate_task(
        predictor.task, predictor.model, examples, predictor.device, out
    )
    if as_json:
        print_json(asdict(found))
        return
    width = max(map(len, found.scores))
    for name, value in found.scores.items():
        print(f"{name:{width}}  {value:.4f}")
    say(f"Judged {found.num_examples:,} examples.")
    if out is not None:
        # 回归的预测总差一点：那不叫错误，叫偏差
        what = "deviations" if found.task == "regress" else "mistakes"
        say(f"Wrote {out}: {found.num_mistakes:,} {what}, the worst first.")


def _read(
    task: str,
    data: Path,
    recipe: str | None,
    part: str,
    columns: dict[str, str | None],
    stored: dict[str, Any],
) -> list[Any]:
    from bert_from_scratch.data.tasks.recipes import load_recipe
    from bert_from_scratch.finetune.loading import check_recipe, read_examples

    if recipe is not None:
        if columns.get("text") is not None:
            raise BertError("A recipe knows its columns.")
        check_recipe(recipe, task)
        return _choose_part(load_recipe(recipe, data), part)
    if part != "dev":
        raise BertError("--part needs a --recipe.")
    is_given = columns.get("text") is not None
    if is_given and task not in ("classify", "regress"):
        raise BertError(f"--text-column has no meaning for {task}.")
    # 没有另说就按训练时的列读
    chosen = columns if is_given or not stored else stored
    if task not in ("classify", "regress"):
        chosen = stored
    return list(read_examples(task, data, chosen).examples)


def _choose_part(data: "TaskData", part: str) -> list[Any]:
    parts = {"train": data.train, "dev": data.dev, **data.others()}
    if part not in parts:
        raise BertError(
            f"There is no part {part!r}.",
            hint=f"use one of {', '.join(parts)}",
        )
    return list(parts[part])
