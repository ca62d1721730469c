"""A result directory before its results: new, claimed, and of what."""

import hashlib
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path

from bert_from_scratch import atomic
from bert_from_scratch.data.tasks.recipes import TaskData
from bert_from_scratch.errors import BertError
from bert_from_scratch.train.processes import Processes
from bert_from_scratch.train.run_directory import RunDirectory

MODEL_SUFFIXES = (".safetensors", ".bin", ".json", ".txt")


def fingerprint(data: TaskData) -> str:
    """Returns a checksum of all examples that are trained on or judged."""
    digest = hashlib.sha256()
    for example in (*data.train, *data.dev):
        # 文件放在哪里不算内容：搬了家也能恢复
        content = replace(example, place="")
        digest.update(repr(content).encode("utf-8", "backslashreplace"))
    return digest.hexdigest()


def fingerprint_model(directory: Path) -> str:
    """Returns a checksum of the files that make up a model."""
    digest = hashlib.sha256()
    for path in sorted(directory.iterdir()):
        if path.suffix in MODEL_SUFFIXES:
            with path.open("rb") as file:
                digest.update(hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()


def check_new(out: Path) -> None:
    """Refuses a directory that holds anything."""
    atomic.check_directory(out)
    if not out.exists() or all(path.name == ".lock" for path in out.iterdir()):
        return
    is_done = (out / "metrics.json").is_file()
    can_resume = (out / "plan.json").is_file() and not is_done
    raise BertError(
        f"{out} exists already.",
        hint=f"go on with: bert finetune resume {out}; or choose another --out"
        if can_resume
        else "choose another --out",
    )


def claim(out: Path, processes: Processes) -> AbstractContextManager[object]:
    """Keeps every other process out of a result directory, while open."""
    if not processes.is_first:
        return nullcontext()
    out.mkdir(parents=True, exist_ok=True)
    return RunDirectory(out)
