"""All tasks by name: made of data, kept beside a model, found again."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from torch import nn

from bert_from_scratch import atomic
from bert_from_scratch.config import BertConfig, read_json
from bert_from_scratch.data.tasks.recipes import TaskData
from bert_from_scratch.errors import BertError
from bert_from_scratch.finetune.answering import AnsweringTask
from bert_from_scratch.finetune.baselines.task import WordClassificationTask
from bert_from_scratch.finetune.baselines.words import WordTokenizer
from bert_from_scratch.finetune.choosing import ChoosingTask
from bert_from_scratch.finetune.classification import ClassificationTask
from bert_from_scratch.finetune.encoding import check_max_length
from bert_from_scratch.finetune.labels import read_labels
from bert_from_scratch.finetune.plan import FinetunePlan
from bert_from_scratch.finetune.regression import RegressionTask
from bert_from_scratch.finetune.tagging import TaggingTask
from bert_from_scratch.finetune.task import Task
from bert_from_scratch.model.directory import StoredModel, find
from bert_from_scratch.tokenizer import WordPieceTokenizer

TASKS: dict[str, Any] = {
    "classify": ClassificationTask,
    "regress": RegressionTask,
    "choose": ChoosingTask,
    "tag": TaggingTask,
    "answer": AnsweringTask,
}
FILE_NAME = "task.json"
FORMAT = 1
SETTING_TYPES: dict[str, tuple[type, ...]] = {
    "labels": (list,),
    "max_length": (int,),
    "max_question": (int,),
    "stride": (int,),
    "n_best": (int,),
    "max_answer": (int,),
    "null_threshold": (int, float),
}


def make_task(
    plan: FinetunePlan, data: TaskData, train: Sequence[Any] | None = None
) -> Task[Any, Any]:
    """Makes the task of a plan for its data: labels, lengths, weights.

    Args:
        plan: Which task.
        data: All of it; its labels are found in the whole training set.
        train: What is trained on, where that is less; baselines know no
            other words.
    """
    judged = [*data.dev, *(e for part in data.others().values() for e in part)]
    if plan.model is None:
        words = WordClassificationTask.for_texts(
            cast("Any", data.train if train is None else train),
            cast("Any", data.train),
            cast("Any", judged),
            **plan.options,
        )
        return _weigh_classes(words, plan, data)
    model_dir = find(Path(plan.model))
    tokenizer = WordPieceTokenizer.load(model_dir)
    config = BertConfig.load(model_dir / "config.json")
    task_class = TASKS[plan.task]
    longest = plan.options.get("max_length")
    if longest is not None:
        check_max_length(longest, config.max_position_embeddings)
    task = task_class.for_data(tokenizer, data.train, judged, **plan.options)
    return _weigh_classes(task, plan, data)


def _weigh_classes(
    task: Any, plan: FinetunePlan, data: TaskData
) -> Task[Any, Any]:
    weights = plan.class_weights
    if weights is None:
        return cast("Task[Any, Any]", task)
    if plan.task not in ("classify", "tag"):
        raise BertError(f"--class-weights has no meaning for {plan.task}.")
    if weights == "balanced":
        return cast("Task[Any, Any]", task.with_balanced_classes(data.train))
    return cast("Task[Any, Any]", task.with_class_weights(weights))


def save_task(
    task: Task[Any, Any],
    model: nn.Module,
    directory: Path,
    card: str,
    columns: Mapping[str, Any],
) -> None:
    """Writes model, tokenizer, task and card; the directory appears whole.

    Args:
        task: Of the model.
        model: To write.
        directory: Must not exist.
        card: The model card, Markdown.
        columns: Where the files keep what, for evaluation later.
    """
    with atomic.new_directory(directory) as scratch_dir:
        cast("StoredModel", model).save_pretrained(scratch_dir)
        cast("Any", task).tokenizer.save(scratch_dir)
        values = {
            "format": FORMAT,
            "task": task.name,
            "settings": task.settings(),
            "columns": dict(columns),
        }
        atomic.write_json(scratch_dir / FILE_NAME, values)
        atomic.write_text(scratch_dir / "README.md", card)


def read_columns(directory: Path) -> dict[str, Any]:
    """Returns where the files of a model's training kept what."""
    path = directory / FILE_NAME
    if not path.is_file():
        return {}
    columns = read_json(path).get("columns", {})
    if not isinstance(columns, dict) or not all(
        map(_is_column, columns.values())
    ):
        raise BertError(f"{path} names no columns: {columns!r}.")
    return columns


def _is_column(value: Any) -> bool:
    if isinstance(value, list):
        return all(map(_is_column, value))
    return value is None or isinstance(value, str | int)


def load_task(directory: Path) -> Task[Any, Any]:
    """Finds out which task a model directory was trained for.

    Directories of Hugging Face are read by their `config.json`.

    Raises:
        BertError: It holds no head of a task that is known here.
    """
    path = directory / FILE_NAME
    if not path.is_file():
        return _guess_task(directory, WordPieceTokenizer.load(directory))
    values = read_json(path)
    is_known = values.get("format") == FORMAT and values.get("task") in [*TASKS]
    if not is_known or not isinstance(values.get("settings"), dict):
        raise BertError(f"{path} was written by another version.")
    _check_settings(values["settings"], directory)
    task_class: Any = TASKS[values["task"]]
    try:
        if "encoder" in values["settings"]:
            task_class = WordClassificationTask
            tokenizer: Any = WordTokenizer.load(directory)
        else:
            tokenizer = WordPieceTokenizer.load(directory)
        task = task_class.from_settings(tokenizer, values["settings"])
    except (KeyError, TypeError, ValueError) as error:
        raise BertError(f"{path} is no task: {error}.") from error
    return cast("Task[Any, Any]", task)


def _check_settings(settings: Mapping[str, Any], directory: Path) -> None:
    """Refuses settings that were changed and no longer fit the model."""
    path = directory / FILE_NAME
    for name, value in settings.items():
        kinds = SETTING_TYPES.get(name)
        if kinds and (isinstance(value, bool) or not isinstance(value, kinds)):
            raise BertError(f"{path}: {name} cannot be {value!r}.")
    labels = settings.get("labels")
    if labels is None or "encoder" in settings or settings.get("features"):
        return
    # 标签的次序就是打分的次序：换了位置，答案就全部颠倒
    if labels != read_labels(read_json(directory / "config.json")):
        raise BertError(
            f"{path} and config.json name different labels.",
            hint="restore the file as it was written",
        )


def _guess_task(
    directory: Path, tokenizer: WordPieceTokenizer
) -> Task[Any, Any]:
    values = read_json(directory / "config.json")
    architecture = next(iter(values.get("architectures") or ["?"]))
    longest = int(values.get("max_position_embeddings", 512))
    if architecture == "BertForQuestionAnswering":
        length = min(384, longest)
        return AnsweringTask(
            tokenizer, max_length=length, max_question=min(64, length // 4)
        )
    if architecture == "BertForTokenClassification":
        labels = tuple(read_labels(values))
        return TaggingTask(tokenizer, labels, max_length=longest)
    if architecture == "BertForMultipleChoice":
        return ChoosingTask(tokenizer, None, max_length=longest)
    if architecture == "BertForSequenceClassification":
        return _guess_classification(tokenizer, values, longest)
    raise BertError(
        f"{directory} holds no fine-tuned model, but a {architecture}.",
        hint="fine-tune it first: bert finetune --help",
    )


def _guess_classification(
    tokenizer: WordPieceTokenizer, values: Mapping[str, Any], longest: int
) -> Task[Any, Any]:
    labels = tuple(read_labels(values))
    problem = values.get("problem_type")
    if problem == "regression" or (problem is None and len(labels) == 1):
        return RegressionTask(tokenizer, max_length=longest)
    return ClassificationTask(
        tokenizer,
        labels,
        max_length=longest,
        is_multi_label=problem == "multi_label_classification",
    )
