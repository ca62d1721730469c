"""`bert demo`: a model directory that every other command takes."""

import json
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from bert_from_scratch import BertForPreTraining, WordPieceTokenizer

Bert = Callable[..., CompletedProcess[str]]


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the demo of this module writes."""
    return tmp_path_factory.mktemp("demo") / "out"


@pytest.fixture(scope="module")
def demo(bert: Bert, out: Path) -> CompletedProcess[str]:
    """The one run of the demo that all tests look at."""
    return bert("demo", "--out", out)


def test_the_demo_succeeds_and_keeps_stdout_clean(
    demo: CompletedProcess[str],
) -> None:
    assert demo.returncode == 0
    assert demo.stdout == ""


def test_the_demo_shows_tokens_ids_and_shapes(
    demo: CompletedProcess[str], out: Path
) -> None:
    tokenizer = WordPieceTokenizer.load(out)
    for sentence in ("The parser returns a list", "我喜欢学习人工智能。"):
        assert sentence in demo.stderr
    chinese = "[CLS] 我 喜 欢 学 习 人 工 智 能 。 [SEP]"
    assert chinese in demo.stderr
    ids = tokenizer.encode("我喜欢学习人工智能。").input_ids
    assert " ".join(map(str, ids)) in demo.stderr
    assert tokenizer.unk_token_id not in ids
    assert "[11, 4000]" in demo.stderr


def test_the_demo_writes_a_whole_model_directory(
    demo: CompletedProcess[str], out: Path
) -> None:
    assert {path.name for path in out.iterdir()} == {
        "README.md",
        "config.json",
        "model.safetensors",
        "tokenizer.json",
        "tokenizer_config.json",
        "vocab.txt",
    }
    model = BertForPreTraining.from_pretrained(
        out, required_parts=("bert.pooler", "mlm_head", "nsp_head")
    )
    assert model.config.vocab_size == len(WordPieceTokenizer.load(out)) == 4000


def test_the_command_that_the_demo_proposes_works(
    bert: Bert, demo: CompletedProcess[str], out: Path
) -> None:
    last = demo.stderr.splitlines()[-1]
    assert last == f'Next: bert tokenizer encode {out} "your own text"'
    encoded = bert("tokenizer", "encode", out, "your own text", "--json")
    assert len(json.loads(encoded.stdout)["input_ids"]) >= 5
    filled = bert("fill-mask", out, "a [MASK] of tokens", "--json")
    assert len(json.loads(filled.stdout)["masks"]) == 1
    embedded = bert("embed", out, "a list", "--json")
    assert json.loads(embedded.stdout)["width"] == 128


def test_a_file_as_out_is_refused_and_kept(bert: Bert, tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("mine")
    result = bert("demo", "--out", path)
    assert result.returncode == 2
    assert f"error: {path} is a file" in result.stderr
    assert path.read_text() == "mine"
