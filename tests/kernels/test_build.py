"""Every kernel is a program that Triton's compiler accepts."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).with_name("build_for_gpus.py")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("capability", "options"), [("80", ()), ("90", ("fp8",))]
)
def test_all_kernels_compile_for_gpus(
    capability: str, options: tuple[str, ...], tmp_path: Path
) -> None:
    environment = {**os.environ, "TRITON_CACHE_DIR": str(tmp_path)}
    # 解释器收下的程序，编译器未必收
    environment.pop("TRITON_INTERPRET", None)
    done = subprocess.run(
        [sys.executable, PROGRAM, capability, *options],
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    num_kernels = int(done.stdout.split()[1])
    assert num_kernels == (12 if options else 9)
