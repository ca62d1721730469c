"""The road from text to a model, by commands; and back from any crash."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from bert_from_scratch.corpus.builtin import builtin_documents

BERT = str(Path(sys.executable).with_name("bert"))
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1"}


def bert(*args: object) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [BERT, *map(str, args)], capture_output=True, text=True, env=ENVIRONMENT
    )


@pytest.fixture(scope="module")
def data_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Token shards of a few documents, with a small vocabulary."""
    folder = tmp_path_factory.mktemp("pretrain")
    corpus = folder / "corpus"
    corpus.mkdir()
    for number, text in enumerate(builtin_documents()[:30]):
        (corpus / f"{number}.txt").write_text(text[:3000], encoding="utf-8")
    tokenizer = folder / "tokenizer"
    done = bert(
        "tokenizer", "train", corpus, "--out", tokenizer, "--vocab-size", 500
    )
    assert done.returncode == 0, done.stderr
    done = bert(
        *("prepare", corpus, "--tokenizer", tokenizer),
        *("--boundary", "file", "--out", folder / "data", "--json"),
    )
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["num_documents"] == 30
    assert report["random_pair_rate"] == pytest.approx(0.5, abs=0.15)
    return folder / "data"


TINY = (
    *("--preset", "tiny", "--batch-tokens", 512, "--max-length", 32),
    *("--log-every", 1, "--lr", 1e-3),
)


def metrics(run: Path) -> list[dict[str, Any]]:
    lines = (run / "metrics.jsonl").read_text().split("\n")
    return [json.loads(line) for line in lines if line]


def losses(run: Path) -> list[tuple[int, float]]:
    return [(line["step"], line["loss"]) for line in metrics(run)]


@pytest.mark.slow
def test_a_run_leaves_a_model_that_every_command_takes(
    data_path: Path, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    done = bert("pretrain", data_path, *TINY, "--steps", 6, "--out", run)
    assert done.returncode == 0, done.stderr
    assert [step for step, _ in losses(run)] == [1, 2, 3, 4, 5, 6]
    line = metrics(run)[0]
    expected = {
        *("step", "loss", "mlm_loss", "nsp_loss", "lr", "tokens_per_second")
    }
    assert expected <= line.keys()
    assert line["loss"] == pytest.approx(line["mlm_loss"] + line["nsp_loss"])
    filled = bert("fill-mask", run, "a [MASK] here", "--json")
    assert len(json.loads(filled.stdout)["masks"]) == 1
    result = bert("evaluate", run, "--data", data_path, "--json")
    evaluation = json.loads(result.stdout)
    assert 3 < evaluation["mlm_loss"] < 7
    assert 0.2 < evaluation["nsp_accuracy"] < 0.8


@pytest.mark.slow
def test_mistakes_get_their_errors(data_path: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"

    def refused(*args: object) -> str:
        done = bert("pretrain", *args)
        assert done.returncode == 2
        assert "Traceback" not in done.stderr
        return done.stderr

    stderr = refused(data_path, "--steps", 1, "--epochs", 1, "--out", run)
    assert "one of --steps" in stderr
    assert "--out is missing" in refused(data_path)
    stderr = refused("--resume", run, "--lr", 1, "--no-nsp")
    assert "takes no --lr, --no-nsp" in stderr
    run.mkdir()
    (run / "mine.txt").touch()
    stderr = refused(data_path, *TINY, "--steps", 1, "--out", run)
    assert "exists already" in stderr
    assert "no config.json" in refused("--resume", tmp_path)
    stderr = refused(
        data_path,
        *("--preset", "tiny", "--steps", 1, "--max-length", 600),
        *("--batch-tokens", 9000, "--out", tmp_path / "long"),
    )
    assert "max_position_embeddings=512" in stderr


@pytest.mark.slow
def test_new_words_grow_the_vocabulary_and_the_model(
    data_path: Path, tmp_path: Path
) -> None:
    base, words, data = (tmp_path / n for n in ("base", "words.txt", "data"))
    done = bert("pretrain", data_path, *TINY, "--steps", 2, "--out", base)
    assert done.returncode == 0, done.stderr
    words.write_text("Warfarin\n")
    text = tmp_path / "text.txt"
    lines = "".join(f"take warfarin {n} times\n\n" for n in range(40))
    text.write_text(lines)
    grown = ("--add-tokens", words)
    done = bert(
        *("prepare", text, "--tokenizer", base / "model", *grown),
        *("--out", data, "--boundary", "line"),
    )
    assert done.returncode == 0, done.stderr
    options = ("--batch-tokens", 256, "--steps", 2, "--no-nsp")
    started = ("pretrain", data, "--init", base, *options)
    refused = bert(*started, "--out", tmp_path / "refused")
    assert refused.returncode == 2
    assert "another vocabulary" in refused.stderr
    done = bert(*started, *grown, "--out", tmp_path / "grown")
    assert done.returncode == 0, done.stderr
    filled = bert("fill-mask", tmp_path / "grown", "take [MASK]", "--json")
    assert filled.returncode == 0
    encoded = bert("tokenizer", "encode", tmp_path / "grown", "WARFARIN")
    assert json.loads(encoded.stdout)["tokens"] == [
        *("[CLS]", "warfarin", "[SEP]")
    ]


@pytest.mark.slow
def test_a_plan_says_what_the_run_then_takes(
    data_path: Path, tmp_path: Path
) -> None:
    options = (
        *("--preset", "tiny", "--batch-tokens", 512),
        *("--max-length", 32, "--epochs", 2),
        *("--optimizer", "muon", "--dropout", 0, "--precision", "fp32"),
    )
    done = bert("plan", data_path, *options, "--trial", 1, "--json")
    assert done.returncode == 0, done.stderr
    plan = json.loads(done.stdout)
    done = bert(
        *("pretrain", data_path, *options, "--out", tmp_path / "run", "--json")
    )
    assert done.returncode == 0, done.stderr
    run = json.loads(done.stdout)
    assert plan["num_steps"] == pytest.approx(run["steps"], rel=0.05)
    assert plan["num_tokens"] == pytest.approx(run["tokens"], rel=0.05)
    assert plan["num_epochs"] == pytest.approx(run["epochs"], rel=0.05)
    assert plan["cost"] is None
    assert plan["peak_bytes"] > 2**27


@pytest.mark.slow
def test_minibert_learns_simple_sentences(
    data_dir: Path, tmp_path: Path
) -> None:
    text = data_dir / "simple_sentences.txt"
    tokenizer, data, run = (tmp_path / n for n in ("tok", "data", "run"))
    bert("tokenizer", "train", text, "--out", tokenizer)
    bert("prepare", text, "--tokenizer", tokenizer, "--out", data)
    done = bert("pretrain", data, "--preset", "tiny", "--no-nsp", "--out", run)
    assert done.returncode == 0, done.stderr
    found = json.loads(bert("evaluate", run, "--data", data, "--json").stdout)
    assert found["mlm_loss"] <= 0.25
    for question, answers in MINIBERT.items():
        filled = bert("fill-mask", run, question, "--json")
        (mask,) = json.loads(filled.stdout)["masks"]
        assert mask["candidates"][0]["token"] in answers


@pytest.mark.parametrize(
    ("option", "value"),
    [("--max-length", 7), ("--max-tokens", 0), ("--seed", -1)],
)
def test_an_evaluation_of_nothing_is_refused(
    tmp_path: Path, option: str, value: int
) -> None:
    (tmp_path / "config.json").write_text("{}")
    done = bert("evaluate", tmp_path, "--data", tmp_path, option, value)
    assert done.returncode == 2
    assert f"{option} must be at least" in done.stderr


MINIBERT = {
    "the man eats the [MASK]": ("apple", "bread", "fish", "meat"),
    "the man reads the [MASK]": ("paper", "book"),
    "the man [MASK] the book": ("reads", "watches", "eats", "drinks"),
}


@pytest.mark.slow
def test_sigterm_saves_and_resume_goes_on_bit_for_bit(
    data_path: Path, tmp_path: Path
) -> None:
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    command = ("pretrain", data_path, *TINY, "--steps", 40)
    assert bert(*command, "--out", whole).returncode == 0
    process = subprocess.Popen(
        [BERT, *map(str, (*command, "--out", broken))],
        stderr=subprocess.DEVNULL,
        env=ENVIRONMENT,
    )
    wait_for_step(broken, 5, process)
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == 75
    assert len(losses(broken)) < 40
    assert bert("pretrain", "--resume", broken).returncode == 0
    assert losses(broken) == losses(whole)
    weights = "model/model.safetensors"
    assert (broken / weights).read_bytes() == (whole / weights).read_bytes()


@pytest.mark.slow
def test_kill_9_at_ten_moments_changes_no_bit(
    data_path: Path, tmp_path: Path
) -> None:
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    command = (
        *("pretrain", data_path, *TINY, "--epochs", 3),
        # 每步都存：许多次会恰好死在写检查点的时候
        *("--checkpoint-every", 1),
    )
    assert bert(*command, "--out", whole).returncode == 0
    num_steps = len(losses(whole))
    args: tuple[object, ...] = (*command, "--out", broken)
    for number in range(12):
        process = subprocess.Popen(
            [BERT, *map(str, args)], stderr=subprocess.DEVNULL, env=ENVIRONMENT
        )
        goal = (number + 1) * num_steps // 14
        wait_for_step(broken, goal, process)
        time.sleep(0.013 * number)
        process.kill()
        assert process.wait(60) == -signal.SIGKILL
        args = ("pretrain", "--resume", broken)
    assert bert(*args).returncode == 0
    assert losses(broken) == losses(whole)
    weights = "model/model.safetensors"
    assert (broken / weights).read_bytes() == (whole / weights).read_bytes()


def wait_for_step(
    run: Path, step: int, process: "subprocess.Popen[bytes]"
) -> None:
    for _ in range(3000):
        path = run / "metrics.jsonl"
        if path.exists() and path.read_text().count("\n") >= step:
            return
        assert process.poll() is None, "ended too early"
        time.sleep(0.01)
    raise AssertionError(f"step {step} was never reached")


@pytest.mark.slow
def test_two_processes_see_the_same_loss_and_one_can_go_on(
    data_path: Path, tmp_path: Path
) -> None:
    config = tmp_path / "config.json"
    config.write_text(
        json.dumps(
            {
                "vocab_size": 500,
                "hidden_size": 32,
                "num_hidden_layers": 1,
                "num_attention_heads": 2,
                "intermediate_size": 64,
                "hidden_dropout_prob": 0.0,
                "attention_probs_dropout_prob": 0.0,
            }
        )
    )
    args = (
        *("pretrain", data_path, "--config", config, "--max-length", 32),
        *("--batch-tokens", 2048, "--steps", 5, "--log-every", 1, "--lr", 1e-3),
        *("--checkpoint-every", 3),
    )
    assert bert(*args, "--out", tmp_path / "one").returncode == 0
    torchrun = Path(sys.executable).with_name("torchrun")
    command = [
        *(torchrun, "--standalone", "--nproc-per-node=2"),
        *(BERT, *args, "--shard", "--out", tmp_path / "many"),
    ]
    done = subprocess.run(
        list(map(str, command)), capture_output=True, text=True, env=ENVIRONMENT
    )
    assert done.returncode == 0, done.stderr[-3000:]
    one, many = metrics(tmp_path / "one"), metrics(tmp_path / "many")
    assert len(many) == 5
    for a, b in zip(one, many, strict=True):
        assert b["loss"] == pytest.approx(a["loss"], rel=1e-6)
        assert b["gradient_norm"] == pytest.approx(a["gradient_norm"], rel=1e-5)
    # 停在中途的两进程训练，可由一个进程接着走
    (tmp_path / "many" / "checkpoints" / "step-00000005").rename(
        tmp_path / "gone"
    )
    shutil.rmtree(tmp_path / "many" / "model")
    done = bert("pretrain", "--resume", tmp_path / "many")
    assert done.returncode == 0, done.stderr
    for a, b in zip(one, metrics(tmp_path / "many"), strict=True):
        assert b["loss"] == pytest.approx(a["loss"], rel=1e-6)
