"""`bert verify`: a table on stdout, two files, and an exit code."""

import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pytest
from safetensors.torch import load_file, save_file

from bert_from_scratch import BertModel

Bert = Callable[..., CompletedProcess[str]]


@pytest.fixture(autouse=True)
def without_transformers(monkeypatch: pytest.MonkeyPatch) -> None:
    """It takes seconds to import, and has tests of its own."""
    monkeypatch.setitem(sys.modules, "transformers", None)


@pytest.fixture
def untied_dir(model_dir: Path, tmp_path: Path) -> Path:
    """A model whose files hold a decoder of its own."""
    directory = shutil.copytree(model_dir, tmp_path / "untied")
    path = directory / "model.safetensors"
    tensors = load_file(path)
    embedding = tensors["bert.embeddings.word_embeddings.weight"]
    tensors["cls.predictions.decoder.weight"] = embedding * 2
    save_file(tensors, path, metadata={"format": "pt"})
    return directory


def test_a_good_model_passes_and_leaves_two_files(
    bert: Bert, model_dir: Path, tmp_path: Path
) -> None:
    out = tmp_path / "new" / "report"
    result = bert("verify", model_dir, "--out", out)
    assert result.returncode == 0, result.stdout + result.stderr
    lines = result.stdout.splitlines()
    assert [line.split()[0] for line in lines[:11]] == ["pass"] * 11
    assert lines[11].startswith("not applicable  transformers")
    assert lines[12].strip().startswith("transformers is not installed: ")
    assert str(out / "report.md") in result.stderr.replace("\n", "")
    assert {path.name for path in out.iterdir()} == {
        *("results.json", "report.md")
    }
    values = json.loads((out / "results.json").read_text("utf-8"))
    assert values["verdict"] == "pass"
    report = (out / "report.md").read_text("utf-8")
    assert report.startswith("# Verification report\n")


def test_a_failed_check_is_exit_code_1_with_what_was_measured(
    bert: Bert, untied_dir: Path, tmp_path: Path
) -> None:
    result = bert("verify", untied_dir, "--out", tmp_path / "out")
    assert result.returncode == 1
    lines = result.stdout.splitlines()
    (place,) = [i for i, line in enumerate(lines) if line.startswith("FAIL")]
    assert "tied-weights" in lines[place]
    assert lines[place + 1].strip() == (
        "on disk: output tensors that differ from the embeddings: 1 "
        "(must be = 0)"
    )
    values = json.loads((tmp_path / "out" / "results.json").read_text("utf-8"))
    assert values["verdict"] == "fail"


def test_json_is_one_line_and_the_same_as_the_file(
    bert: Bert, untied_dir: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    result = bert("verify", untied_dir, "--out", out, "--json")
    assert result.returncode == 1
    assert result.stdout.count("\n") == 1
    written = json.loads((out / "results.json").read_text("utf-8"))
    assert json.loads(result.stdout) == written


def test_chinese_is_spoken_in_the_report_and_on_the_terminal(
    bert: Bert, untied_dir: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    result = bert(
        *("verify", untied_dir, "--out", out, "--language", "zh"),
        *("--text", "水手看见了[MASK]"),
    )
    assert "未通过  tied-weights" in result.stdout
    assert "（" not in result.stdout.split("tied-weights")[0]
    assert "应为 = 0" in result.stdout
    assert "must be" not in result.stdout
    report = (out / "report.md").read_text("utf-8")
    assert report.startswith("# 验证报告\n")


def test_every_text_given_is_tried(
    bert: Bert, model_dir: Path, tmp_path: Path
) -> None:
    texts = ["the keeper lit the [MASK]", "看灯人点亮了灯", "lamp"]
    options = [part for text in texts for part in ("--text", text)]
    out = tmp_path / "out"
    result = bert("verify", model_dir, *options, "--out", out, "--json")
    assert result.returncode == 0, result.stdout
    values = json.loads(result.stdout)
    assert [text["text"] for text in values["texts"]] == texts


def test_a_model_without_an_mlm_head_passes_the_rest(
    bert: Bert, model_dir: Path, tmp_path: Path
) -> None:
    encoder_dir = shutil.copytree(model_dir, tmp_path / "encoder")
    BertModel.from_pretrained(model_dir).save_pretrained(encoder_dir)
    result = bert("verify", encoder_dir, "--out", tmp_path / "out")
    assert result.returncode == 0, result.stdout
    assert "not applicable  tied-weights" in result.stdout
    assert "not applicable  loss-at-labels" in result.stdout
    assert "The model has no MLM head." in result.stdout


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--text", "  "], "A text is empty."),
        (["--text", "lamp " * 20], "22 tokens, over the maximum of 16"),
    ],
)
def test_a_text_that_cannot_be_used_is_exit_code_2(
    bert: Bert,
    model_dir: Path,
    tmp_path: Path,
    options: list[str],
    message: str,
) -> None:
    result = bert("verify", model_dir, "--out", tmp_path / "out", *options)
    assert result.returncode == 2
    assert result.stdout == ""
    assert result.stderr.startswith("error: ")
    assert message in result.stderr
    assert not (tmp_path / "out").exists()


def test_a_place_that_cannot_be_written_is_refused_before_the_model_is_read(
    bert: Bert, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    result = bert("verify", tmp_path / "nowhere", "--out", tmp_path / "file")
    assert result.returncode == 2
    assert "is a file, not a folder" in result.stderr


def test_a_missing_model_is_exit_code_2(bert: Bert, tmp_path: Path) -> None:
    result = bert("verify", tmp_path / "nowhere", "--out", tmp_path / "out")
    assert result.returncode == 2
    assert "There is no model directory" in result.stderr
    assert not (tmp_path / "out").exists()


def test_help_shows_an_example(bert: Bert) -> None:
    result = bert("verify", "--help")
    assert "Example: bert verify" in result.stdout
