"""`bert learn`: lessons on stdout, mistakes in two lines."""

import re
import shutil
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from bert_from_scratch.learn.syllabus import TOPICS

Bert = Callable[..., CompletedProcess[str]]


def test_without_a_name_the_lessons_are_listed(bert: Bert) -> None:
    result = bert("learn")
    assert result.returncode == 0
    lines = result.stdout.splitlines()
    assert [line.split()[0] for line in lines] == [t.name for t in TOPICS]
    assert "bert learn attention" in result.stderr


def test_the_list_is_there_in_chinese(bert: Bert) -> None:
    listed = bert("learn", "--language", "zh").stdout
    assert "手算注意力：两个词" in listed
    assert ": " not in listed


@pytest.mark.parametrize("name", ["attention", "losses", "history", "pipeline"])
@pytest.mark.parametrize("language", ["en", "zh"])
def test_a_lesson_is_printed_in_its_language(
    bert: Bert, name: str, language: str
) -> None:
    result = bert("learn", name, "--language", language)
    assert result.returncode == 0, result.stderr
    assert result.stderr == ""
    (topic,) = [topic for topic in TOPICS if topic.name == name]
    title = topic.english[0] if language == "en" else topic.chinese[0]
    assert result.stdout.startswith(title)


@pytest.mark.parametrize("name", ["minibert", "positions"])
def test_a_lesson_trains_as_long_as_it_is_told(bert: Bert, name: str) -> None:
    result = bert("learn", name, "--epochs", 2, "--seed", 4)
    assert result.returncode == 0, result.stderr
    other = bert("learn", name, "--epochs", 2, "--seed", 5)
    longer = bert("learn", name, "--epochs", 3, "--seed", 4)
    assert len({result.stdout, other.stdout, longer.stdout}) == 3
    assert bert("learn", name, "--epochs", 2, "--seed", 4).stdout == (
        result.stdout
    )


def test_the_language_may_stand_before_the_lesson(bert: Bert) -> None:
    before = bert("learn", "--language", "zh", "history")
    assert before.stdout == bert("learn", "history", "--language", "zh").stdout


def test_the_documents_figures_are_printed(bert: Bert) -> None:
    shown = bert("learn", "attention").stdout
    for row in ("0.58  1.73", "0.24  0.76", "-1.04  3.04  0.96"):
        assert row in shown


def test_the_pipeline_shows_the_users_model(
    bert: Bert, model_dir: Path
) -> None:
    texts = ("--text", "the lamp", "--pair", "看灯")
    result = bert("learn", "pipeline", "--model", model_dir, *texts)
    assert result.returncode == 0, result.stderr
    assert str(model_dir.name) in result.stdout
    assert "看" in result.stdout
    vocabulary = (model_dir / "vocab.txt").read_text("utf-8").split("\n")
    ids = [vocabulary.index(token) for token in ("the", "lamp")]
    assert f"-> {ids}" in result.stdout


def test_an_unknown_lesson_is_refused_with_those_there_are(bert: Bert) -> None:
    result = bert("learn", "atention")
    assert result.returncode == 2
    error, hint = result.stderr.splitlines()
    assert error == "error: There is no lesson 'atention'."
    for name in [*(topic.name for topic in TOPICS), "flashcards", "quiz"]:
        assert name in hint


def test_an_unknown_language_is_refused(bert: Bert) -> None:
    result = bert("learn", "attention", "--language", "fr")
    assert result.returncode == 2
    assert "en" in result.stderr


@pytest.mark.parametrize("option", [("--epochs", 0), ("--seed", -1)])
def test_senseless_training_is_refused(
    bert: Bert, option: tuple[str, int]
) -> None:
    result = bert("learn", "minibert", *option)
    assert result.returncode == 2
    assert option[0] in result.stderr


def test_one_text_of_two_is_refused(bert: Bert) -> None:
    result = bert("learn", "pipeline", "--text", "the lamp")
    assert result.returncode == 2
    assert "--pair" in result.stderr


def test_a_model_without_a_tokenizer_is_refused(
    bert: Bert, model_dir: Path, tmp_path: Path
) -> None:
    own_dir = shutil.copytree(model_dir, tmp_path / "model")
    for name in ("vocab.txt", "tokenizer.json"):
        (own_dir / name).unlink()
    result = bert("learn", "pipeline", "--model", own_dir)
    assert result.returncode == 2
    assert result.stdout == ""
    assert "tokenizer" in result.stderr.splitlines()[0]


def test_a_folder_that_cannot_be_made_is_refused(
    bert: Bert, tmp_path: Path
) -> None:
    path = tmp_path / "file"
    path.write_text("x")
    result = bert("learn", "write", path / "course")
    assert result.returncode == 2
    assert str(path) in result.stderr
    result = bert("learn", "write", "/proc/course")
    assert result.returncode == 2
    assert result.stderr.startswith("error: ")


def test_the_list_waits_for_no_torch(program: Bert) -> None:
    result = program("learn", python=("-X", "importtime"))
    assert result.returncode == 0
    imported = set(re.findall(r"\| +(\w+)$", result.stderr, re.MULTILINE))
    assert "typer" in imported
    assert not imported & {"torch", "numpy", "scipy"}
