"""`bert demo`: a model directory that every other command takes."""

import json
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from bert_from_scratch import BertForPreTraining, WordPieceTokenizer

Bert = Callable[..., CompletedProcess[str]]


def test_the_road_ends_in_a_model_that_every_command_takes(
    bert: Bert, tmp_path: Path
) -> None:
    out = tmp_path / "demo"
    demo = bert("demo", "--out", out, "--minutes", 0.03)
    assert demo.returncode == 0, demo.stderr
    assert demo.stdout == ""
    for number in range(1, 6):
        assert f"{number}. " in demo.stderr
    assert (out / "data" / "report.md").exists()
    model = BertForPreTraining.from_pretrained(out / "run")
    tokenizer = WordPieceTokenizer.load(out / "run")
    assert model.config.vocab_size == len(tokenizer)
    chinese = tokenizer.encode("我喜欢学习人工智能。")
    assert tokenizer.unk_token_id not in chinese.input_ids
    last = demo.stderr.splitlines()[-1]
    assert last.startswith(f"Next: bert fill-mask {out / 'run'}")
    filled = bert("fill-mask", out / "run", "the cat [MASK] .", "--json")
    assert len(json.loads(filled.stdout)["masks"]) == 1
    again = bert("demo", "--out", out, "--minutes", 0.01)
    assert again.returncode == 0


ANSWERS = {
    "the man eats the [MASK] .": {"apple", "bread", "fish", "meat"},
    "the man reads the [MASK] .": {"book", "paper"},
    "the man [MASK] the book .": {"reads"},
}


@pytest.mark.slow
def test_the_demo_learns_what_is_eaten_and_what_is_read(
    bert: Bert, tmp_path: Path
) -> None:
    out = tmp_path / "demo"
    assert bert("demo", "--out", out, "--minutes", 2.5).returncode == 0
    for question, answers in ANSWERS.items():
        filled = bert("fill-mask", out / "run", question, "--json")
        (mask,) = json.loads(filled.stdout)["masks"]
        # 按分钟训练，步数随机器而变：要求对的词在前三，而不一定第一
        guesses = {candidate["token"] for candidate in mask["candidates"][:3]}
        assert guesses & answers


def test_a_folder_that_is_no_demo_is_kept(bert: Bert, tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    refused = bert("demo", "--out", tmp_path)
    assert refused.returncode == 2
    assert "not an earlier demo" in refused.stderr
    assert (tmp_path / "mine.txt").read_text() == "mine"


def test_a_file_as_out_is_refused_and_kept(bert: Bert, tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("mine")
    result = bert("demo", "--out", path)
    assert result.returncode == 2
    assert f"error: {path} is a file" in result.stderr
    assert path.read_text() == "mine"
