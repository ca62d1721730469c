"""`bert`: the entry point, and how errors reach a person."""

import io
import logging
import sys
from typing import Annotated

import typer

import bert_from_scratch
from bert_from_scratch.cli import (
    demo,
    doctor,
    embed,
    evaluate,
    fill_mask,
    finetune,
    inspect,
    learn,
    plan,
    predict,
    prepare,
    pretrain,
    tokenizer,
    verify,
)
from bert_from_scratch.cli.console import print_error
from bert_from_scratch.errors import BertError

app = typer.Typer(
    name="bert",
    help="BERT from scratch: from .txt files to a BERT that any tool loads.",
    epilog="Start with: bert demo",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(tokenizer.app, name="tokenizer")
app.command("demo", epilog=demo.EXAMPLE)(demo.demo)
app.command("prepare", epilog=prepare.EXAMPLE)(prepare.prepare)
app.command("plan", epilog=plan.EXAMPLE)(plan.plan)
app.command("pretrain", epilog=pretrain.EXAMPLE)(pretrain.pretrain)
app.add_typer(finetune.app, name="finetune")
app.command("predict", epilog=predict.EXAMPLE)(predict.predict)
app.command("doctor", epilog=doctor.EXAMPLE)(doctor.doctor)
app.command("evaluate", epilog=evaluate.EXAMPLE)(evaluate.evaluate)
app.command("fill-mask", epilog=fill_mask.EXAMPLE)(fill_mask.fill_mask)
app.command("embed", epilog=embed.EXAMPLE)(embed.embed)
app.command("inspect", epilog=inspect.EXAMPLE)(inspect.inspect)
app.add_typer(learn.app, name="learn")
app.command("verify", epilog=verify.EXAMPLE)(verify.verify)


def _print_version(wanted: bool) -> None:
    if wanted:
        print(bert_from_scratch.__version__)
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, help="Print the version."
        ),
    ] = False,
) -> None:
    """Runs before every command; `--version` ends here."""


def main() -> None:
    """Runs `bert`; a user's mistake becomes two lines and status 2."""
    logging.basicConfig(level=logging.WARNING, format="warning: %(message)s")
    if isinstance(sys.stdout, io.TextIOWrapper):
        # 终端不是 UTF-8 时，写不出的字以转义代替，而不是中途崩溃
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        app()
    except BertError as error:
        print_error(error)
        sys.exit(2)
    except KeyboardInterrupt:
        sys.exit(130)
    except OSError as error:
        # 磁盘满、没有权限：是环境的问题，不是程序的错误
        place = f": {error.filename}" if error.filename else ""
        print_error(BertError(f"{error.strerror}{place}."))
        sys.exit(2)
