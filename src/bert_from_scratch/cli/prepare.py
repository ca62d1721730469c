"""`bert prepare`: text files to token shards."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from bert_from_scratch.cli.console import print_json, report_stages, say
from bert_from_scratch.cli.options import JsonFlag
from bert_from_scratch.corpus.files import DecodeErrors, find_files
from bert_from_scratch.corpus.structure import Boundary, Unit

EXAMPLE = "Example: bert prepare corpus/ --tokenizer my-tokenizer --out my-data"


def prepare(
    files: Annotated[
        list[str], typer.Argument(help="Files, folders or patterns of text.")
    ],
    tokenizer: Annotated[Path, typer.Option(help="Tokenizer directory.")],
    out: Annotated[Path, typer.Option(help="Directory to make.")],
    workers: Annotated[
        int | None,
        typer.Option(help="Processes; by default one a core.", min=1),
    ] = None,
    language: Annotated[
        str | None, typer.Option(help="For sentence splitting: en, zh, ...")
    ] = None,
    unit: Annotated[
        Unit | None, typer.Option(help="What a line is; by default found.")
    ] = None,
    boundary: Annotated[
        Boundary | None,
        typer.Option(help="What ends a document; by default found."),
    ] = None,
    add_tokens: Annotated[
        Path | None,
        typer.Option(help="File of words to add to the vocabulary."),
    ] = None,
    dedup: Annotated[
        bool, typer.Option("--dedup", help="Drop lines seen before.")
    ] = False,
    words: Annotated[
        bool, typer.Option("--words", help="Store Chinese word starts.")
    ] = False,
    errors: Annotated[
        DecodeErrors, typer.Option(help="Bytes that are not UTF-8.")
    ] = "strict",
    as_json: JsonFlag = False,
) -> None:
    """Turn text into token shards, and say what was found in it."""
    from bert_from_scratch.corpus.documents import ReadingOptions
    from bert_from_scratch.data import prepare as preparing
    from bert_from_scratch.data.report import make_report, write_report
    from bert_from_scratch.data.shards import TokenShards

    paths = find_files(files)
    with report_stages() as report, _grow(tokenizer, add_tokens) as grown:
        counts = preparing.prepare(
            paths,
            grown,
            out,
            options=ReadingOptions(unit, boundary, language, errors),
            drops_duplicates=dedup,
            marks_words=words,
            num_workers=workers,
            progress=report,
        )
    found = make_report(TokenShards.open(out), counts)
    write_report(found, out)
    if as_json:
        print_json({**asdict(found), "out": str(out)})
        return
    for structure, number in found.structures.items():
        say(f"{number:,} file(s): {structure}")
    say(
        f"{found.num_documents:,} documents, {found.num_sentences:,} "
        f"sentences, {found.num_tokens:,} tokens; written to {out}."
    )
    for warning in found.warnings:
        say(f"warning: {warning}")
    say(f"The report is {out / 'report.md'}.")
    no_nsp = " --no-nsp" if "--no-nsp" in "".join(found.warnings) else ""
    options = f"--preset tiny --minutes 5{no_nsp}"
    if add_tokens is not None:
        options = f"--init {tokenizer} --add-tokens {add_tokens} --epochs 3"
    say(f"Try: bert pretrain {out} {options} --out my-run")


@contextmanager
def _grow(tokenizer_dir: Path, words_path: Path | None) -> Iterator[Path]:
    """Yields the tokenizer's directory, or one that knows more words."""
    if words_path is None:
        yield tokenizer_dir
        return
    from bert_from_scratch.tokenizer import WordPieceTokenizer
    from bert_from_scratch.tokenizer.growth import add_words, read_words

    old = WordPieceTokenizer.load(tokenizer_dir)
    grown = add_words(old, read_words(words_path))
    say(f"Added {len(grown) - len(old):,} words to the vocabulary.")
    with tempfile.TemporaryDirectory() as folder:
        grown.save(folder)
        yield Path(folder)
