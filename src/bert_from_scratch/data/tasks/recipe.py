"""What a recipe is, and the files that it needs."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TypeAlias

from bert_from_scratch.data.tasks.examples import (
    ChoiceExample,
    QuestionExample,
    TagExample,
    TextExample,
)
from bert_from_scratch.errors import BertError

Example: TypeAlias = TextExample | ChoiceExample | TagExample | QuestionExample
TaskName = Literal["classify", "regress", "choose", "tag", "answer"]


@dataclass(frozen=True)
class FileContent:
    """The examples of one file.

    Attributes:
        examples: At least one.
        notes: What a user should know about them.
    """

    examples: Sequence[Example]
    notes: tuple[str, ...] = ()


# 读一个文件；第二个参数：是否用于训练
Reader: TypeAlias = Callable[[Path, bool], FileContent]


@dataclass(frozen=True)
class TaskFiles:
    """Names of the files of a task.

    Every part has one or more names, the first that exists is used; a name
    with a * is a pattern.

    Attributes:
        folders: Where they may be, below the folder that a user gives.
        train: The training set.
        dev: The development set; may fall back to the test set.
        test: The labelled test set, if any.
        extra: Further sets to evaluate on.
        undivided: One file with everything, for want of a division.
    """

    folders: tuple[str, ...]
    train: tuple[str, ...]
    dev: tuple[str, ...]
    test: tuple[str, ...] = ()
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    undivided: tuple[str, ...] = ()


@dataclass(frozen=True)
class Recipe:
    """A known task: how its files are read, and the settings that work.

    Attributes:
        name: As typed after `--recipe`.
        title: The task in a few words.
        task: As typed after `bert finetune`.
        metric: The number that decides, under its name in the task's scores.
        files: What is looked for.
        read: Reads one of the files.
        batch_size: Examples a step.
        learning_rate: The single rate to use.
        learning_rate_grid: The rates among which the paper chose.
        epochs: Times through the training set.
        max_length: Longest sequence in tokens.
        document_context: Whether a sentence is seen with its neighbours in
            the document.
        has_null: Whether a question may have no answer.
        language: "en" or "zh".
        cased: Whether the task wants a cased model.
    """

    name: str
    title: str
    task: TaskName
    metric: str
    files: TaskFiles
    read: Reader
    batch_size: int = 32
    learning_rate: float = 2e-5
    learning_rate_grid: tuple[float, ...] = (2e-5,)
    epochs: int = 3
    max_length: int = 128
    document_context: bool = False
    has_null: bool = False
    language: Literal["en", "zh"] = "en"
    cased: bool = False


def find_folder(recipe: Recipe, data_dir: Path) -> Path:
    """Returns where the training file of a recipe is.

    Args:
        recipe: What is looked for.
        data_dir: The task's own folder, or one above it.

    Raises:
        BertError: It is nowhere; the message says what was looked for.
    """
    if not data_dir.is_dir():
        raise BertError(f"There is no folder {data_dir}.")
    # 有训练文件的目录才算找到
    names = recipe.files.train + recipe.files.undivided
    # 先看以任务命名的子目录：上层目录里的 train.tsv 可能属于别的任务
    for folder in (*recipe.files.folders, "."):
        if find_file(data_dir / folder, names):
            return data_dir / folder
    folders = ", ".join(f"{folder}/" for folder in recipe.files.folders)
    raise BertError(
        f'{data_dir} does not hold the data of "{recipe.name}": there is no '
        f"{' or '.join(names)}, neither in it nor in {folders}.",
        hint="unpack the official files there, or give their folder",
    )


def find_file(folder: Path, names: Sequence[str]) -> Path | None:
    """Returns the first of the names that exists in a folder.

    Raises:
        BertError: A pattern fits several files.
    """
    for name in names:
        if "*" not in name:
            if (folder / name).exists():
                return folder / name
            continue
        # 只有一部分数据时，文件名往往另加后缀，用模式去认
        matches = sorted(folder.glob(name))
        if len(matches) > 1:
            listed = ", ".join(match.name for match in matches)
            raise BertError(
                f"{folder} holds several files {name}: {listed}.",
                hint="leave only the one that is meant",
            )
        if matches:
            return matches[0]
    return None
