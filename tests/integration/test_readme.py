"""The commands and the Python of the READMEs do what they say."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from bert_from_scratch.corpus.builtin import builtin_documents

ROOT = Path(__file__).parents[2]
READMES = ("README.md", "README.zh-CN.md")
ADJECTIVES = (("lovely", "good"), ("awful", "bad"))


def code_blocks(readme: str, language: str) -> list[str]:
    text = (ROOT / readme).read_text(encoding="utf-8")
    return re.findall(rf"```{language}\n(.*?)```", text, flags=re.DOTALL)


@pytest.mark.slow
def test_every_command_and_program_runs(tmp_path: Path) -> None:
    readme = READMES[0]
    corpus_dir = tmp_path / "corpus"
    corpus_dir.mkdir()
    for number, text in enumerate(builtin_documents()[:20]):
        (corpus_dir / f"{number}.txt").write_text(text, encoding="utf-8")
    for name in ("train", "dev"):
        rows = [f"{word} day\t{label}" for word, label in ADJECTIVES] * 8
        table = "\n".join(["text\tlabel", *rows])
        (tmp_path / f"{name}.tsv").write_text(table + "\n", encoding="utf-8")
    bin_dir = Path(sys.executable).parent
    environment = {**os.environ, "PATH": f"{bin_dir}:{os.environ['PATH']}"}
    commands = [
        shlex.split(line, comments=True)
        for block in code_blocks(readme, "bash")
        for line in block.split("\n")
        if line.startswith("bert ")
    ]
    assert len(commands) == 15
    programs = [
        [sys.executable, "-c", code] for code in code_blocks(readme, "python")
    ]
    assert programs
    for command in [*commands, *programs]:
        done = subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True
        )
        assert done.returncode == 0, done.stderr.decode()
    assert (tmp_path / "vectors.npy").stat().st_size > 1000
    assert (tmp_path / "copy" / "model.safetensors").exists()
    assert (tmp_path / "my-task" / "model" / "task.json").exists()
    assert (tmp_path / "report" / "predictions.jsonl").exists()
    assert (tmp_path / "page.html").stat().st_size > 10_000
    assert (tmp_path / "verified" / "report.md").exists()


def test_both_readmes_hold_the_same_code() -> None:
    for language in ("bash", "python"):
        english, chinese = (
            [re.sub(r"\s*#.*", "", block) for block in code_blocks(r, language)]
            for r in READMES
        )
        assert english == chinese


@pytest.mark.parametrize(
    "page",
    [
        *READMES,
        "CONTRIBUTING.md",
        "docs/architecture.md",
        "docs/finetuning.md",
        "docs/inspect.md",
        "docs/verify.md",
        "docs/pretraining.md",
    ],
)
def test_every_link_of_a_page_leads_somewhere(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)#]+)\)", text):
        if not target.startswith("http"):
            assert ((ROOT / page).parent / target).exists(), target
