"""Fifty steps on real weights: our losses beside those of transformers."""

import json
import tarfile
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from bert_from_scratch.data.batch import IGNORE_INDEX
from bert_from_scratch.finetune.items import Item
from bert_from_scratch.finetune.loading import limit_data, load_data
from bert_from_scratch.finetune.plan import DataPlan, FinetunePlan
from bert_from_scratch.finetune.source import ItemSource
from bert_from_scratch.finetune.task import Task
from bert_from_scratch.finetune.tasks import make_task
from bert_from_scratch.train.optimizer import build_optimizer
from bert_from_scratch.train.settings import TrainingSettings
from bert_from_scratch.train.step_result import StepResult
from bert_from_scratch.train.trainer import BertTrainer

pytestmark = pytest.mark.slow

STEPS = 50
BATCH_SIZE = 4


@pytest.fixture(scope="module")
def encoder_dir(
    minilm_dir: Path, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """The real weights, with dropout off in their config."""
    directory = tmp_path_factory.mktemp("minilm")
    for path in minilm_dir.iterdir():
        if path.name != "config.json":
            (directory / path.name).symlink_to(path)
    config = json.loads((minilm_dir / "config.json").read_text())
    config["hidden_dropout_prob"] = 0.0
    config["attention_probs_dropout_prob"] = 0.0
    (directory / "config.json").write_text(json.dumps(config))
    return directory


def unpack(data_dir: Path, name: str, folder: Path) -> Path:
    with tarfile.open(data_dir / f"{name}.tar.xz") as archive:
        archive.extractall(folder, filter="data")
    return folder / name


@pytest.mark.parametrize(
    ("recipe", "archive", "task_name", "peer_class", "options"),
    [
        (
            "mrpc",
            "glue",
            "classify",
            "AutoModelForSequenceClassification",
            {"max_length": 48},
        ),
        (
            "conll2003",
            "conll2003",
            "tag",
            "AutoModelForTokenClassification",
            {"max_length": 48, "document_context": False},
        ),
        (
            "squad",
            "squad",
            "answer",
            "AutoModelForQuestionAnswering",
            {"max_length": 64, "stride": 32, "max_question": 24},
        ),
    ],
)
def test_fifty_losses_are_those_of_transformers(
    recipe: str,
    archive: str,
    task_name: str,
    peer_class: str,
    options: dict[str, Any],
    encoder_dir: Path,
    data_dir: Path,
    tmp_path: Path,
) -> None:
    folder = unpack(data_dir, archive, tmp_path)
    plan = FinetunePlan(
        task=task_name,
        model=str(encoder_dir),
        data=DataPlan(
            recipe=recipe, folder=str(folder), limit=300, dev_limit=10
        ),
        options=options,
    )
    whole = load_data(plan)
    task = make_task(plan, whole)
    data = limit_data(plan, whole)
    items = choose_items(task, data.train)
    torch.manual_seed(0)
    model = task.new_model(encoder_dir)
    model.save_pretrained(tmp_path / "start")  # type: ignore[operator]
    peer = getattr(transformers, peer_class).from_pretrained(tmp_path / "start")
    source = ItemSource(
        items,
        task.collate,
        batch_size=BATCH_SIZE,
        # 故意切成几小份：分份累加也必须与整批相同
        batch_tokens=128,
        seed=1,
    )
    settings = TrainingSettings(steps=STEPS, learning_rate=5e-5, warmup_steps=5)
    ours: list[float] = []
    rates: list[float] = []

    def note(result: StepResult) -> bool:
        ours.append(result.loss)
        rates.append(result.learning_rate)
        return False

    BertTrainer(model, source, settings).fit(note)
    theirs = train_peer(peer, task, items, source, settings, rates)
    assert len(ours) == STEPS
    torch.testing.assert_close(
        torch.tensor(ours), torch.tensor(theirs), atol=1e-4, rtol=0
    )
    assert min(theirs[-10:]) < theirs[0]


def choose_items(task: Task[Any, Any], examples: Any) -> list[Item]:
    items = [item for item in task.items(examples) if item.labels is not None]
    if task.name != "answer":
        return items
    # transformers 的问答损失把填充位置也算进分母：只取等长的窗口来比
    return [item for item in items if item.num_tokens == 64]


def train_peer(
    peer: nn.Module,
    task: Task[Any, Any],
    items: list[Item],
    source: ItemSource,
    settings: TrainingSettings,
    rates: list[float],
) -> list[float]:
    optimizer = build_optimizer(peer, settings)
    steps = [n for epoch in range(STEPS) for n in source.order(epoch)][:STEPS]
    losses = []
    peer.train()
    for numbers, rate in zip(steps, rates, strict=True):
        loss = peer(**pad(task, [items[number] for number in numbers])).loss
        loss.backward()
        nn.utils.clip_grad_norm_(peer.parameters(), 1.0)
        for group in optimizer.param_groups:
            group["lr"] = rate
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return losses


def pad(task: Task[Any, Any], items: list[Item]) -> dict[str, Tensor]:
    batch = task.collate(items)
    assert batch.cu_seqlens is not None
    lengths = batch.cu_seqlens.diff().tolist()

    def rows(packed: Tensor, fill: int) -> Tensor:
        parts = packed.split(lengths)
        return pad_sequence(parts, batch_first=True, padding_value=fill)

    inputs = {
        "input_ids": rows(batch.input_ids, 0),
        "token_type_ids": rows(batch.token_type_ids, 0),
        "attention_mask": rows(torch.ones_like(batch.input_ids), 0),
    }
    if batch.start_positions is not None and batch.end_positions is not None:
        inputs["start_positions"] = batch.start_positions
        inputs["end_positions"] = batch.end_positions
    if batch.labels is not None:
        is_tags = task.name == "tag"
        labels = rows(batch.labels, IGNORE_INDEX) if is_tags else batch.labels
        inputs["labels"] = labels
    return inputs
