"""Recipes of pre-training: defaults that what is typed comes before."""

from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest

from bert_from_scratch.cli import pretrain as pretrain_command
from bert_from_scratch.errors import BertError
from bert_from_scratch.train import defaults
from bert_from_scratch.train.recipes import RECIPES

Bert = Callable[..., CompletedProcess[str]]


@pytest.fixture
def planned(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What a run is planned with; no run begins."""
    found: dict[str, Any] = {}

    def stop(data: Path, **options: Any) -> None:
        found.update(options)
        raise BertError("Planned.")

    monkeypatch.setattr(defaults, "make_plan", stop)
    return found


def run(bert: Bert, *options: object) -> CompletedProcess[str]:
    return bert("pretrain", "data", "--out", "run", *options)


def test_a_recipe_sets_what_is_not_typed(
    bert: Bert, planned: dict[str, Any]
) -> None:
    run(bert, "--recipe", "ten-minutes")
    recipe = RECIPES["ten-minutes"]
    for name in ("preset", "minutes", "optimizer", "phases", "batch_tokens"):
        assert planned[name] == recipe[name]
    assert planned["learning_rate"] == recipe["lr"]
    assert planned["compiles"] is False
    assert planned["evaluate_every"] == recipe["eval_every"]
    # 菜谱没有说的，照旧
    assert planned["seed"] == 0


@pytest.mark.parametrize("is_first", [True, False])
def test_what_is_typed_comes_before_the_recipe(
    bert: Bert, planned: dict[str, Any], is_first: bool
) -> None:
    typed: tuple[str, ...] = ("--lr", "0.5", "--optimizer", "adamw")
    typed += ("--dropout", "0.3", "--compile")
    recipe = ("--recipe", "ten-minutes")
    run(bert, *(typed + recipe if is_first else recipe + typed))
    assert planned["learning_rate"] == 0.5
    assert planned["optimizer"] == "adamw"
    assert planned["dropout"] == 0.3
    assert planned["compiles"] is True
    assert planned["minutes"] == RECIPES["ten-minutes"]["minutes"]


@pytest.mark.parametrize(
    ("typed", "gone"),
    [
        (("--steps", "7"), "minutes"),
        (("--epochs", "7"), "minutes"),
        (("--config", "config.json"), "preset"),
        (("--init", "model"), "preset"),
        (("--max-length", "64"), "phases"),
        (("--batch-tokens", "3000"), "phases"),
    ],
)
def test_another_budget_model_or_length_replaces_the_recipes(
    bert: Bert, planned: dict[str, Any], typed: tuple[str, ...], gone: str
) -> None:
    run(bert, "--recipe", "ten-minutes", *typed)
    assert planned[gone] is None
    assert planned["optimizer"] == RECIPES["ten-minutes"]["optimizer"]


def test_an_unknown_recipe_is_refused_with_those_there_are(
    bert: Bert, planned: dict[str, Any]
) -> None:
    done = run(bert, "--recipe", "minute")
    assert done.returncode == 2
    assert "There is no recipe minute." in done.stderr
    assert "ten-minutes" in done.stderr
    assert not planned


def test_every_recipe_names_options_of_the_command() -> None:
    names = pretrain_command.pretrain.__annotations__
    for recipe in RECIPES.values():
        assert recipe.keys() <= names.keys()


def test_a_plan_takes_the_recipe_too(
    bert: Bert, planned: dict[str, Any]
) -> None:
    done = bert("plan", "data", "--recipe", "ten-minutes", "--preset", "tiny")
    assert "Planned." in done.stderr
    assert (planned["preset"], planned["minutes"]) == ("tiny", 9.0)
    assert planned["evaluate_every"] == 0
    assert planned["phases"] == RECIPES["ten-minutes"]["phases"]
    bert("plan", "data", "--recipe", "ten-minutes", "--batch-tokens", 1024)
    assert (planned["phases"], planned["batch_tokens"]) == (None, 1024)
