"""`bert tokenizer train | encode | decode`."""

import json
from pathlib import Path
from typing import Annotated

import typer

from bert_from_scratch import atomic
from bert_from_scratch.cli.console import print_json, report_stages, say
from bert_from_scratch.cli.options import JsonFlag
from bert_from_scratch.corpus.files import DecodeErrors, find_files

app = typer.Typer(
    help="Learn a WordPiece vocabulary; text to ids and back.",
    no_args_is_help=True,
)


@app.command(
    epilog="Example: bert tokenizer train corpus/ --out my-tokenizer "
    "--vocab-size 30522"
)
def train(
    files: Annotated[
        list[str],
        typer.Argument(
            help="Files, folders or patterns: .txt, .txt.gz, .txt.xz, .txt.zst."
        ),
    ],
    out: Annotated[Path, typer.Option(help="Directory to write.")],
    vocab_size: Annotated[
        int, typer.Option(help="Number of WordPieces, special ones included.")
    ] = 30522,
    cased: Annotated[
        bool, typer.Option("--cased", help="Keep capitals and accents.")
    ] = False,
    min_count: Annotated[
        int, typer.Option(help="How often two pieces must meet to merge.")
    ] = 2,
    min_char_count: Annotated[
        int, typer.Option(help="Drop characters that occur less often.")
    ] = 1,
    errors: Annotated[
        DecodeErrors,
        typer.Option(help="Bytes that are not UTF-8: stop, or go on."),
    ] = "strict",
    as_json: JsonFlag = False,
) -> None:
    """Learn a WordPiece vocabulary from text files."""
    from bert_from_scratch.tokenizer import WordPieceTokenizer

    atomic.check_directory(out)
    paths = find_files(files)
    with report_stages() as report:
        tokenizer = WordPieceTokenizer.train(
            paths,
            vocab_size,
            lowercase=not cased,
            min_count=min_count,
            min_char_count=min_char_count,
            errors=errors,
            progress=report,
        )
    tokenizer.save(out)
    if as_json:
        print_json({"vocab_size": len(tokenizer), "out": str(out)})
    else:
        say(
            f"Learned {len(tokenizer):,} WordPieces from {len(paths):,} "
            f"file(s); written to {out}."
        )
        say(f'Try: bert tokenizer encode {out} "your text"')


@app.command(
    epilog='Example: bert tokenizer encode my-tokenizer "A cat." '
    '--pair "It sat."'
)
def encode(
    directory: Annotated[Path, typer.Argument(help="Tokenizer or model.")],
    text: Annotated[str, typer.Argument(help="Text, or segment A.")],
    pair: Annotated[str | None, typer.Option(help="Segment B.")] = None,
    max_length: Annotated[
        int | None,
        typer.Option(help="Truncate to this many tokens, longest first."),
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Turn text into ids; prints JSON, a field a line."""
    from bert_from_scratch.tokenizer import WordPieceTokenizer

    tokenizer = WordPieceTokenizer.load(directory)
    encoding = vars(tokenizer.encode(text, pair, max_length))
    if as_json:
        print_json(encoding)
        return
    fields = (
        f"  {json.dumps(name)}: {json.dumps(value, ensure_ascii=False)}"
        for name, value in encoding.items()
    )
    print("{\n" + ",\n".join(fields) + "\n}")


@app.command(epilog="Example: bert tokenizer decode my-tokenizer 2 148 87 3")
def decode(
    directory: Annotated[Path, typer.Argument(help="Tokenizer or model.")],
    ids: Annotated[list[int], typer.Argument(help="Token ids.")],
    special: Annotated[
        bool, typer.Option("--special", help="Show [CLS], [SEP] and so on.")
    ] = False,
    as_json: JsonFlag = False,
) -> None:
    """Turn ids back into text."""
    from bert_from_scratch.tokenizer import WordPieceTokenizer

    tokenizer = WordPieceTokenizer.load(directory)
    text = tokenizer.decode(ids, skip_special_tokens=not special)
    if as_json:
        tokens = [tokenizer.id_to_token(token_id) for token_id in ids]
        print_json({"text": text, "tokens": tokens})
    else:
        print(text)
