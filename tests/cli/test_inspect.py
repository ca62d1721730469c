"""`bert inspect`: files for people, JSON for scripts, mistakes in two lines."""

import errno
import json
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from bert_from_scratch import BertModel, SequenceClassifier, WordPieceTokenizer

Bert = Callable[..., CompletedProcess[str]]


def assert_refused(
    result: CompletedProcess[str], *parts: str, hint: str | None = None
) -> None:
    assert result.returncode == 2
    assert result.stdout == ""
    lines = result.stderr.splitlines()
    assert lines[0].startswith("error: ")
    for part in parts:
        assert part in lines[0]
    if hint is not None:
        assert lines[1].startswith("hint: ")
        assert hint in lines[1]


def test_a_page_is_written_and_stdout_stays_empty(
    bert: Bert, model_dir: Path, tmp_path: Path
) -> None:
    out = tmp_path / "new" / "page.html"
    result = bert("inspect", model_dir, "the [MASK] lamp 灯", "--out", out)
    assert result.returncode == 0, result.stderr
    assert result.stdout == ""
    assert "6 tokens, 4 layers of 2 heads." in result.stderr
    assert str(out) in result.stderr.replace("\n", "")
    page = out.read_text(encoding="utf-8")
    assert page.startswith("<!doctype html>")
    assert "the [MASK] lamp 灯" in page


def test_json_tells_what_the_page_shows(
    bert: Bert, model_dir: Path, tmp_path: Path
) -> None:
    result = bert(
        *("inspect", model_dir, "the [MASK]", "a boat", "--json"),
        *("--out", tmp_path / "page.html", "--layer", 2, "--head", 1),
        *("--top", 3),
    )
    assert result.returncode == 0, result.stderr
    assert result.stdout.count("\n") == 1
    told = json.loads(result.stdout)
    assert (told["layer"], told["head"]) == (2, 1)
    assert told["pair"] == "a boat"
    assert told["exact_layers"] == [1, 2, 3, 4]
    assert {"previous", "next", "separator", "cls"} <= told["heads"][0].keys()
    # 这个模型没有训练过：NSP 头是新抽的，不能当作回答
    assert told["next_sentence"] is None
    assert len(told["heads"]) == 8
    (mask,) = told["masks"]
    assert mask["position"] == 2
    assert [len(row) for row in mask["layers"]] == [3] * 5
    assert told["files"] == [str(tmp_path / "page.html")]
    filled = bert(
        "fill-mask",
        model_dir,
        "the [MASK]",
        "--pair",
        "a boat",
        "--top",
        3,
        "--json",
    )
    (expected,) = json.loads(filled.stdout)["masks"]
    for guess, candidate in zip(
        mask["layers"][-1], expected["candidates"], strict=True
    ):
        assert guess["token"] == candidate["token"]
        assert guess["probability"] == pytest.approx(candidate["probability"])


def test_png_writes_three_heat_maps(
    bert: Bert, model_dir: Path, tmp_path: Path
) -> None:
    result = bert(
        *("inspect", model_dir, "the lamp", "--out", tmp_path / "page.html"),
        *("--png", tmp_path / "map.png"),
    )
    assert result.returncode == 0, result.stderr
    for name in ("map.png", "map-heads.png", "map-cls.png"):
        assert (tmp_path / name).read_bytes().startswith(b"\x89PNG")


def test_a_classifier_explains_the_class_asked_for(
    bert: Bert, model_dir: Path, tmp_path: Path
) -> None:
    encoder = BertModel.from_pretrained(model_dir, required_parts=())
    model = SequenceClassifier(encoder.config, ("dark", "light"))
    model.save_pretrained(tmp_path / "task")
    WordPieceTokenizer.load(model_dir).save(tmp_path / "task")
    for label in ("dark", "light"):
        result = bert(
            *("inspect", tmp_path / "task", "the lamp", "--json"),
            *("--out", tmp_path / "page.html", "--label", label),
        )
        assert result.returncode == 0, result.stderr
        told = json.loads(result.stdout)["classification"]
        assert told["attribution"]["label"] == label
        assert sum(c["probability"] for c in told["classes"]) == pytest.approx(
            1
        )


def test_a_model_without_the_head_says_what_is_absent(
    bert: Bert, model_dir: Path, tmp_path: Path
) -> None:
    encoder = BertModel.from_pretrained(model_dir, required_parts=())
    encoder.save_pretrained(tmp_path / "plain")
    WordPieceTokenizer.load(model_dir).save(tmp_path / "plain")
    args = ("inspect", tmp_path / "plain", "the [MASK]")
    result = bert(*args, "--out", tmp_path / "page.html")
    assert result.returncode == 0
    assert "No MLM head" in result.stderr
    result = bert(*args, "--out", tmp_path / "page.html", "--label", "good")
    assert_refused(result, "--label needs a classifier", hint="finetune")


def test_bad_numbers_are_refused_and_nothing_is_written(
    bert: Bert, model_dir: Path, tmp_path: Path
) -> None:
    out = tmp_path / "page.html"
    args = ("inspect", model_dir, "the lamp", "--out", out)
    assert_refused(bert(*args, "--layer", 5), "--layer 5", "4", hint="1 ... 4")
    assert_refused(bert(*args, "--head", 0), "--head 0", "2", hint="1 ... 2")
    assert_refused(bert(*args, "--top", 0), "--top")
    long = bert("inspect", model_dir, "lamp " * 15, "--out", out)
    assert_refused(long, "17 tokens", "16", hint="shorten it by 1")
    assert not out.exists()


def test_an_empty_text_is_refused_and_nothing_is_written(
    bert: Bert, model_dir: Path, tmp_path: Path
) -> None:
    out = tmp_path / "page.htm"
    for text in ("", "   "):
        result = bert("inspect", model_dir, text, "--out", out)
        assert_refused(result, "text is empty", hint="for example")
    assert not out.exists()
    assert bert("inspect", model_dir, "lamp", "--out", out).returncode == 0
    assert out.exists()


def test_paths_that_cannot_be_written_are_refused_before_the_work(
    bert: Bert, tmp_path: Path
) -> None:
    # 模型目录并不存在：先报输出路径的错，说明还没有开始加载
    args = ("inspect", tmp_path / "nowhere", "the lamp", "--out")
    assert_refused(bert(*args, tmp_path), "is a folder", hint="page.html")
    (tmp_path / "file").write_text("x")
    under_file = tmp_path / "file" / "page.html"
    assert_refused(bert(*args, under_file), "is a file, not a folder")
    page = tmp_path / "page.html"
    wrong = bert(*args, page, "--png", tmp_path / "map.jpg")
    assert_refused(wrong, "map.jpg")
    for name in ("page.txt", "m.png", "page"):
        wrong = bert(*args, tmp_path / name, "--png", tmp_path / "m.png")
        assert_refused(wrong, "HTML page", repr(name), hint=".html")
    (tmp_path / "map-cls.png").mkdir()
    blocked = bert(*args, page, "--png", tmp_path / "map.png")
    assert_refused(blocked, "map-cls.png is a folder")


def test_a_folder_without_permission_is_refused_before_the_work(
    bert: Bert, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(dir: Path) -> None:  # noqa: A002 - tempfile's own name
        raise PermissionError(errno.EACCES, "Permission denied", str(dir))

    # 以 root 运行时权限位不起作用，所以直接换掉系统的回答
    monkeypatch.setattr("tempfile.TemporaryFile", refuse)
    result = bert(
        *("inspect", tmp_path / "nowhere", "the lamp"),
        *("--out", tmp_path / "new" / "page.html"),
    )
    assert_refused(result, f"Cannot write to {tmp_path}", "Permission denied")


def test_a_missing_model_is_named(bert: Bert, tmp_path: Path) -> None:
    result = bert(
        *("inspect", tmp_path / "nowhere", "the lamp"),
        *("--out", tmp_path / "page.html"),
    )
    assert_refused(result, "nowhere", hint="config.json")
