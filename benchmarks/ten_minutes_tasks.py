"""What pre-trained models are worth: fine-tuned on the tasks, seed by seed.

    python benchmarks/ten_minutes_tasks.py ours=RUN peer=DIR --data FOLDER
        [--tasks sst2,mrpc,...] [--seeds 3] [--at-once 5] [--limit N]
        [--seconds 580] [--out FILE.json]

Every model goes through `bert finetune` with the same data, order, rates and
seeds; several processes share the GPU. FOLDER holds the unpacked archives. What
all models have done is written at once; a task that is not done after so many
seconds is left out.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Collection, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any

import report
from bert_from_scratch.data.tasks.recipes import RECIPES

SEED = 0
# 与 finetune.py 同样的长度与轮数；从头只练了几分钟的模型也用同样的设置
TASKS: dict[str, dict[str, Any]] = {
    "squad": {"folder": "squad", "epochs": 2, "max_length": 384},
    "sst2": {"folder": "glue", "epochs": 1, "max_length": 64},
    "conll2003": {"folder": "conll2003", "epochs": 3, "max_length": 256},
    "cola": {"folder": "glue", "epochs": 3, "max_length": 64},
    "stsb": {"folder": "glue", "epochs": 3, "max_length": 128},
    "mrpc": {"folder": "glue", "epochs": 3, "max_length": 128},
    "rte": {"folder": "glue", "epochs": 3, "max_length": 256},
}
LEARNING_RATE = "5e-5"
BERT = "from bert_from_scratch.cli.main import main; main()"


def main() -> None:
    """Fine-tunes every model on every task and writes one table."""
    arguments = parse_arguments()
    models = dict(model.split("=", 1) for model in arguments.models)
    jobs = [
        (task, name) for task in arguments.tasks.split(",") for name in models
    ]
    end = time.monotonic() + arguments.seconds
    run = report.describe_run(SEED)
    results: dict[tuple[str, str], dict[str, Any] | None]
    results = dict.fromkeys(jobs)
    with (
        tempfile.TemporaryDirectory() as scratch,
        ThreadPoolExecutor(arguments.at_once) as pool,
    ):
        waiting = {
            pool.submit(
                finetune, task, name, models[name], arguments, scratch, end
            ): (task, name)
            for task, name in jobs
        }
        for future in as_completed(waiting):
            results[waiting[future]] = future.result()
            # 每完成一项就存：中途被停下，做完的也还在
            report.save(arguments.out, run, list(compare(results, models)))
    rows = list(compare(results, models))
    if not rows:
        sys.exit("error: no task was done by all models")
    report.write(arguments.out, run, rows)


def parse_arguments() -> argparse.Namespace:
    """Reads the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="+", help="NAME=DIRECTORY")
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--tasks", default=",".join(TASKS))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--at-once", type=int, default=5)
    parser.add_argument("--limit", type=int)
    parser.add_argument("--seconds", type=float, default=3600.0)
    parser.add_argument(
        "--out", type=Path, default=Path("build/ten_minutes_tasks.json")
    )
    arguments = parser.parse_args()
    if min(arguments.seeds, arguments.at_once) < 1:
        parser.error("--seeds and --at-once must be at least 1")
    for model in arguments.models:
        name, _, folder = model.partition("=")
        if not (name and folder and Path(folder).is_dir()):
            parser.error(f"{model} is not of the form NAME=DIRECTORY")
    for task in arguments.tasks.split(","):
        if task not in TASKS:
            parser.error(f"no task {task}; there are {', '.join(TASKS)}")
        if not (arguments.data / TASKS[task]["folder"]).is_dir():
            parser.error(f"no {TASKS[task]['folder']} in {arguments.data}")
    return arguments


def finetune(
    task: str,
    name: str,
    model: str,
    arguments: argparse.Namespace,
    scratch: str,
    end: float,
) -> dict[str, Any] | None:
    """Fine-tunes one model on one task; None: not done in time."""
    settings = TASKS[task]
    limits = ("--limit", "--dev-limit") if arguments.limit else ()
    command = [
        *(sys.executable, "-c", BERT, "finetune", RECIPES[task].task, model),
        *("--recipe", task, "--data", arguments.data / settings["folder"]),
        *("--epochs", settings["epochs"], "--lr", LEARNING_RATE),
        *("--max-length", settings["max_length"]),
        *("--seeds", arguments.seeds, "--seed", SEED),
        *("--out", Path(scratch, f"{task}-{name}"), "--json"),
        *(part for limit in limits for part in (limit, arguments.limit)),
    ]
    begun = time.monotonic()
    try:
        done = subprocess.run(
            [str(part) for part in command],
            capture_output=True,
            text=True,
            timeout=max(end - begun, 0),
            check=False,
        )
    except subprocess.TimeoutExpired:
        print(f"{task} {name}: not done in time", flush=True)
        return None
    if done.returncode:
        print(f"{task} {name}: {done.stderr[-1500:]}", flush=True)
        return None
    found: dict[str, Any] = json.loads(done.stdout)
    seconds = time.monotonic() - begun
    score = found["mean"][found["metric"]]
    print(f"{task} {name}: {score:.4f}, {seconds:.0f} s", flush=True)
    return found


def compare(
    results: dict[tuple[str, str], dict[str, Any] | None],
    names: Collection[str],
) -> Iterator[dict[str, Any]]:
    """Yields a row for every task that all models have done."""
    for task in dict.fromkeys(task for task, _ in results):
        found = {name: results[task, name] for name in names}
        done = {name: one for name, one in found.items() if one is not None}
        if len(done) < len(names):
            continue
        metric = next(iter(done.values()))["metric"]
        row: dict[str, Any] = {"task": task, "score": metric}
        for name, one in done.items():
            row[name] = one["mean"][metric]
            row[f"{name} sd"] = one["deviation"][metric]
        row["seeds"] = {
            name: [attempt["scores"][metric] for attempt in one["attempts"]]
            for name, one in done.items()
        }
        yield row


if __name__ == "__main__":
    report.run(main)
