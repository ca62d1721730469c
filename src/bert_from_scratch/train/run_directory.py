"""A run on disk: settings, metrics, checkpoints, and one writer at a time."""

import fcntl
import json
import shutil
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self, TextIO

from bert_from_scratch import atomic
from bert_from_scratch.config import read_json
from bert_from_scratch.errors import BertError


class RunDirectory:
    """The directory of one run; holds its lock while open.

    config.json        everything that decides the run
    metrics.jsonl      one object a logged step
    evaluations.jsonl  one object an evaluation
    events.out...      the same for TensorBoard
    checkpoints/       see checkpoint.py
    curve.png          the losses, at the end
    model/             the final model, a Hugging Face directory
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._stack = ExitStack()

    def check_new(self) -> None:
        """Refuses a directory that holds anything."""
        atomic.check_directory(self.directory)
        if self.directory.exists() and any(self.directory.iterdir()):
            raise BertError(
                f"{self.directory} exists already.",
                hint=f"go on with: bert pretrain --resume {self.directory}; "
                "or choose another --out",
            )

    def create(self, config: dict[str, Any]) -> None:
        """Makes the run, unless it is there already."""
        if not self.config_path.is_file():
            text = json.dumps(config, indent=2)
            atomic.write_text(self.config_path, text + "\n")

    def remove(self) -> None:
        """Removes the run and all that is in it, if it was ever made."""
        if self.config_path.is_file():
            shutil.rmtree(self.directory)

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
                if self.directory.exists()
                else f"There is no run {self.directory}."
            )
        return read_json(self.config_path)

    def read_log(self, name: str) -> list[dict[str, Any]]:
        """Reads all whole lines of a log; none where there is no such log."""
        path = self.directory / name
        if not path.is_file():
            return []
        lines = []
        for line in path.read_text(encoding="utf-8").split("\n"):
            # 断电时可能只写了半行：这一行不算数
            with suppress(json.JSONDecodeError):
                lines.append(json.loads(line))
        return [x for x in lines if isinstance(x, dict) and "step" in x]

    def continue_log(self, name: str, step: int) -> "JsonLines":
        """Opens a log for appending, without what came after `step`.

        It is closed with the run.
        """
        kept = [x for x in self.read_log(name) if x["step"] <= step]
        text = "".join(json.dumps(line) + "\n" for line in kept)
        atomic.write_text(self.directory / name, text)
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
