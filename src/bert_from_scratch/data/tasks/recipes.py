"""The known tasks by name, and all the examples of one."""

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from bert_from_scratch.data.tasks.examples import ChoiceExample
from bert_from_scratch.data.tasks.glue import GLUE
from bert_from_scratch.data.tasks.known_tasks import (
    CHOICES,
    ENTITIES,
    QUESTIONS,
    REVIEWS,
)
from bert_from_scratch.data.tasks.recipe import (
    Example,
    Recipe,
    find_file,
    find_folder,
)
from bert_from_scratch.errors import BertError

RECIPES: dict[str, Recipe] = {
    recipe.name: recipe
    for recipe in (*GLUE, *CHOICES, *REVIEWS, *ENTITIES, *QUESTIONS)
}
# 没有官方划分时留作开发集的比例：五分之一
DEV_EVERY = 5


@dataclass(frozen=True)
class TaskData:
    """All the examples of a task.

    Attributes:
        train: To train on.
        dev: To choose and to judge by.
        test: The labelled test set, or None.
        extra: Further sets to evaluate on, such as "mismatched" of MNLI.
        notes: What a user should know: which file served as what, what was
            left out.
        sources: Where each part was read.
    """

    train: Sequence[Example]
    dev: Sequence[Example]
    test: Sequence[Example] | None = None
    extra: Mapping[str, Sequence[Example]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    sources: Mapping[str, str] = field(default_factory=dict)

    def others(self) -> dict[str, Sequence[Example]]:
        """Returns what is only scored, by name: test, and all in `extra`."""
        test = {} if self.test is None else {"test": self.test}
        return {**test, **self.extra}


def find_recipe(name: str) -> Recipe:
    """Returns a recipe by its name.

    Raises:
        BertError: There is none; the message lists those there are.
    """
    if name not in RECIPES:
        raise BertError(
            f'There is no recipe "{name}".',
            hint=f"use one of {', '.join(sorted(RECIPES))}",
        )
    return RECIPES[name]


def load_recipe(name: str, data_dir: Path) -> TaskData:
    """Reads all the files of a known task.

    Args:
        name: One of RECIPES.
        data_dir: The folder with the official files, or one above it.

    Raises:
        BertError: A file is missing or at fault.
    """
    recipe = find_recipe(name)
    folder = find_folder(recipe, data_dir)
    if find_file(folder, recipe.files.train) is None:
        return _divide(recipe, folder)
    paths, notes = _find_parts(recipe, folder)
    parts: dict[str, Sequence[Example]] = {}
    for part, path in paths.items():
        # 只有训练集需要每题都有可指的答案
        content = recipe.read(path, part == "train")
        parts[part] = content.examples
        notes += content.notes
    return TaskData(
        train=parts["train"],
        dev=parts["dev"],
        test=parts.get("test"),
        extra={
            part: parts[part] for part in recipe.files.extra if part in parts
        },
        notes=tuple(notes),
        sources={part: str(path) for part, path in paths.items()},
    )


def _find_parts(
    recipe: Recipe, folder: Path
) -> tuple[dict[str, Path], list[str]]:
    """Returns which file serves as what, and what is odd about it."""
    files = recipe.files
    names = {"train": files.train, "dev": files.dev, "test": files.test}
    names.update(files.extra)
    found = {part: find_file(folder, names[part]) for part in names}
    if found["dev"] is None:
        raise BertError(
            f"{folder} has no {' or '.join(files.dev)}.",
            hint=f"put all the files of {recipe.name} into one folder",
        )
    notes = []
    for part in ("train", "dev"):
        path = found[part]
        if path is not None and path.name not in names[part]:
            # 按模式找到的是别的文件，报告结果时必须说明
            notes.append(f"{path.name} stands for {names[part][0]}")
    if found["dev"] == found["test"]:
        # 没有开发集：同一份数据不能既挑模型又当测试集报告
        notes.append(
            "there is no development set: the test set, "
            f'"{found["dev"].name}", serves as one'
        )
        del found["test"]
    return {part: path for part, path in found.items() if path}, notes


def _divide(recipe: Recipe, folder: Path) -> TaskData:
    """Reads a file without a division and makes one that never changes."""
    path = find_file(folder, recipe.files.undivided)
    assert path is not None
    content = recipe.read(path, True)
    is_dev = [_hash(e) % DEV_EVERY == 0 for e in content.examples]
    pairs = list(zip(content.examples, is_dev, strict=True))
    train = [example for example, is_dev in pairs if not is_dev]
    dev = [example for example, is_dev in pairs if is_dev]
    if not train or not dev:
        raise BertError(f"{path} holds too few examples to divide.")
    note = (
        f"{path.name} has no official division: {len(train):,} examples to "
        f"train on and {len(dev):,} as development set, by a fixed rule"
    )
    sources = {"train": str(path), "dev": str(path)}
    return TaskData(train, dev, notes=(*content.notes, note), sources=sources)


def _hash(example: Example) -> int:
    # 按题干而不按行号：同一题干总在同一边，文件换了次序也不变
    assert isinstance(example, ChoiceExample)
    return zlib.crc32(example.prompt.encode())
