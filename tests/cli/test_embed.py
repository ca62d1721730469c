"""`bert embed`: one vector a text, and nothing lost when it fails."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import numpy as np
import pytest

from bert_from_scratch import BertModel
from bert_from_scratch.config import read_json

Bert = Callable[..., CompletedProcess[str]]

TEXTS = ["the lamp", "灯亮了", "", "a sailor saw the boat and the harbour"]
LONG = "lamp " * 30


def embed(bert: Bert, *args: object, stdin: bytes = b"") -> dict[str, Any]:
    result = bert("embed", *args, "--json", stdin=stdin)
    assert result.returncode == 0, result.stderr
    assert result.stdout.count("\n") == 1
    return json.loads(result.stdout)


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


@pytest.fixture
def own_dir(model_dir: Path, tmp_path: Path) -> Path:
    """A copy of the model that a test may change."""
    return shutil.copytree(model_dir, tmp_path / "model")


@pytest.mark.parametrize(
    ("pooling", "width"), [("cls", 16), ("mean", 16), ("last4", 64)]
)
def test_json_holds_one_vector_a_text(
    bert: Bert, model_dir: Path, pooling: str, width: int
) -> None:
    result = embed(bert, model_dir, *TEXTS, "--pooling", pooling)
    assert (result["pooling"], result["count"]) == (pooling, len(TEXTS))
    assert result["width"] == width
    vectors = np.array(result["embeddings"])
    assert vectors.shape == (len(TEXTS), width)
    assert len({tuple(vector) for vector in vectors}) == len(TEXTS)


def test_poolings_differ(bert: Bert, model_dir: Path) -> None:
    cls, mean = (
        embed(bert, model_dir, "the lamp", "--pooling", pooling)["embeddings"]
        for pooling in ("cls", "mean")
    )
    assert np.abs(np.subtract(cls, mean)).max() > 0.01


def test_vectors_come_in_the_order_of_the_texts(
    bert: Bert, model_dir: Path
) -> None:
    together = embed(bert, model_dir, *TEXTS)["embeddings"]
    for text, vector in zip(TEXTS, together, strict=True):
        alone = embed(bert, model_dir, text)["embeddings"][0]
        np.testing.assert_allclose(vector, alone, atol=1e-5)


def test_out_holds_the_same_vectors_as_float32(
    bert: Bert, model_dir: Path, tmp_path: Path
) -> None:
    out = tmp_path / "vectors.npy"
    vectors = embed(bert, model_dir, *TEXTS)["embeddings"]
    result = embed(bert, model_dir, *TEXTS, "--out", out)
    assert result == {
        "pooling": "mean",
        "count": len(TEXTS),
        "width": 16,
        "out": str(out),
    }
    stored = np.load(out, allow_pickle=False)
    assert stored.dtype == np.float32
    np.testing.assert_array_equal(stored, np.array(vectors, np.float32))
    assert list(tmp_path.iterdir()) == [out]


def test_out_without_json_keeps_stdout_clean(
    bert: Bert, model_dir: Path, tmp_path: Path
) -> None:
    out = tmp_path / "[red]v.npy"
    result = bert("embed", model_dir, "a", "--out", out)
    assert result.returncode == 0
    assert result.stdout == ""
    assert result.stderr == f"Wrote 1 vectors of 16 numbers to {out}.\n"


def test_the_plain_form_shows_a_line_a_text(
    bert: Bert, model_dir: Path
) -> None:
    lines = bert("embed", model_dir, *TEXTS).stdout.split("\n")[:-1]
    assert len(lines) == len(TEXTS)
    for line, text in zip(lines, TEXTS, strict=True):
        assert line.endswith(f"... 16 numbers]  {text}")


def test_normalized_vectors_have_length_one(
    bert: Bert, model_dir: Path
) -> None:
    plain = np.array(embed(bert, model_dir, *TEXTS)["embeddings"])
    unit = np.array(embed(bert, model_dir, *TEXTS, "--normalize")["embeddings"])
    lengths = np.linalg.norm(plain, axis=1, keepdims=True)
    assert abs(lengths - 1).min() > 0.1
    np.testing.assert_allclose(unit, plain / lengths, atol=1e-5)


def test_last4_needs_four_layers(bert: Bert, own_dir: Path) -> None:
    config = read_json(own_dir / "config.json")
    model = BertModel.from_pretrained(own_dir)
    del model.encoder.blocks[3]
    model.save_pretrained(own_dir)
    config["num_hidden_layers"] = 3
    (own_dir / "config.json").write_text(json.dumps(config))
    result = bert("embed", own_dir, "a", "--pooling", "last4")
    assert_refused(result, "four layers", "has 3")


# 输入


@pytest.mark.parametrize(
    "data",
    [
        "the lamp\n灯亮了\n\nlast\n".encode(),
        "the lamp\n灯亮了\n\nlast".encode(),
        "the lamp\r\n灯亮了\r\n\r\nlast\r\n".encode(),
        "\ufeffthe lamp\n灯亮了\n\nlast\n".encode(),
    ],
    ids=["lf", "no last line end", "crlf", "bom"],
)
@pytest.mark.parametrize("is_stdin", [False, True])
def test_a_file_or_stdin_has_one_text_a_line(
    bert: Bert, model_dir: Path, tmp_path: Path, data: bytes, is_stdin: bool
) -> None:
    path = tmp_path / "texts.txt"
    path.write_bytes(data)
    texts = ["the lamp", "灯亮了", "", "last"]
    expected = embed(bert, model_dir, *texts)
    if is_stdin:
        result = embed(bert, model_dir, "--input", "-", stdin=data)
    else:
        result = embed(bert, model_dir, "--input", path)
    assert result == expected
    plain = bert("embed", model_dir, "--input", path).stdout.split("\n")
    assert [line.split("]  ")[-1] for line in plain[:-1]] == texts


def test_a_special_token_in_a_text_is_text(bert: Bert, model_dir: Path) -> None:
    one, two = embed(bert, model_dir, "a [MASK]", "a [ mask ]")["embeddings"]
    np.testing.assert_allclose(one, two, atol=1e-6)


def test_texts_and_a_file_do_not_mix(bert: Bert, model_dir: Path) -> None:
    result = bert("embed", model_dir, "text", "--input", "file.txt")
    assert_refused(result, "not both")


def test_no_text_at_all_is_refused(bert: Bert, model_dir: Path) -> None:
    assert_refused(bert("embed", model_dir), "No text", hint="--input")


def test_an_empty_file_is_refused_by_name(
    bert: Bert, model_dir: Path, tmp_path: Path
) -> None:
    path = tmp_path / "texts.txt"
    for data in (b"", b"\xef\xbb\xbf"):
        path.write_bytes(data)
        result = bert("embed", model_dir, "--input", path)
        assert_refused(result, str(path), "empty")


def test_a_missing_file_or_a_folder_is_refused_by_name(
    bert: Bert, model_dir: Path, tmp_path: Path
) -> None:
    missing = tmp_path / "gone.txt"
    assert_refused(
        bert("embed", model_dir, "--input", missing), str(missing), "No such"
    )
    assert_refused(
        bert("embed", model_dir, "--input", tmp_path),
        str(tmp_path),
        "directory",
    )


@pytest.mark.parametrize(
    ("before", "offset"),
    [(b"", 0), (b"one\r\ntwo", 8), (b"\xef\xbb\xbfone", 6)],
    ids=["first byte", "second line", "after a BOM"],
)
def test_a_bad_byte_is_reported_with_file_and_offset(
    bert: Bert, model_dir: Path, tmp_path: Path, before: bytes, offset: int
) -> None:
    path = tmp_path / "texts.txt"
    path.write_bytes(before + b"\xff\n")
    result = bert("embed", model_dir, "--input", path)
    assert_refused(result, str(path), f"not UTF-8 at byte {offset}.")


# 过长的文本


def test_long_texts_are_truncated_counted_and_warned_of(
    bert: Bert, model_dir: Path, caplog: pytest.LogCaptureFixture
) -> None:
    result = embed(bert, model_dir, "a", LONG, "lamp " * 14, LONG)
    assert "2 of 4 texts were truncated to 16 tokens" in caplog.text
    _, long, fits, _ = result["embeddings"]
    np.testing.assert_allclose(long, fits, atol=1e-6)


def test_a_text_that_just_fits_is_not_warned_of(
    bert: Bert, model_dir: Path, caplog: pytest.LogCaptureFixture
) -> None:
    embed(bert, model_dir, "lamp " * 14, "--strict")
    assert caplog.text == ""


def test_max_length_truncates_earlier(
    bert: Bert, model_dir: Path, caplog: pytest.LogCaptureFixture
) -> None:
    result = embed(bert, model_dir, LONG, "lamp lamp", "--max-length", 4)
    assert "1 of 2 texts were truncated to 4 tokens" in caplog.text
    one, two = result["embeddings"]
    np.testing.assert_allclose(one, two, atol=1e-6)


def test_strict_makes_a_long_text_an_error_and_leaves_nothing(
    bert: Bert, model_dir: Path, tmp_path: Path
) -> None:
    out = tmp_path / "v.npy"
    result = bert("embed", model_dir, "a", LONG, "--strict", "--out", out)
    assert_refused(result, "Text 2 ", "16 tokens", hint="--strict")
    assert list(tmp_path.iterdir()) == []


def test_a_failure_leaves_the_old_vectors_whole(
    bert: Bert, model_dir: Path, tmp_path: Path
) -> None:
    out = tmp_path / "v.npy"
    embed(bert, model_dir, "a", "--out", out)
    before = out.read_bytes()
    result = bert("embed", model_dir, LONG, "--strict", "--out", out)
    assert result.returncode == 2
    assert out.read_bytes() == before
    assert list(tmp_path.iterdir()) == [out]


@pytest.mark.parametrize("max_length", [0, 1, -5])
def test_a_maximum_without_room_for_special_tokens_is_refused(
    bert: Bert, model_dir: Path, max_length: int
) -> None:
    result = bert("embed", model_dir, "a", f"--max-length={max_length}")
    assert_refused(result, f"max_length={max_length} ")


def test_a_maximum_beyond_the_models_has_no_effect_and_says_so(
    bert: Bert, model_dir: Path, caplog: pytest.LogCaptureFixture
) -> None:
    result = bert("embed", model_dir, "a", "--max-length", 99)
    assert result.returncode == 2 or "16" in caplog.text


# 精度


def test_half_precision_changes_vectors_a_little(
    bert: Bert, model_dir: Path
) -> None:
    exact = embed(bert, model_dir, *TEXTS, "--precision", "fp32")
    assert embed(bert, model_dir, *TEXTS, "--device", "cpu") == exact
    half = embed(bert, model_dir, *TEXTS, "--precision", "bf16")
    difference = np.subtract(half["embeddings"], exact["embeddings"])
    assert 0 < np.abs(difference).max() < 0.05


@pytest.mark.parametrize("command", ["embed", "predict"])
def test_an_unknown_precision_is_refused_with_the_known_ones(
    bert: Bert, model_dir: Path, command: str
) -> None:
    result = bert(command, model_dir, "a", "--precision", "fp8")
    assert result.returncode == 2
    assert result.stdout == ""
    for part in ("--precision", "fp8", "auto", "fp32", "bf16"):
        assert part in result.stderr


# 写不进去的地方


def test_an_out_in_a_missing_folder_is_made_or_refused(
    bert: Bert, model_dir: Path, tmp_path: Path
) -> None:
    out = tmp_path / "missing" / "v.npy"
    result = bert("embed", model_dir, "a", "--out", out)
    if result.returncode == 0:
        assert np.load(out).shape == (1, 16)
    else:
        assert_refused(result, str(out.parent))


@pytest.mark.parametrize("place", ["folder", "."])
def test_a_folder_as_out_is_refused(
    bert: Bert,
    model_dir: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    place: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    result = bert("embed", model_dir, "a", "--out", place)
    assert_refused(result, "folder")
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]


# 模型


def test_a_config_whose_sizes_do_not_divide_is_refused(
    bert: Bert, own_dir: Path
) -> None:
    path = own_dir / "config.json"
    path.write_text(json.dumps({**read_json(path), "hidden_size": 17}))
    result = bert("embed", own_dir, "a")
    assert_refused(result, "hidden_size=17", "num_attention_heads=2")


def test_a_truncated_model_is_refused_by_name(
    bert: Bert, own_dir: Path
) -> None:
    path = own_dir / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-1])
    assert_refused(
        bert("embed", own_dir, "a"), str(path), "truncated", hint="again"
    )


def test_a_model_without_a_pooler_needs_no_warning(
    bert: Bert, own_dir: Path, caplog: pytest.LogCaptureFixture
) -> None:
    import safetensors.torch

    path = own_dir / "model.safetensors"
    tensors = safetensors.torch.load_file(path)
    kept = {n: t for n, t in tensors.items() if "pooler" not in n}
    assert len(kept) == len(tensors) - 2
    safetensors.torch.save_file(kept, path, {"format": "pt"})
    assert embed(bert, own_dir, "a")["count"] == 1
    assert caplog.text == ""


def test_the_program_warns_on_stderr_and_keeps_stdout_for_data(
    program: Bert, model_dir: Path
) -> None:
    result = program("embed", model_dir, "a", LONG, "--json", "--device", "cpu")
    assert result.returncode == 0
    assert json.loads(result.stdout)["count"] == 2
    expected = "warning: 1 of 2 texts were truncated to 16 tokens.\n"
    assert result.stderr == expected
