"""What the tests of commands share: a program, a corpus, a tiny model."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from subprocess import CompletedProcess

import pytest
import torch
from typer.testing import CliRunner

from bert_from_scratch import BertConfig, BertForPreTraining, WordPieceTokenizer
from bert_from_scratch.cli.main import main

Bert = Callable[..., CompletedProcess[str]]

LINES = [
    "The keeper lit the lamp, and the lamp lit the harbour.",
    "A keeper keeps the lamp; a sailor sails the boat.",
    "The sailor saw the lamp and the boat came in.",
    "看灯人点亮了灯，灯照亮了港口。",
    "水手看见了灯，船慢慢靠岸。",
]


@pytest.fixture(scope="session", autouse=True)
def one_thread() -> Iterator[None]:
    """Threads wait for each other longer than these tiny models compute."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session")
def bert() -> Bert:
    """Runs `bert` in this process; an exception of ours comes through."""

    def run(*args: object, stdin: bytes = b"") -> CompletedProcess[str]:
        command = ["bert", *map(str, args)]
        status: int | str | None = 0
        with (
            pytest.MonkeyPatch.context() as patch,
            CliRunner().isolation(input=stdin) as (stdout, stderr, _),
        ):
            patch.setattr(sys, "argv", command)
            try:
                main()
            except SystemExit as end:
                status = end.code
            sys.stdout.flush()
            sys.stderr.flush()
            # 出了这个块，流就关闭了
            texts = [stream.getvalue().decode() for stream in (stdout, stderr)]
        code = status if isinstance(status, int) else int(status is not None)
        return CompletedProcess(command, code, *texts)

    return run


@pytest.fixture(scope="session")
def program() -> Bert:
    """Runs the installed `bert` as a process of its own."""

    def run(
        *args: object, python: tuple[str, ...] = (), **env: str
    ) -> CompletedProcess[str]:
        script = Path(sys.executable).with_name("bert")
        assert script.is_file(), "install the package first: make install"
        return subprocess.run(
            [sys.executable, *python, str(script), *map(str, args)],
            env={**os.environ, "OMP_NUM_THREADS": "1", **env},
            capture_output=True,
            encoding="utf-8",
            timeout=60,
            check=False,
        )

    return run


@pytest.fixture
def corpus_path(tmp_path: Path) -> Path:
    """A small file of English and Chinese, every line several times."""
    path = tmp_path / "corpus.txt"
    path.write_text("\n".join(LINES * 4) + "\n", encoding="utf-8")
    return path


@pytest.fixture(scope="session")
def model_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An untrained BERT of four layers and 16 positions; do not change it."""
    directory = tmp_path_factory.mktemp("models") / "model"
    tokenizer = WordPieceTokenizer.train(LINES * 4, 150)
    tokenizer.max_length = 16
    tokenizer.save(directory)
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=len(tokenizer),
        hidden_size=16,
        num_hidden_layers=4,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=16,
    )
    BertForPreTraining(config).save_pretrained(directory)
    return directory
