"""Reading the examples that a plan names."""

import logging
import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from bert_from_scratch.data.tasks.choices import ChoiceColumns, read_choices
from bert_from_scratch.data.tasks.conll import read_tags
from bert_from_scratch.data.tasks.examples import TagExample, TextExample
from bert_from_scratch.data.tasks.recipe import FileContent
from bert_from_scratch.data.tasks.recipes import (
    TaskData,
    find_recipe,
    load_recipe,
)
from bert_from_scratch.data.tasks.squad import read_questions
from bert_from_scratch.data.tasks.tables import TextColumns, read_texts
from bert_from_scratch.errors import BertError
from bert_from_scratch.finetune.plan import DataPlan, FinetunePlan

logger = logging.getLogger(__name__)

LIMIT_SEED = 0


def load_data(plan: FinetunePlan) -> TaskData:
    """Reads train, dev and whatever else a plan names."""
    if plan.data.recipe is not None:
        return _load_recipe(plan.task, plan.data)
    return _load_files(plan.task, plan.data)


def limit_data(plan: FinetunePlan, data: TaskData) -> TaskData:
    """Draws as many examples as the plan allows, always the same ones."""

    def judged(examples: Sequence[Any]) -> Sequence[Any]:
        return _draw(examples, plan.data.dev_limit)

    return replace(
        data,
        train=_draw(data.train, plan.data.limit),
        dev=_draw(data.dev, plan.data.dev_limit),
        test=None if data.test is None else judged(data.test),
        extra={name: judged(part) for name, part in data.extra.items()},
    )


def _load_recipe(task: str, data: DataPlan) -> TaskData:
    assert data.recipe is not None
    check_recipe(data.recipe, task)
    if data.folder is None:
        raise BertError(
            "--data is missing.", hint="give the folder of the recipe's files"
        )
    return load_recipe(data.recipe, Path(data.folder))


def check_recipe(name: str, task: str) -> None:
    """Refuses a recipe that does not exist, or is for another task."""
    recipe = find_recipe(name)
    if recipe.task != task:
        raise BertError(
            f"The recipe {name} is for {recipe.task}, not for {task}.",
            hint=f"type: bert finetune {recipe.task} MODEL --recipe {name} ...",
        )


def _load_files(task: str, data: DataPlan) -> TaskData:
    for name in ("train", "dev"):
        if getattr(data, name) is None:
            raise BertError(
                f"--{name} is missing.",
                hint="give --train FILE --dev FILE, or --recipe NAME --data "
                "FOLDER",
            )
    parts = {
        name: read_examples(
            task, Path(path), data.columns, for_training=name == "train"
        )
        for name in ("train", "dev", "test")
        if (path := getattr(data, name)) is not None
    }
    test = parts.get("test")
    return TaskData(
        train=list(parts["train"].examples),
        dev=list(parts["dev"].examples),
        test=None if test is None else list(test.examples),
        notes=tuple(
            f"{name}: {note}"
            for name, part in parts.items()
            for note in part.notes
        ),
        sources={name: str(getattr(data, name)) for name in parts},
    )


def read_examples(
    task: str,
    path: Path,
    columns: dict[str, Any],
    *,
    for_training: bool = False,
) -> FileContent:
    """Reads one file of a task.

    Args:
        task: As typed after `bert finetune`.
        path: The file, or a folder of classes.
        columns: What the reader takes, by name; empty: well-known names.
        for_training: Whether every question needs an answer in its text.
    """
    if not path.exists():
        raise BertError(f"There is no file {path}.")
    if task in ("classify", "regress"):
        return FileContent(_read_texts(path, columns))
    if task == "choose":
        plain = {**columns, "choices": tuple(columns.get("choices", ()))}
        picked = ChoiceColumns(**plain) if columns else None
        return FileContent(read_choices(path, picked))
    if task == "tag":
        return FileContent(read_tags(path, **columns))
    return _read_questions(path, for_training)


def _read_texts(path: Path, columns: dict[str, Any]) -> list[TextExample]:
    if path.is_dir() and columns.get("text") is not None:
        logger.warning(
            "%s is a folder of classes: columns have no meaning there.", path
        )
    if columns.get("text") is not None:
        return read_texts(path, TextColumns(**columns))
    separator = columns.get("label_separator")
    return read_texts(path, label_separator=separator)


def _read_questions(path: Path, for_training: bool) -> FileContent:
    found = read_questions(path, for_training=for_training)
    counts = {
        "answers found near their offset": found.num_moved,
        "answers nowhere in their context": found.num_lost,
        "questions skipped": found.num_skipped,
        "questions without an answer": found.num_impossible,
    }
    notes = tuple(f"{n:,} {what}" for what, n in counts.items() if n)
    return FileContent(found.examples, notes)


def _draw(examples: Sequence[Any], limit: int | None) -> list[Any]:
    """Draws so many examples at the most, always the same ones."""
    if limit is None or len(examples) <= limit:
        return list(examples)
    if isinstance(examples[0], TagExample):
        # 句子要带着上下文：取开头连着的一段
        return list(examples[:limit])
    # 随机抽而不取开头：许多文件按类别排序
    chosen = random.Random(LIMIT_SEED).sample(range(len(examples)), limit)  # noqa: S311
    return [examples[number] for number in sorted(chosen)]
