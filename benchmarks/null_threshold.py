"""Is the searched null threshold worth anything on questions it never saw?

    python benchmarks/null_threshold.py --model ENCODER [--limit 500]
        [--data FOLDER] [--epochs 3] [--out FILE.json]

Trains on `v2.0-train-part.json`. The articles of `v2.0-dev-part.json` are dealt
to two halves: the threshold is searched on one, and scored on the other beside
a threshold of 0, which is what most tools use.
"""

import argparse
import json
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import finetune
import report
from bert_from_scratch.finetune import run
from bert_from_scratch.finetune.answering import AnsweringTask
from bert_from_scratch.finetune.inference import predict
from bert_from_scratch.finetune.loading import read_examples
from bert_from_scratch.finetune.plan import DataPlan, FinetunePlan
from bert_from_scratch.model.device import choose_device
from bert_from_scratch.predict.task import TaskPredictor

SEED = 0


def main() -> None:
    """Trains, searches on one half, scores on the other."""
    arguments = parse_arguments()
    source = (arguments.data or finetune.unpack("squad")) / "squad"
    with tempfile.TemporaryDirectory() as folder:
        halves = deal_articles(source / "v2.0-dev-part.json", Path(folder))
        out = Path(folder) / "model"
        run.start(make_plan(arguments, source, halves), out, lambda *_: None)
        predictor = TaskPredictor.load(out, arguments.device)
        rows = [
            score(predictor, half, threshold, name)
            for half, name in zip(halves, ("searched", "unseen"), strict=True)
            for threshold in (None, 0.0)
        ]
    report.write(arguments.out, report.describe_run(SEED), rows)


def parse_arguments() -> argparse.Namespace:
    """Reads the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", type=Path, help="the encoder")
    parser.add_argument("--data", type=Path, help="folder of unpacked data")
    parser.add_argument("--limit", type=int)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--out", type=Path, default="build/null_threshold.json")
    return parser.parse_args()


def deal_articles(path: Path, folder: Path) -> tuple[Path, Path]:
    """Writes every other article to one half, the rest to the other."""
    content = json.loads(path.read_text(encoding="utf-8"))
    articles = content["data"]
    halves = folder / "first.json", folder / "second.json"
    for start, half in enumerate(halves):
        part = {**content, "data": articles[start::2]}
        half.write_text(json.dumps(part), encoding="utf-8")
    return halves


def make_plan(
    arguments: argparse.Namespace, source: Path, halves: tuple[Path, Path]
) -> FinetunePlan:
    """Plans one fine-tuning with "no answer" among the answers."""
    is_gpu = choose_device(arguments.device).type == "cuda"
    return FinetunePlan(
        task="answer",
        model=str(arguments.model or finetune.find_model()),
        data=DataPlan(
            train=str(source / "v2.0-train-part.json"),
            dev=str(halves[0]),
            limit=arguments.limit,
        ),
        learning_rates=(5e-5,),
        seeds=(SEED,),
        epochs=arguments.epochs,
        precision="bf16" if is_gpu else "fp32",
        device=arguments.device,
        options={"max_length": 384, "has_null": True},
    )


def score(
    predictor: TaskPredictor, path: Path, threshold: float | None, name: str
) -> dict[str, Any]:
    """Scores a half, with the stored threshold or another."""
    task = predictor.task
    assert isinstance(task, AnsweringTask)
    if threshold is not None:
        task = replace(task, null_threshold=threshold)
    examples: list[Any] = list(read_examples("answer", path, {}).examples)
    found = predict(task, predictor.model, examples, predictor.device)
    scores = task.score(examples, found)
    kind = "stored" if threshold is None else "0"
    return {
        "half": name,
        "questions": len(examples),
        "threshold": f"{kind} ({task.null_threshold:.3f})",
        **{k: scores[k] for k in ("exact_match", "f1")},
        "f1 with answer": scores["has_answer_f1"],
        "f1 without": scores["no_answer_f1"],
    }


if __name__ == "__main__":
    main()
