"""A wheel works outside the checkout."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
def test_an_installed_wheel_runs_elsewhere(tmp_path: Path) -> None:
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
    subprocess.run(
        [
            *(*pip, "wheel", "--quiet", "--no-deps", "--no-build-isolation"),
            *("--wheel-dir", str(tmp_path), str(ROOT)),
        ],
        check=True,
    )
    (wheel,) = tmp_path.glob("*.whl")
    target = tmp_path / "site"
    subprocess.run(
        [*pip, "install", "--quiet", "--no-deps", "--target", target, wheel],
        check=True,
    )
    assert (target / "bert_from_scratch" / "py.typed").exists()
    program = (
        "import bert_from_scratch as b; from pathlib import Path;"
        f"assert Path(b.__file__).is_relative_to({str(target)!r});"
        "b.BertModel(b.BertConfig.preset('tiny', vocab_size=9));"
        "print(b.WordPieceTokenizer.train(['a b a b'], 20).encode('a').tokens)"
    )
    done = subprocess.run(
        [sys.executable, "-P", "-c", program],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(target)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == "['[CLS]', 'a', '[SEP]']"
