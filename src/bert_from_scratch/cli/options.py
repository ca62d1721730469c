"""Options that several commands have."""

from typing import Annotated

import typer

DeviceOption = Annotated[
    str, typer.Option(help="auto, cpu, cuda or mps.", metavar="DEVICE")
]
JsonFlag = Annotated[
    bool, typer.Option("--json", help="Print the result as one line of JSON.")
]
