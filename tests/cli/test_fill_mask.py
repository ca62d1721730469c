"""`bert fill-mask`: proposals on stdout, mistakes in two lines."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest
import torch

from bert_from_scratch import BertConfig, BertForPreTraining, BertModel
from bert_from_scratch.config import read_json

Bert = Callable[..., CompletedProcess[str]]


@pytest.fixture
def own_dir(model_dir: Path, tmp_path: Path) -> Path:
    """A copy of the model that a test may change."""
    return shutil.copytree(model_dir, tmp_path / "model")


def fill(bert: Bert, *args: object) -> list[dict[str, Any]]:
    result = bert("fill-mask", *args, "--json")
    assert result.returncode == 0, result.stderr
    assert result.stdout.count("\n") == 1
    return json.loads(result.stdout)["masks"]


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


def test_one_mask_gets_the_best_proposals_in_order(
    bert: Bert, model_dir: Path
) -> None:
    (mask,) = fill(bert, model_dir, "the [MASK] lamp", "--top", 3)
    assert mask["position"] == 2
    probabilities = [c["probability"] for c in mask["candidates"]]
    assert len(probabilities) == 3
    assert probabilities == sorted(probabilities, reverse=True)
    assert 0 < sum(probabilities) < 1
    first = mask["candidates"][0]
    assert first["token"].removeprefix("##") in first["text"]


def test_the_plain_form_says_the_same(bert: Bert, model_dir: Path) -> None:
    (mask,) = fill(bert, model_dir, "the [MASK] lamp")
    result = bert("fill-mask", model_dir, "the [MASK] lamp")
    lines = result.stdout.splitlines()
    assert result.stderr == ""
    assert len(lines) == len(mask["candidates"]) == 5
    for line, candidate in zip(lines, mask["candidates"], strict=True):
        percent, token, text = line.split(maxsplit=2)
        assert float(percent.rstrip("%")) == pytest.approx(
            100 * candidate["probability"], abs=0.006
        )
        assert (token, text) == (candidate["token"], candidate["text"])


def test_several_masks_are_answered_one_by_one(
    bert: Bert, model_dir: Path
) -> None:
    text = "the [MASK] and [MASK]"
    masks = fill(bert, model_dir, text, "--top", 2)
    assert [mask["position"] for mask in masks] == [2, 4]
    for mask in masks:
        assert all(c["text"].count("[MASK]") == 1 for c in mask["candidates"])
    lines = bert("fill-mask", model_dir, text, "--top", 2).stdout.splitlines()
    assert lines[0] == "mask 1 (token 2)"
    assert lines[3] == "mask 2 (token 4)"
    assert len(lines) == 6


def test_a_mask_may_stand_in_the_second_segment(
    bert: Bert, model_dir: Path
) -> None:
    pair = ("--pair", "a [MASK]")
    (mask,) = fill(bert, model_dir, "the lamp", *pair)
    assert mask["position"] == 5


@pytest.mark.parametrize("text", ["the lamp", "", "the [mask] lamp", "MASK"])
def test_a_text_without_a_mask_is_refused(
    bert: Bert, model_dir: Path, text: str
) -> None:
    result = bert("fill-mask", model_dir, text)
    assert_refused(result, "no [MASK]", hint="[MASK]")


@pytest.mark.parametrize("top", [0, -2])
def test_no_proposals_at_all_are_refused(
    bert: Bert, model_dir: Path, top: int
) -> None:
    result = bert("fill-mask", model_dir, "[MASK]", f"--top={top}")
    assert_refused(result, "--top", str(top))


def test_more_proposals_than_words_are_all_words(
    bert: Bert, model_dir: Path
) -> None:
    (mask,) = fill(bert, model_dir, "[MASK]", "--top", 10**6)
    vocabulary = (model_dir / "vocab.txt").read_text().split("\n")[:-1]
    tokens = {c["token"] for c in mask["candidates"]}
    assert tokens == set(vocabulary)
    total = sum(c["probability"] for c in mask["candidates"])
    assert total == pytest.approx(1, abs=1e-4)


def test_a_text_over_the_maximum_is_refused(
    bert: Bert, model_dir: Path
) -> None:
    result = bert("fill-mask", model_dir, "[MASK] " + "lamp " * 20)
    assert_refused(result, "23 tokens", "16")


def test_the_hint_names_no_option_that_the_command_lacks(
    bert: Bert, model_dir: Path
) -> None:
    result = bert("fill-mask", model_dir, "[MASK] " + "lamp " * 20)
    options = bert("fill-mask", "--help").stdout
    assert "--max-length" not in result.stderr or "--max-length" in options


def test_a_model_without_a_head_is_refused(
    bert: Bert, model_dir: Path, own_dir: Path
) -> None:
    BertModel.from_pretrained(model_dir).save_pretrained(own_dir)
    result = bert("fill-mask", own_dir, "[MASK]")
    assert_refused(result, str(own_dir), "lacks")


def test_a_vocabulary_larger_than_the_models_is_refused(
    bert: Bert, own_dir: Path
) -> None:
    config = BertConfig.load(own_dir / "config.json")
    small = BertConfig(**{**vars(config), "vocab_size": 20})
    BertForPreTraining(small).save_pretrained(own_dir)
    result = bert("fill-mask", own_dir, "the 灯 [MASK]")
    assert_refused(result, "outside 0 ... 19", hint="tokenizer")


def test_a_model_with_padded_rows_proposes_only_words(
    bert: Bert, own_dir: Path
) -> None:
    config = BertConfig.load(own_dir / "config.json")
    size = config.vocab_size
    padded = BertConfig(**{**vars(config), "vocab_size": size + 8})
    model = BertForPreTraining(padded)
    with torch.no_grad():
        model.mlm_head.bias[size:] += 5
    model.save_pretrained(own_dir)
    (mask,) = fill(bert, own_dir, "the [MASK] lamp")
    assert all(c["token_id"] < size for c in mask["candidates"])


def test_a_config_whose_sizes_do_not_divide_is_refused(
    bert: Bert, own_dir: Path
) -> None:
    path = own_dir / "config.json"
    values = {**read_json(path), "num_attention_heads": 3}
    path.write_text(json.dumps(values))
    assert_refused(
        bert("fill-mask", own_dir, "[MASK]"),
        "hidden_size=16",
        "num_attention_heads=3",
        hint="multiple",
    )


def test_a_model_without_weights_is_refused(bert: Bert, own_dir: Path) -> None:
    (own_dir / "model.safetensors").unlink()
    result = bert("fill-mask", own_dir, "[MASK]")
    assert_refused(result, str(own_dir), "no weights")


def test_a_model_without_a_tokenizer_is_refused(
    bert: Bert, own_dir: Path
) -> None:
    for name in ("vocab.txt", "tokenizer.json"):
        (own_dir / name).unlink()
    result = bert("fill-mask", own_dir, "[MASK]")
    assert_refused(result, str(own_dir), "no tokenizer")


def test_a_missing_model_is_refused(bert: Bert, tmp_path: Path) -> None:
    result = bert("fill-mask", tmp_path / "gone", "[MASK]")
    assert_refused(result, str(tmp_path / "gone"), hint="local folder")


@pytest.mark.parametrize(
    ("device", "hint"), [("tpu", "auto, cpu, cuda, mps"), ("", "auto")]
)
def test_an_unknown_device_is_refused(
    bert: Bert, model_dir: Path, device: str, hint: str
) -> None:
    result = bert("fill-mask", model_dir, "[MASK]", "--device", device)
    assert_refused(result, f"{device!r}", hint=hint)
