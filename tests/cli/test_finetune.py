"""`bert finetune`, `bert predict`, `bert evaluate`: every task, by commands."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

from bert_from_scratch import BertConfig, BertForPreTraining, WordPieceTokenizer

from .conftest import Bert

ADJECTIVES = {"good": ("fine", "warm"), "bad": ("cold", "dark")}
THINGS = ("film", "room", "song", "day")
NAMES = ("anna", "boris", "clara")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny BERT, untrained."""
    directory = tmp_path_factory.mktemp("model") / "bert"
    words = [*THINGS, *NAMES, *ADJECTIVES["good"], *ADJECTIVES["bad"]]
    lines = [f"the {word} was in the house , who came home ?" for word in words]
    tokenizer = WordPieceTokenizer.train(lines * 3, vocab_size=120)
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=len(tokenizer),
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=64,
        max_position_embeddings=64,
        initializer_range=0.1,
    )
    BertForPreTraining(config).save_pretrained(directory)
    tokenizer.save(directory)
    return directory


def write_lines(path: Path, lines: Sequence[str]) -> Path:
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One small file a task."""
    folder = tmp_path_factory.mktemp("files")
    rows = [
        (f"the {thing} was {word}", label)
        for label, words in ADJECTIVES.items()
        for word in words
        for thing in THINGS
    ]
    table = [f"{text}\t{label}" for text, label in rows]
    write_lines(folder / "labels.tsv", ["text\tlabel", *table])
    write_lines(folder / "bare.tsv", table)
    several = [f"{text}\t{label}|{text.split()[1]}" for text, label in rows]
    write_lines(folder / "several.tsv", ["text\tlabel", *several])
    scores = [
        f"{text}\t{2.5 if label == 'good' else 0.5}" for text, label in rows
    ]
    write_lines(folder / "scores.tsv", ["text\tscore", *scores])
    choices = [
        json.dumps(
            {
                "prompt": f"the {thing} was",
                "choices": ["warm", "cold", "dark"],
                "answer": number % 3,
            }
        )
        for number, thing in enumerate(THINGS)
    ]
    write_lines(folder / "choices.jsonl", choices)
    sentences = [
        f"{name} B-PER\nwas O\nin O\nthe O\n{thing} O\n"
        for name in NAMES
        for thing in THINGS
    ]
    write_lines(folder / "tags.txt", sentences)
    (folder / "questions.json").write_text(json.dumps(make_squad()))
    return folder


def make_squad() -> dict[str, Any]:
    paragraphs = []
    for number, name in enumerate(NAMES):
        context = f"in the house , {name} came home ."
        start = context.index(name)
        answered = {
            "id": f"q{number}",
            "question": "who came home ?",
            "answers": [{"text": name, "answer_start": start}],
            "is_impossible": False,
        }
        other = {
            "id": f"n{number}",
            "question": "was the film dark ?",
            "answers": [],
            "is_impossible": True,
        }
        paragraphs.append({"context": context, "qas": [answered, other]})
    return {
        "version": "v2.0",
        "data": [{"title": "home", "paragraphs": paragraphs}],
    }


FAST = ("--epochs", 30, "--lr", "3e-3", "--batch-size", 8, "--log-every", 50)


def test_classify_then_predict_then_evaluate(
    bert: Bert, model: Path, files: Path, tmp_path: Path
) -> None:
    data = files / "labels.tsv"
    out = tmp_path / "out"
    done = bert(
        *("finetune", "classify", model, "--train", data, "--dev", data),
        *("--out", out, *FAST, "--json"),
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["scores"]["accuracy"] == 1
    found = bert("predict", out, "the film was warm", "the day was dark")
    labels = [json.loads(line)["label"] for line in found.stdout.splitlines()]
    assert labels == ["good", "bad"]
    for way in (("--input", "-"), ("-",)):
        found = bert("predict", out, *way, stdin=b"the room was cold\n")
        assert json.loads(found.stdout)["label"] == "bad"
    found = bert("predict", out, "--input", data)
    lines = [json.loads(line) for line in found.stdout.splitlines()]
    assert len(lines) == 16
    assert all("pair" not in line for line in lines)
    judged = bert(
        *("evaluate", out, "--data", data, "--out", tmp_path / "report"),
        "--json",
    )
    assert json.loads(judged.stdout)["scores"]["matthews"] == 1
    assert (tmp_path / "report" / "confusion.png").stat().st_size > 1000


def test_columns_by_number_need_no_header(
    bert: Bert, model: Path, files: Path, tmp_path: Path
) -> None:
    data = files / "bare.tsv"
    done = bert(
        *("finetune", "classify", model, "--train", data, "--dev", data),
        *("--text-column", 0, "--label-column", 1, "--epochs", 1),
        *("--out", tmp_path / "out"),
    )
    assert done.returncode == 0, done.stderr
    assert "16 examples to train on" in done.stderr


@pytest.mark.slow
def test_several_labels_are_split_predicted_and_judged(
    bert: Bert, model: Path, files: Path, tmp_path: Path
) -> None:
    data = files / "several.tsv"
    out = tmp_path / "out"
    done = bert(
        *("finetune", "classify", model, "--train", data, "--dev", data),
        *("--multi-label", "|", "--out", out, *FAST, "--epochs", 100),
    )
    assert done.returncode == 0, done.stderr
    found = bert("predict", out, "the film was warm")
    assert set(json.loads(found.stdout)["labels"]) == {"good", "film"}
    judged = bert("evaluate", out, "--data", data, "--json")
    assert json.loads(judged.stdout)["scores"]["f1_micro"] > 0.9


@pytest.mark.slow
def test_regress(bert: Bert, model: Path, files: Path, tmp_path: Path) -> None:
    data = files / "scores.tsv"
    done = bert(
        *("finetune", "regress", model, "--train", data, "--dev", data),
        *("--out", tmp_path / "out", *FAST),
    )
    assert done.returncode == 0, done.stderr
    found = bert("predict", tmp_path / "out", "the film was warm")
    assert json.loads(found.stdout)["score"] == pytest.approx(2.5, abs=0.7)


@pytest.mark.slow
def test_choose(bert: Bert, model: Path, files: Path, tmp_path: Path) -> None:
    data = files / "choices.jsonl"
    done = bert(
        *("finetune", "choose", model, "--train", data, "--dev", data),
        *("--out", tmp_path / "out", *FAST, "--epochs", 60),
    )
    assert done.returncode == 0, done.stderr
    found = bert(
        *("predict", tmp_path / "out"),
        *("the film was", "warm", "cold", "dark"),
    )
    line = json.loads(found.stdout)
    assert sorted(x["choice"] for x in line["ranking"]) == [
        "cold",
        "dark",
        "warm",
    ]
    assert line["choice"] == line["ranking"][0]["choice"]


@pytest.mark.slow
@pytest.mark.parametrize("features", [None, "weighted-sum"])
def test_tag(
    bert: Bert, model: Path, files: Path, tmp_path: Path, features: str | None
) -> None:
    data = files / "tags.txt"
    more = () if features is None else ("--features", features)
    done = bert(
        *("finetune", "tag", model, "--train", data, "--dev", data),
        *("--out", tmp_path / "out", *FAST, *more),
    )
    assert done.returncode == 0, done.stderr
    text = "Anna was in the room"
    found = json.loads(bert("predict", tmp_path / "out", text).stdout)
    entity = next(x for x in found["entities"] if x["text"] == "Anna")
    assert entity["type"] == "PER"
    assert text[entity["start"] : entity["end"]] == "Anna"


@pytest.mark.slow
def test_answer_with_a_searched_threshold(
    bert: Bert, model: Path, files: Path, tmp_path: Path
) -> None:
    data = files / "questions.json"
    out = tmp_path / "out"
    done = bert(
        *("finetune", "answer", model, "--train", data, "--dev", data),
        *("--out", out, *FAST, "--epochs", 60, "--max-question", 16),
    )
    assert done.returncode == 0, done.stderr
    task = json.loads((out / "model" / "task.json").read_text())
    assert task["settings"]["has_null"]
    context = "in the house , anna came home ."
    found = bert(
        "predict", out, "who came home ?", "was the film dark ?", context
    )
    first, second = map(json.loads, found.stdout.splitlines())
    assert first["answer"] == context[first["start"] : first["end"]] == "anna"
    assert second["answer"] == ""
    assert len(first["n_best"]) == 5
    found = bert("predict", out, "--top", 1, "who came home ?", context)
    assert len(json.loads(found.stdout)["n_best"]) == 1


@pytest.mark.slow
def test_baselines_and_bert_in_one_table(
    bert: Bert, model: Path, files: Path, tmp_path: Path
) -> None:
    data = files / "labels.tsv"
    done = bert(
        *("finetune", "classify", model, "--encoder", "bert,bow,cnn"),
        *("--train", data, "--dev", data, "--out", tmp_path / "out"),
        *("--epochs", 2, "--word-vectors", "cbow"),
    )
    assert done.returncode == 0, done.stderr
    for name in ("bert", "bow", "cnn"):
        assert (tmp_path / "out" / name / "metrics.json").is_file()
        assert name in done.stderr
    found = bert("predict", tmp_path / "out" / "bow", "the film was warm")
    assert json.loads(found.stdout)["label"] in ("good", "bad")


def test_a_comparison_is_not_mixed_with_an_older_one(
    bert: Bert, files: Path, tmp_path: Path
) -> None:
    data = files / "labels.tsv"
    command = (
        *("finetune", "classify", "--encoder", "bow,cnn", "--train", data),
        *("--dev", data, "--out", tmp_path / "out", "--epochs"),
    )
    assert bert(*command, 1).returncode == 0
    again = bert(*command, 1, "--log-every", 3)
    assert again.returncode == 0
    assert "is finished already" in again.stderr
    done = bert(*command, 2)
    check_refused(done, "was made with other settings: epochs.")


def test_a_model_of_pairs_is_tried_with_a_pair(
    bert: Bert, model: Path, files: Path, tmp_path: Path
) -> None:
    data = write_lines(
        tmp_path / "pairs.tsv",
        [
            "a\tb\tscore",
            *(f"the {x} was\tin\t{n}" for n, x in enumerate(NAMES)),
        ],
    )
    done = bert(
        *("finetune", "regress", model, "--train", data, "--dev", data),
        *("--text-column", "a", "--pair-column", "b"),
        *("--label-column", "score", "--epochs", 1, "--out", tmp_path / "out"),
    )
    assert r"$'one text\tanother text'" in done.stderr


def test_a_frozen_encoder_is_not_called_a_model_of_transformers(
    bert: Bert, model: Path, files: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    done = bert(
        *("finetune", "tag", model, "--train", files / "tags.txt"),
        *("--dev", files / "tags.txt", "--features", "last"),
        *("--epochs", 1, "--out", out),
    )
    assert done.returncode == 0, done.stderr
    card = (out / "model" / "README.md").read_text()
    assert "library_name" not in card
    assert "features last into a BiLSTM" in card
    assert json.loads((out / "plan.json").read_text())["learning_rates"] == [
        1e-3
    ]


def check_refused(done: Any, message: str) -> None:
    assert done.returncode == 2, done.stderr
    assert "Traceback" not in done.stderr
    assert message in done.stderr, done.stderr


@pytest.mark.parametrize(
    ("task", "lines", "message"),
    [
        ("classify", ["words\tkind", "a\tb"], '"words", "kind"'),
        ("classify", ["text\tlabel", "a\tgood", "b\tgood"], "one class only"),
        ("classify", ["text\tlabel", "a\tgood", "b"], "line 3"),
        ("classify", ["text\tlabel", "a\tgood", "b\tx\ty"], "line 3"),
        ("classify", ["text\tlabel", "a\tgood", "  \tbad"], "line 3"),
        ("classify", ["text\tlabel"], "no examples"),
        ("regress", ["text\tscore", "a\t1", "b\tnan"], "line 3"),
        ("regress", ["text\tscore", "a\t1", "b\tgood"], "line 3"),
        ("tag", ["anna B-PER", "was O", "here I-LOC"], "word 3"),
        ("tag", ["anna B-PER", "was"], "line 2"),
    ],
)
def test_bad_files_are_named_with_their_place(
    bert: Bert,
    model: Path,
    tmp_path: Path,
    task: str,
    lines: list[str],
    message: str,
) -> None:
    suffix = "txt" if task == "tag" else "tsv"
    data = write_lines(tmp_path / f"data.{suffix}", lines)
    out = tmp_path / "out"
    done = bert(
        "finetune", task, model, "--train", data, "--dev", data, "--out", out
    )
    check_refused(done, message)
    assert not out.exists()


def test_unequal_numbers_of_choices_are_refused(
    bert: Bert, model: Path, tmp_path: Path
) -> None:
    lines = [
        '{"prompt": "a", "choices": ["b", "c"], "answer": 0}',
        '{"prompt": "a", "choices": ["b", "c", "d"], "answer": 0}',
    ]
    data = write_lines(tmp_path / "data.jsonl", lines)
    done = bert(
        *("finetune", "choose", model, "--train", data, "--dev", data),
        *("--out", tmp_path / "out"),
    )
    check_refused(done, "line 2")


def test_a_missing_column_names_those_there_are(
    bert: Bert, model: Path, files: Path, tmp_path: Path
) -> None:
    data = files / "labels.tsv"
    done = bert(
        *("finetune", "classify", model, "--train", data, "--dev", data),
        *("--text-column", "sentence", "--label-column", "label"),
        *("--out", tmp_path / "out"),
    )
    check_refused(done, '"text", "label"')


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (("--recipe", "nothing", "--data", "."), "no recipe"),
        (("--recipe", "squad", "--data", "."), "is for answer"),
        (("--lr", "fast"), "--lr"),
        (("--lr", "-1"), "--lr"),
        (("--epochs", "0"), "--epochs"),
        (("--freeze-layers", "9"), "0 ... 2"),
        (("--layer-decay", "2"), "--layer-decay"),
        (("--class-weights", "1,2,3"), "2 positive class weights"),
        (("--max-length", "100"), "8 ... 64"),
        (("--encoder", "gpt"), "Unknown encoder"),
        (("--encoder", "bow"), "takes no MODEL"),
        (("--word-vectors", "cbow"), "no meaning for bert"),
        (("--metric", "beauty"), "beauty"),
    ],
)
def test_bad_options_are_refused(
    bert: Bert,
    model: Path,
    files: Path,
    tmp_path: Path,
    more: tuple[str, ...],
    message: str,
) -> None:
    data = files / "labels.tsv"
    given = () if "--recipe" in more else ("--train", data, "--dev", data)
    out = tmp_path / "out"
    done = bert("finetune", "classify", model, *given, "--out", out, *more)
    check_refused(done, message)
    assert not out.exists()


def test_a_model_without_a_task_cannot_predict(bert: Bert, model: Path) -> None:
    check_refused(bert("predict", model, "a text"), "no fine-tuned model")


def test_data_of_another_task_is_refused(
    bert: Bert, model: Path, files: Path, tmp_path: Path
) -> None:
    data = files / "labels.tsv"
    done = bert(
        *("finetune", "classify", model, "--train", data, "--dev", data),
        *("--epochs", 1, "--out", tmp_path / "out"),
    )
    assert done.returncode == 0, done.stderr
    done = bert("evaluate", tmp_path / "out", "--data", files / "scores.tsv")
    check_refused(done, "does not know the label '2.5'")
    done = bert(
        *("evaluate", tmp_path / "out", "--data", files, "--recipe", "squad")
    )
    check_refused(done, "is for answer")


BERT = str(Path(sys.executable).with_name("bert"))
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1"}


@pytest.mark.slow
def test_a_run_ended_by_a_signal_goes_on(
    model: Path, files: Path, tmp_path: Path
) -> None:
    data = files / "labels.tsv"
    out = tmp_path / "out"
    command = [
        *(BERT, "finetune", "classify", str(model), "--train", str(data)),
        *("--dev", str(data), "--out", str(out), "--epochs", "2000"),
    ]
    process = subprocess.Popen(command, env=ENVIRONMENT)
    metrics = out / "runs" / "lr-2e-05-seed-0" / "metrics.jsonl"
    deadline = time.monotonic() + 120
    while not metrics.is_file() or metrics.stat().st_size < 1000:
        assert time.monotonic() < deadline
        time.sleep(0.1)
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == 75
    saved = len(metrics.read_text().splitlines())
    # 后半程不必真跑完：改短计划，看它从存档处接着走
    plan = json.loads((out / "plan.json").read_text())
    plan["epochs"] = saved * 10
    (out / "plan.json").write_text(json.dumps(plan))
    done = subprocess.run(
        [BERT, "finetune", "resume", str(out)],
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    lines = metrics.read_text().splitlines()
    steps = [json.loads(line)["step"] for line in lines]
    assert steps == sorted(set(steps))
    assert (out / "model" / "model.safetensors").is_file()


@pytest.mark.slow
def test_two_processes_have_the_losses_of_one(
    model: Path, files: Path, tmp_path: Path
) -> None:
    data = str(files / "labels.tsv")
    common = [
        *("finetune", "classify", str(model), "--train", data, "--dev", data),
        *("--epochs", "3", "--batch-size", "3", "--log-every", "1"),
        *("--device", "cpu"),
    ]
    torchrun = str(Path(sys.executable).with_name("torchrun"))
    for name, program in (
        ("one", [BERT]),
        ("two", [torchrun, "--standalone", "--nproc-per-node=2", BERT]),
    ):
        done = subprocess.run(
            [*program, *common, "--out", str(tmp_path / name)],
            env=ENVIRONMENT,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
    one, two = (
        [json.loads(line)["loss"] for line in path.read_text().splitlines()]
        for path in (
            tmp_path / name / "runs/lr-2e-05-seed-0/metrics.jsonl"
            for name in ("one", "two")
        )
    )
    # dropout 各进程不同，损失只能相近；步数与次序必须相同
    assert len(one) == len(two) == 3 * 6
    assert one == pytest.approx(two, abs=0.2)
