"""`bert fill-mask`: what would BERT write here?"""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from bert_from_scratch.cli.console import print_json
from bert_from_scratch.cli.options import DeviceOption, JsonFlag

EXAMPLE = 'Example: bert fill-mask my-bert "the man [MASK] the book" --top 3'


def fill_mask(
    model: Annotated[Path, typer.Argument(help="Model or run directory.")],
    text: Annotated[str, typer.Argument(help="Text with [MASK] in it.")],
    pair: Annotated[str | None, typer.Option(help="A second segment.")] = None,
    top: Annotated[int, typer.Option(help="Proposals for each mask.")] = 5,
    device: DeviceOption = "auto",
    as_json: JsonFlag = False,
) -> None:
    """Propose words for every [MASK] of a text."""
    from bert_from_scratch.predict.fill_mask import MaskFiller

    filled = MaskFiller.load(model, device).fill(text, pair, top)
    if as_json:
        print_json({"text": text, "masks": [asdict(mask) for mask in filled]})
        return
    for number, mask in enumerate(filled, start=1):
        if len(filled) > 1:
            print(f"mask {number} (token {mask.position})")
        for candidate in mask.candidates:
            print(
                f"{candidate.probability:7.2%}  {candidate.token:<16} "
                f"{candidate.text}"
            )
