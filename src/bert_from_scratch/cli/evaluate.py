"""`bert evaluate`: how good is this model on that text?"""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from bert_from_scratch.cli.console import print_json, say
from bert_from_scratch.cli.options import DeviceOption, JsonFlag

EXAMPLE = "Example: bert evaluate my-run --data held-out.txt"


def evaluate(
    model: Annotated[Path, typer.Argument(help="Model or run directory.")],
    data: Annotated[Path, typer.Option(help="Token shards, or text.")],
    max_length: Annotated[int, typer.Option(help="Longest sequence.")] = 128,
    max_tokens: Annotated[
        int, typer.Option(help="How much to read at the most.")
    ] = 1 << 20,
    seed: Annotated[int, typer.Option(help="Decides pairs and masks.")] = 0,
    device: DeviceOption = "auto",
    as_json: JsonFlag = False,
) -> None:
    """Measure masked-word and next-sentence guesses on any text.

    Give text that the model was not trained on.
    """
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
