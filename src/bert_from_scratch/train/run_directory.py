"""A run on disk: settings, metrics, checkpoints, and one writer at a time."""

import fcntl
import json
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self, TextIO

from bert_from_scratch import atomic
from bert_from_scratch.config import read_json
from bert_from_scratch.errors import BertError


class RunDirectory:
    """The directory of one run; holds its lock while open.

    config.json     everything that decides the run
    metrics.jsonl   one object a logged step
    evaluations.jsonl
    checkpoints/    see checkpoint.py
    model/          the final model, a Hugging Face directory
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._stack = ExitStack()

    def create(self, config: dict[str, Any]) -> None:
        """Makes a new run; refuses a directory that holds anything."""
        atomic.check_directory(self.directory)
        if self.directory.exists() and any(self.directory.iterdir()):
            raise BertError(
                f"{self.directory} exists already.",
                hint=f"go on with: bert pretrain --resume {self.directory}; "
                "or choose another --out",
            )
        text = json.dumps(config, indent=2)
        atomic.write_text(self.config_path, text + "\n")

    def __enter__(self) -> Self:
        lock = self._stack.enter_context(
            (self.directory / ".lock").open("w", encoding="utf-8")
        )
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            self._stack.close()
            raise BertError(
                f"Another process is working in {self.directory}.",
                hint="wait for it to end, or choose another --out",
            ) from error
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    @property
    def config_path(self) -> Path:
        """Everything that decides the run."""
        return self.directory / "config.json"

    @property
    def checkpoints_dir(self) -> Path:
        """Where checkpoints lie."""
        return self.directory / "checkpoints"

    @property
    def model_dir(self) -> Path:
        """The final model."""
        return self.directory / "model"

    def read_config(self) -> dict[str, Any]:
        """Reads what `create` wrote."""
        if not self.config_path.is_file():
            raise BertError(
                f"{self.directory} is no run: it has no config.json."
            )
        return read_json(self.config_path)

    def cut_back(self, name: str, step: int) -> None:
        """Drops lines of a log that belong to steps after `step`."""
        path = self.directory / name
        if not path.is_file():
            return
        kept = []
        for line in path.read_text(encoding="utf-8").split("\n"):
            try:
                is_kept = bool(line) and json.loads(line)["step"] <= step
            except (json.JSONDecodeError, KeyError):
                # 断电时可能只写了半行：这一行不算数
                is_kept = False
            if is_kept:
                kept.append(line + "\n")
        atomic.write_text(path, "".join(kept))

    def open_log(self, name: str) -> "JsonLines":
        """Opens a log for appending; it is closed with the run."""
        file = (self.directory / name).open("a", encoding="utf-8")
        return JsonLines(self._stack.enter_context(file))


@dataclass(frozen=True)
class JsonLines:
    """A file with one JSON object a line."""

    file: TextIO

    def write(self, values: dict[str, Any]) -> None:
        """Appends one object, and flushes it."""
        self.file.write(json.dumps(values) + "\n")
        self.file.flush()
