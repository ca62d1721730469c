"""Options that several commands have."""

from pathlib import Path
from typing import Annotated, Literal

import typer

DeviceOption = Annotated[
    str, typer.Option(help="auto, cpu, cuda or mps.", metavar="DEVICE")
]
JsonFlag = Annotated[
    bool, typer.Option("--json", help="Print the result as one line of JSON.")
]

# 以下各项 pretrain 与 plan 共用：先估算，再以同样的写法开跑
PresetOption = Annotated[
    str | None,
    typer.Option(help="tiny, mini, small, medium, base (default), large."),
]
ConfigOption = Annotated[
    Path | None, typer.Option(help="Model config file, JSON.")
]
InitOption = Annotated[
    Path | None, typer.Option(help="BERT directory to start from.")
]
StepsOption = Annotated[int | None, typer.Option(help="Budget in steps.")]
EpochsOption = Annotated[
    int | None,
    typer.Option(help="Budget in epochs; by default 40, more on little text."),
]
MinutesOption = Annotated[
    float | None,
    typer.Option(help="Budget in minutes, start and saving included."),
]
BatchTokensOption = Annotated[
    int | None,
    typer.Option(help="Tokens a step; by default 65,536, on a CPU 4,096."),
]
MaxLengthOption = Annotated[
    int | None, typer.Option(help="Longest sequence; by default 128.")
]
PhasesOption = Annotated[
    str | None,
    typer.Option(
        help="Lengths and their shares of the budget, as 128:0.9,512:0.1; "
        "also tokens a step and mask rate: 128:0.3:65536:0.3,...",
        metavar="LENGTH:SHARE[:TOKENS[:RATE]],...",
    ),
]
AccumulateOption = Annotated[
    int, typer.Option(help="Parts of a step, to save memory.")
]
AddTokensOption = Annotated[
    Path | None,
    typer.Option(help="File of new words, as given to bert prepare."),
]
OptimizerOption = Annotated[
    Literal["adamw", "google", "muon"],
    typer.Option(
        help="google: Adam without bias correction; muon: orthogonalised "
        "momentum for the matrices of the blocks."
    ),
]
DropoutOption = Annotated[
    float | None,
    typer.Option(help="Of hidden states; by default the model's own."),
]
PrecisionOption = Annotated[
    Literal["auto", "fp32", "bf16", "fp8"],
    typer.Option(
        help="auto: bf16 on a GPU, else fp32; fp8: bf16 with faster "
        "products, on GPUs that have them."
    ),
]
CompileFlag = Annotated[
    bool | None,
    typer.Option("--compile/--no-compile", help="By default only on a GPU."),
]
RecomputeFlag = Annotated[
    bool,
    typer.Option(
        "--recompute", help="Gradient checkpointing: less memory, slower."
    ),
]
NoNspFlag = Annotated[bool, typer.Option("--no-nsp", help="No sentence pairs.")]
