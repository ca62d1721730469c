"""`bert doctor`: what is wrong with this run?"""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from bert_from_scratch.cli.console import print_json
from bert_from_scratch.cli.options import JsonFlag

EXAMPLE = "Example: bert doctor my-run"


def doctor(
    run: Annotated[Path, typer.Argument(help="Run of bert pretrain.")],
    as_json: JsonFlag = False,
) -> None:
    """Compare a run's curves with healthy ones; say what is wrong."""
    from bert_from_scratch.train.doctor import examine

    found = examine(run)
    if as_json:
        findings = [asdict(finding) for finding in found.findings]
        print_json(
            {
                "run": str(run),
                "steps": found.num_steps,
                "level": found.level,
                "findings": findings,
            }
        )
        return
    for finding in found.findings:
        print(f"{finding.level:<8} {finding.title}")
        print(f"         {finding.detail}")
        if finding.advice:
            print(f"         -> {finding.advice}")
