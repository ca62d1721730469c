"""`bert finetune`: the paper's tasks, on one's own files or by recipe."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from bert_from_scratch.cli.console import print_json, print_table, say
from bert_from_scratch.cli.finetune_compare import compare_encoders
from bert_from_scratch.cli.finetune_options import (
    FinetuneOptions,
    takes_finetune_options,
)
from bert_from_scratch.cli.finetune_report import example_of, show_outcome
from bert_from_scratch.cli.options import JsonFlag
from bert_from_scratch.cli.training_progress import show_attempts
from bert_from_scratch.errors import BertError

if TYPE_CHECKING:
    from bert_from_scratch.finetune.outcome import Outcome
    from bert_from_scratch.finetune.plan import FinetunePlan

INTERRUPTED = 75

app = typer.Typer(
    help="Fine-tune a BERT for a task.",
    no_args_is_help=True,
    epilog="Example: bert finetune classify my-bert --train train.tsv --dev "
    "dev.tsv --out my-classifier",
)

ModelArgument = Annotated[
    Path, typer.Argument(help="Pre-trained model or run directory.")
]
ClassWeightsOption = Annotated[
    str | None,
    typer.Option(help="balanced, or one weight a class: 1,2.5."),
]
TextColumnOption = Annotated[
    str | None, typer.Option(help="Column of the text, by name or number.")
]
PairColumnOption = Annotated[
    str | None, typer.Option(help="Column of the second text of a pair.")
]
LabelColumnOption = Annotated[
    str | None, typer.Option(help="Column of the label, by name or number.")
]


@app.command(
    epilog="Example: bert finetune classify my-bert --recipe sst2 --data "
    "glue --seeds 5 --out my-sst2"
)
@takes_finetune_options
def classify(
    model: Annotated[
        Path | None,
        typer.Argument(help="Pre-trained model; none for --encoder."),
    ] = None,
    text_column: TextColumnOption = None,
    pair_column: PairColumnOption = None,
    label_column: LabelColumnOption = None,
    multi_label: Annotated[
        str | None,
        typer.Option(
            help="A text has several labels, written with this between them.",
            metavar="SEPARATOR",
        ),
    ] = None,
    class_weights: ClassWeightsOption = None,
    encoder: Annotated[
        str,
        typer.Option(
            help="bert, or what came before it, without MODEL: bow, cnn, rnn, "
            "lstm, gru, bilstm; several make a table: bert,bow,cnn."
        ),
    ] = "bert",
    word_vectors: Annotated[
        Literal["cbow", "skipgram"] | None,
        typer.Option(help="Train word vectors first, for such an encoder."),
    ] = None,
    *,
    options: FinetuneOptions,
) -> None:
    """Put texts or pairs into classes: .tsv, .csv, .jsonl or a folder."""
    columns = _text_columns(text_column, pair_column, label_column)
    own: dict[str, Any] = {}
    if multi_label == "":
        raise BertError("--multi-label needs a separator, such as '|'.")
    if multi_label is not None:
        own = {"is_multi_label": True, "metric": "f1_micro"}
        own["label_separator"] = multi_label
        columns["label_separator"] = multi_label
    weights = _parse_weights(class_weights)

    def plan(
        model: Path | None, options: FinetuneOptions, more: dict[str, Any]
    ) -> "FinetunePlan":
        own_options = {**own, **more}
        return _plan(
            *("classify", model, options, dict(columns), own_options),
            class_weights=weights,
        )

    compare_encoders(
        encoder.split(","),
        model,
        word_vectors,
        options,
        plan,
        lambda plan, out: _train(plan, out, options.as_json),
        lambda out: _run(None, out, options.as_json),
    )


@app.command(
    epilog="Example: bert finetune regress my-bert --train pairs.tsv --dev "
    "dev.tsv --text-column 0 --pair-column 1 --label-column 2 --out my-model"
)
@takes_finetune_options
def regress(
    model: ModelArgument,
    text_column: TextColumnOption = None,
    pair_column: PairColumnOption = None,
    label_column: LabelColumnOption = None,
    *,
    options: FinetuneOptions,
) -> None:
    """Give texts or pairs a number, such as how alike two texts are."""
    columns = _text_columns(text_column, pair_column, label_column)
    _finetune("regress", model, options, columns, {})


@app.command(
    epilog="Example: bert finetune choose my-bert --recipe swag --data swag "
    "--out my-chooser"
)
@takes_finetune_options
def choose(
    model: ModelArgument,
    prompt_column: Annotated[
        str | None, typer.Option(help="Column of the prompt.")
    ] = None,
    choice_columns: Annotated[
        str | None, typer.Option(help="Columns of the choices: c0,c1,c2.")
    ] = None,
    answer_column: Annotated[
        str | None, typer.Option(help="Column of the right choice's number.")
    ] = None,
    *,
    options: FinetuneOptions,
) -> None:
    """Choose the right continuation among several."""
    columns: dict[str, Any] = {}
    if prompt_column is None and (choice_columns or answer_column):
        raise BertError(
            "--choice-columns and --answer-column need --prompt-column."
        )
    if prompt_column is not None:
        if choice_columns is None:
            raise BertError("--prompt-column needs --choice-columns.")
        columns = {
            "prompt": prompt_column,
            "choices": tuple(choice_columns.split(",")),
            "answer": answer_column,
        }
    _finetune("choose", model, options, columns, {})


@app.command(
    epilog="Example: bert finetune tag my-bert --recipe conll2003 --data "
    "conll2003 --out my-tagger"
)
@takes_finetune_options
def tag(
    model: ModelArgument,
    word_column: Annotated[int, typer.Option(help="Of the words.")] = 0,
    tag_column: Annotated[
        int, typer.Option(help="Of the tags; -1: the last.")
    ] = -1,
    document_context: Annotated[
        bool | None,
        typer.Option(
            "--document-context/--no-document-context",
            help="Show neighbouring sentences; by default where the file "
            "has -DOCSTART-.",
        ),
    ] = None,
    features: Annotated[
        str | None,
        typer.Option(
            help="Frozen encoder under a BiLSTM: last, second-to-last, "
            "sum-last4, concat-last4, sum-all, weighted-sum, embeddings."
        ),
    ] = None,
    class_weights: ClassWeightsOption = None,
    *,
    options: FinetuneOptions,
) -> None:
    """Tag the words of sentences, as for names: CoNLL columns."""
    columns = {"word_column": word_column, "tag_column": tag_column}
    own: dict[str, Any] = {"features": features}
    if document_context is not None:
        own["document_context"] = document_context
    weights = _parse_weights(class_weights)
    _finetune("tag", model, options, columns, own, class_weights=weights)


@app.command(
    epilog="Example: bert finetune answer my-bert --train train-v2.0.json "
    "--dev dev-v2.0.json --null --out my-answerer"
)
@takes_finetune_options
def answer(
    model: ModelArgument,
    stride: Annotated[
        int, typer.Option(help="How far a window moves on, in tokens.")
    ] = 128,
    max_question: Annotated[
        int | None,
        typer.Option(help="Tokens of a question that are kept; by default 64."),
    ] = None,
    max_answer: Annotated[
        int, typer.Option(help="Longest answer in tokens.")
    ] = 30,
    n_best: Annotated[int, typer.Option(help="Candidates kept.")] = 20,
    null: Annotated[
        bool | None,
        typer.Option(
            "--null/--no-null",
            help="A question may have no answer; by default if one has none.",
        ),
    ] = None,
    characters: Annotated[
        bool,
        typer.Option("--characters", help="F1 by characters, for Chinese."),
    ] = False,
    *,
    options: FinetuneOptions,
) -> None:
    """Find answers in a context: SQuAD 1.1 and 2.0, CMRC 2018."""
    own: dict[str, Any] = {
        "stride": stride,
        "max_question": max_question,
        "max_answer": max_answer,
        "n_best": n_best,
        # 没说就听菜谱的：CMRC 的菜谱按字评分
        "character_f1": characters or None,
    }
    if null is not None:
        own["has_null"] = null
    _finetune("answer", model, options, {}, own)


@app.command(epilog="Example: bert finetune resume my-classifier")
def resume(
    out: Annotated[Path, typer.Argument(help="Result directory to go on.")],
    as_json: JsonFlag = False,
) -> None:
    """Go on with a fine-tuning that was interrupted."""
    _run(None, out, as_json)


def _text_columns(
    text: str | None, pair: str | None, label: str | None
) -> dict[str, Any]:
    if text is None:
        if pair is not None or label is not None:
            raise BertError(
                "--pair-column and --label-column need a --text-column."
            )
        return {}
    return {"text": text, "pair": pair, "label": label}


def _parse_weights(text: str | None) -> str | tuple[float, ...] | None:
    if text is None or text == "balanced":
        return text
    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError:
        raise BertError(
            f"--class-weights must be balanced or numbers, got {text!r}."
        ) from None


def _finetune(
    task: str,
    model: Path | None,
    options: FinetuneOptions,
    columns: dict[str, Any],
    own: dict[str, Any],
    **more: Any,
) -> "Outcome | None":
    plan = _plan(task, model, options, columns, own, **more)
    return _train(plan, options.out, options.as_json)


def _plan(
    task: str,
    model: Path | None,
    options: FinetuneOptions,
    columns: dict[str, Any],
    own: dict[str, Any],
    **more: Any,
) -> "FinetunePlan":
    from bert_from_scratch.cli.finetune_plan import make_plan

    if model is None and "encoder" not in own:
        raise BertError(
            "MODEL is missing.",
            hint=f"as in: bert finetune {task} my-bert ...",
        )
    return make_plan(task, model, options, columns, own, **more)


def _train(plan: "FinetunePlan", out: Path, as_json: bool) -> "Outcome | None":
    if os.environ.get("RANK", "0") == "0":
        _announce(plan)
    return _run(plan, out, as_json)


def _announce(plan: "FinetunePlan") -> None:
    rates = ", ".join(f"{rate:g}" for rate in plan.learning_rates)
    print_table(
        [
            ("task", plan.data.recipe or plan.task),
            ("model", str(plan.model or plan.options.get("encoder"))),
            ("learning rates", rates),
            ("seeds", ", ".join(map(str, plan.seeds))),
            (
                "steps",
                f"{plan.epochs} epochs of {plan.batch_size} examples a step",
            ),
        ]
    )


def _run(
    plan: "FinetunePlan | None", out: Path, as_json: bool
) -> "Outcome | None":
    from bert_from_scratch.finetune import run
    from bert_from_scratch.train.interruption import Interrupted

    with show_attempts() as report:
        try:
            if plan is None:
                outcome = run.resume(out, report, say)
            else:
                outcome = run.start(plan, out, report, say)
        except Interrupted as error:
            say(f"{error.message}\n{error.hint}")
            raise typer.Exit(INTERRUPTED) from None
    if outcome is None:
        return None
    if as_json:
        print_json(outcome.to_dict())
    show_outcome(outcome, example_of(out), is_result=not as_json)
    return outcome
