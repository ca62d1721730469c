"""`bert inspect`: one text from inside, as a page and as pictures."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bert_from_scratch import atomic
from bert_from_scratch.cli.console import print_json, say
from bert_from_scratch.cli.options import DeviceOption, JsonFlag
from bert_from_scratch.errors import BertError

if TYPE_CHECKING:
    from bert_from_scratch.analysis.inspection import Inspection

EXAMPLE = (
    'Example: bert inspect my-bert "the man [MASK] the book" --out page.html '
    "--layer 2 --head 1 --png maps.png"
)


def inspect(
    model: Annotated[Path, typer.Argument(help="Model or run directory.")],
    text: Annotated[str, typer.Argument(help="Text; may hold [MASK].")],
    out: Annotated[
        Path, typer.Option(help="The page: one HTML file.", metavar="FILE.html")
    ],
    pair: Annotated[
        str | None,
        typer.Argument(help="A second segment.", metavar="[TEXT_B]"),
    ] = None,
    png: Annotated[
        Path | None,
        typer.Option(
            help="Heat maps too: this file has the chosen head, NAME-heads "
            "all heads of its layer, NAME-cls what [CLS] looks at.",
            metavar="FILE.png",
        ),
    ] = None,
    layer: Annotated[
        int | None,
        typer.Option(
            help="Layer to show first, from 1; the last by default. Over "
            "128 tokens, it alone is exact."
        ),
    ] = None,
    head: Annotated[
        int | None,
        typer.Option(help="Head to show first, from 1; all by default."),
    ] = None,
    top: Annotated[int, typer.Option(help="Guesses for each [MASK].")] = 5,
    label: Annotated[
        str | None,
        typer.Option(help="Class to explain; the likeliest by default."),
    ] = None,
    device: DeviceOption = "auto",
    as_json: JsonFlag = False,
) -> None:
    """Show a text from inside: attention, heads, predictions, attributions."""
    _check_outputs(out, png)
    from bert_from_scratch.analysis.inspector import inspect_text

    found = inspect_text(
        model,
        text,
        pair,
        layer=layer,
        head=head,
        top=top,
        label=label,
        device=device,
    )
    found.save(out)
    written = [out]
    if png is not None:
        from bert_from_scratch.analysis.heat_maps import draw_heat_maps

        written += draw_heat_maps(found, png)
    if as_json:
        print_json({**found.to_dict(), "files": [str(p) for p in written]})
    _tell(found, written)


def _check_outputs(out: Path, png: Path | None) -> None:
    """Refuses paths that cannot be written: before the work, not after."""
    if out.is_dir():
        raise BertError(
            f"{out} is a folder, not a file.", hint=f"try {out / 'page.html'}"
        )
    atomic.check_file(out)
    if out.suffix.lower() not in (".html", ".htm"):
        raise BertError(
            f"--out writes an HTML page, not {out.name!r}.",
            hint=f"try --out {out.with_suffix('.html')}",
        )
    if png is not None:
        # 先确认能画图，再花时间加载模型
        from bert_from_scratch.analysis.heat_maps import (
            check_matplotlib,
            picture_paths,
        )

        check_matplotlib()
        if png.suffix.lower() != ".png":
            raise BertError(f"--png writes PNG files, not {png.name!r}.")
        for path in picture_paths(png).values():
            atomic.check_file(path)


def _tell(found: "Inspection", written: list[Path]) -> None:
    from bert_from_scratch.tokenizer.vocabulary import MASK

    facts = found.model
    say(
        f"{len(found.tokens)} tokens, {facts.num_hidden_layers} layers of "
        f"{facts.num_attention_heads} heads."
    )
    if not found.masks and any(t.token == MASK for t in found.tokens):
        say("No MLM head in this model: [MASK] is not predicted.")
    if not all(one.is_exact for one in found.maps):
        say(f"Layer {found.layer} is exact, the others are rounded to 8 bits.")
    say(f"Wrote {', '.join(map(str, written))}.")
