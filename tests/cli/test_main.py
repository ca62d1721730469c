"""The program as a whole: help at once, two plain lines for a mistake."""

import errno
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pytest

import bert_from_scratch
from bert_from_scratch.cli import tokenizer as tokenizer_command
from bert_from_scratch.cli.main import app

Bert = Callable[..., CompletedProcess[str]]


def list_commands() -> list[tuple[str, ...]]:
    """Returns the words of every command there is, so none is forgotten."""
    found: list[tuple[str, ...]] = [
        (str(command.name),) for command in app.registered_commands
    ]
    for group in app.registered_groups:
        assert group.typer_instance is not None
        for command in group.typer_instance.registered_commands:
            name = command.name or getattr(command.callback, "__name__", None)
            found.append((str(group.name), str(name)))
    return found


COMMANDS = list_commands()


def imported(result: CompletedProcess[str]) -> set[str]:
    """Returns the modules that `python -X importtime` tells of."""
    lines = [
        x for x in result.stderr.split("\n") if x.startswith("import time")
    ]
    return {line.rsplit("|", 1)[1].strip() for line in lines}


def test_help_lists_the_commands_and_does_not_wait_for_torch(
    program: Bert,
) -> None:
    result = program("--help", python=("-X", "importtime"))
    assert result.returncode == 0
    assert ("tokenizer", "train") in COMMANDS
    for name in {command[0] for command in COMMANDS}:
        assert re.search(rf"^\W*{name} ", result.stdout, re.MULTILINE)
    modules = imported(result)
    assert "bert_from_scratch.cli.main" in modules
    assert not modules & {"torch", "transformers", "numpy", "tokenizers"}


def test_tokenizer_commands_do_not_wait_for_torch(
    program: Bert, corpus_path: Path, tmp_path: Path
) -> None:
    result = program(
        *("tokenizer", "train", corpus_path, "--out", tmp_path / "out"),
        python=("-X", "importtime"),
    )
    assert result.returncode == 0
    modules = imported(result)
    assert "tokenizers" in modules
    assert not modules & {"torch", "transformers"}


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_every_command_has_help_with_an_example(
    bert: Bert, command: tuple[str, ...]
) -> None:
    result = bert(*command, "--help")
    assert result.returncode == 0
    assert f"Example: bert {' '.join(command)} " in result.stdout
    assert bert(*command, "-h").stdout == result.stdout


def test_version_is_the_packages(bert: Bert) -> None:
    result = bert("--version")
    assert result.returncode == 0
    assert result.stdout == f"{bert_from_scratch.__version__}\n"


@pytest.mark.parametrize(
    "args",
    [
        ("no-such-command",),
        ("tokenizer", "no-such-command"),
        ("tokenizer", "encode"),
        ("tokenizer", "encode", "dir", "text", "--no-such-option"),
        ("tokenizer", "train", "file.txt"),
        ("tokenizer", "train", "file.txt", "--out", "x", "--errors", "ignore"),
        (
            "tokenizer",
            "train",
            "file.txt",
            "--out",
            "x",
            "--vocab-size",
            "many",
        ),
        ("embed", "dir", "text", "--pooling", "max"),
    ],
    ids=" ".join,
)
def test_wrong_usage_exits_with_2_and_leaves_stdout_clean(
    bert: Bert, args: tuple[str, ...]
) -> None:
    result = bert(*args)
    assert result.returncode == 2
    assert result.stdout == ""
    assert "Usage: " in result.stderr
    assert "Error" in result.stderr


def test_a_mistake_is_two_plain_lines_and_status_2(
    program: Bert, tmp_path: Path
) -> None:
    result = program("tokenizer", "train", tmp_path, "--out", tmp_path / "out")
    assert result.returncode == 2
    assert result.stdout == ""
    assert result.stderr.splitlines() == [
        f"error: The folder {tmp_path} holds no text files.",
        "hint: expected names that end in .txt, .txt.gz, .txt.xz, .txt.zst",
    ]


def test_a_missing_text_is_reported_without_waiting_for_torch(
    program: Bert, tmp_path: Path
) -> None:
    result = program("embed", tmp_path, python=("-X", "importtime"))
    assert result.returncode == 2
    assert "error: No text was given." in result.stderr
    assert "torch" not in imported(result)


def test_a_mistake_without_a_hint_is_one_plain_line(
    program: Bert, tmp_path: Path
) -> None:
    missing = tmp_path / "gone"
    result = program("tokenizer", "encode", missing, "text", NO_COLOR="1")
    assert result.returncode == 2
    assert result.stdout == ""
    assert (
        result.stderr == f"error: There is no tokenizer directory {missing}.\n"
    )


def test_errors_are_not_wrapped_or_coloured(bert: Bert, tmp_path: Path) -> None:
    missing = tmp_path / ("long-name-" * 20) / "[red]gone[/red]"
    result = bert("tokenizer", "encode", missing, "text")
    assert (
        result.stderr == f"error: There is no tokenizer directory {missing}.\n"
    )


def test_an_interrupt_ends_quietly_with_130(
    bert: Bert, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(paths: list[str]) -> list[Path]:
        raise KeyboardInterrupt

    monkeypatch.setattr(tokenizer_command, "find_files", interrupt)
    result = bert("tokenizer", "train", "x", "--out", "y")
    assert result.returncode == 130
    assert result.stdout == ""
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize(
    "error",
    [
        PermissionError(errno.EACCES, "Permission denied", "/somewhere"),
        OSError(errno.ENOSPC, "No space left on device", "/somewhere"),
    ],
    ids=["permission", "full disk"],
)
def test_what_the_system_refuses_is_told_in_one_line(
    bert: Bert, monkeypatch: pytest.MonkeyPatch, error: OSError
) -> None:
    def refuse(paths: list[str]) -> list[Path]:
        raise error

    monkeypatch.setattr(tokenizer_command, "find_files", refuse)
    result = bert("tokenizer", "train", "x", "--out", "y")
    assert result.returncode == 2
    assert result.stdout == ""
    assert result.stderr.startswith("error: ")
    assert str(error.strerror) in result.stderr
    assert "/somewhere" in result.stderr


def test_a_mistake_of_ours_is_not_hidden(
    bert: Bert, monkeypatch: pytest.MonkeyPatch
) -> None:
    def break_down(paths: list[str]) -> list[Path]:
        raise ZeroDivisionError

    monkeypatch.setattr(tokenizer_command, "find_files", break_down)
    with pytest.raises(ZeroDivisionError):
        bert("tokenizer", "train", "x", "--out", "y")


@pytest.mark.parametrize(
    "arguments",
    [("learn", "--language", "zh"), ("learn", "progress", "--json")],
)
def test_output_that_is_not_utf_8_is_escaped_and_never_stops(
    arguments: tuple[str, ...], tmp_path: Path
) -> None:
    script = Path(sys.executable).with_name("bert")
    state_dir = tmp_path / "状态"
    result = subprocess.run(
        [sys.executable, str(script), *arguments],
        env={
            **os.environ,
            "PYTHONIOENCODING": "ascii",
            "XDG_STATE_HOME": str(state_dir),
        },
        capture_output=True,
        encoding="ascii",
        timeout=60,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    assert r"\u" in result.stdout
    if "--json" in arguments:
        state = Path(json.loads(result.stdout)["state"])
        assert state.is_relative_to(state_dir)


def test_a_closed_pipe_ends_quietly(model_dir: Path) -> None:
    script = Path(sys.executable).with_name("bert")
    reading, writing = os.pipe()
    os.close(reading)
    result = subprocess.run(
        [
            sys.executable,
            str(script),
            "tokenizer",
            "encode",
            str(model_dir),
            "a",
        ],
        stdout=writing,
        stderr=subprocess.PIPE,
        encoding="utf-8",
        timeout=60,
        check=False,
    )
    os.close(writing)
    assert result.returncode != 0
    assert result.stderr == ""
