import json
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers

from bert_from_scratch import BertError
from bert_from_scratch.finetune import advice, outcome, run
from bert_from_scratch.finetune.attempt import AttemptResult
from bert_from_scratch.finetune.plan import DataPlan, FinetunePlan
from bert_from_scratch.predict.task import TaskPredictor
from bert_from_scratch.train.interruption import Interrupted
from bert_from_scratch.train.recorder import Progress


@pytest.fixture(autouse=True)
def few_pictures(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Draws in one test only: a picture takes longer than these trainings."""
    if request.node.name != "test_it_learns_and_leaves_everything_behind":
        for name in ("draw_attempts", "draw_judged"):
            monkeypatch.setattr(outcome, name, lambda *_: False)


@pytest.fixture
def plan(tiny_bert: Path, reviews: Path) -> FinetunePlan:
    return FinetunePlan(
        task="classify",
        model=str(tiny_bert),
        data=DataPlan(
            train=str(reviews / "train.tsv"), dev=str(reviews / "dev.tsv")
        ),
        learning_rates=(3e-3,),
        epochs=4,
        batch_size=16,
        log_every=1,
        device="cpu",
        options={"max_length": 32},
    )


def quiet(where: run.Where, progress: Progress) -> None:
    pass


def stop_at(step: int, event: threading.Event) -> run.Report:
    def report(where: run.Where, progress: Progress) -> None:
        if progress.result.step == step:
            event.set()

    return report


@pytest.fixture
def stop(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """An event that stands for SIGTERM."""
    from contextlib import contextmanager

    event = threading.Event()

    @contextmanager
    def catch() -> Any:
        event.clear()
        yield event

    monkeypatch.setattr(run, "catch_signals", catch)
    return event


def read_lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_it_learns_and_leaves_everything_behind(
    plan: FinetunePlan, tmp_path: Path
) -> None:
    found = run.start(replace(plan, epochs=8), tmp_path / "out", quiet)
    assert found is not None
    assert found.scores["accuracy"] == 1
    out = tmp_path / "out"
    assert {path.name for path in out.iterdir()} == {
        ".lock",
        "confusion.png",
        "curve.png",
        "data.json",
        "metrics.json",
        "mistakes.jsonl",
        "model",
        "plan.json",
        "predictions.jsonl",
        "runs",
    }
    assert len(read_lines(out / "predictions.jsonl")) == 40
    assert read_lines(out / "mistakes.jsonl") == []
    card = (out / "model" / "README.md").read_text()
    for fact in ("seeds 0", "train.tsv", "| accuracy |", "8 epochs"):
        assert fact in card, fact
    # 断点与权重用完即弃：只留日志
    names = {path.name for path in (out / "runs" / "lr-0.003-seed-0").iterdir()}
    assert names == {
        ".lock",
        "evaluations.jsonl",
        "metrics.jsonl",
        "result.json",
    }


def test_the_directory_predicts_and_transformers_loads_it(
    plan: FinetunePlan, tmp_path: Path
) -> None:
    run.start(replace(plan, epochs=8), tmp_path / "out", quiet)
    predictor = TaskPredictor.load(tmp_path / "out")
    texts = ["the film was lovely .", "the room was awful ."]
    found = predictor.predict_texts(texts)
    assert [line["label"] for line in found] == ["good", "bad"]
    pipeline = transformers.pipeline(
        "text-classification", str(tmp_path / "out" / "model"), device="cpu"
    )
    for line, theirs in zip(found, pipeline(texts), strict=True):
        assert line["label"] == theirs["label"]
        chance = line["probabilities"][line["label"]]
        assert chance == pytest.approx(theirs["score"], abs=1e-5)


def test_seeds_differ_and_their_mean_is_told(
    plan: FinetunePlan, tmp_path: Path
) -> None:
    plan = replace(plan, seeds=(0, 1, 2), epochs=1, learning_rates=(5e-4,))
    found = run.start(plan, tmp_path / "out", quiet)
    assert found is not None
    losses = {
        read_lines(path)[-1]["loss"]
        for path in (tmp_path / "out" / "runs").glob("*/metrics.jsonl")
    }
    assert len(losses) == 3
    scores = [attempt.scores["accuracy"] for attempt in found.attempts]
    assert found.mean["accuracy"] == pytest.approx(sum(scores) / 3)
    assert found.best.scores["accuracy"] == max(scores)
    written = json.loads((tmp_path / "out" / "metrics.json").read_text())
    assert written["mean"] == found.mean


def test_the_same_seed_gives_the_same_losses(
    plan: FinetunePlan, tmp_path: Path
) -> None:
    for name in ("one", "two"):
        run.start(plan, tmp_path / name, quiet)
    one, two = (
        read_lines(tmp_path / name / "runs/lr-0.003-seed-0/metrics.jsonl")
        for name in ("one", "two")
    )
    assert [x["loss"] for x in one] == [x["loss"] for x in two]


@pytest.mark.parametrize("step", [6, 13])
def test_an_interrupted_run_goes_on_bit_by_bit(
    plan: FinetunePlan, tmp_path: Path, stop: threading.Event, step: int
) -> None:
    plan = replace(plan, seeds=(0, 1))
    run.start(plan, tmp_path / "whole", quiet)
    out = tmp_path / "parts"
    with pytest.raises(Interrupted) as error:
        run.start(plan, out, stop_at(step, stop))
    assert f"bert finetune resume {out}" in str(error.value.hint)
    found = run.resume(out, quiet)
    assert found is not None
    for seed in (0, 1):
        name = f"runs/lr-0.003-seed-{seed}/metrics.jsonl"
        whole, parts = (
            [(x["step"], x["loss"]) for x in read_lines(folder / name)]
            for folder in (tmp_path / "whole", out)
        )
        assert whole == parts


def test_a_damaged_checkpoint_costs_its_attempt_and_no_more(
    plan: FinetunePlan,
    tmp_path: Path,
    stop: threading.Event,
    caplog: pytest.LogCaptureFixture,
) -> None:
    run.start(plan, tmp_path / "whole", quiet)
    out = tmp_path / "parts"
    with pytest.raises(Interrupted):
        run.start(plan, out, stop_at(6, stop))
    (path,) = (out / "runs").glob("*/checkpoints/*/model.safetensors")
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    assert run.resume(out, quiet) is not None
    assert "does not match its checksum" in caplog.text
    name = "runs/lr-0.003-seed-0/metrics.jsonl"
    whole, parts = (
        [(x["step"], x["loss"]) for x in read_lines(folder / name)]
        for folder in (tmp_path / "whole", out)
    )
    assert whole == parts


def test_a_finished_run_is_not_resumed(
    plan: FinetunePlan, tmp_path: Path
) -> None:
    run.start(replace(plan, epochs=1), tmp_path / "out", quiet)
    with pytest.raises(BertError, match="is finished"):
        run.resume(tmp_path / "out", quiet)
    with pytest.raises(BertError, match="exists already"):
        run.start(plan, tmp_path / "out", quiet)


def test_bad_data_leaves_no_directory(
    plan: FinetunePlan, tmp_path: Path
) -> None:
    bad = replace(plan, data=replace(plan.data, dev=str(tmp_path / "none")))
    with pytest.raises(BertError, match="There is no file"):
        run.start(bad, tmp_path / "out", quiet)
    assert not (tmp_path / "out").exists()


def test_early_stopping_keeps_the_best_epoch(
    plan: FinetunePlan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scores = iter([0.6, 0.9, 0.7, 0.8, 0.5, 0.5])
    weights: list[torch.Tensor] = []

    def judge(self: Any, model: Any) -> Any:
        weights.append(model.classifier.weight.detach().clone())
        judged = original(self, model)
        return replace(judged, scores={"accuracy": next(scores)})

    original = run._Run._judge
    monkeypatch.setattr(run._Run, "_judge", judge)
    plan = replace(plan, epochs=6, patience=2)
    said: list[str] = []
    found = run.start(plan, tmp_path / "out", quiet, said.append)
    assert "stopped early: no better score in 2 epoch(s)" in said
    assert found is not None
    # 第二轮最好，其后两轮都没有更好：停
    assert found.best.epoch == 2
    assert found.best.num_steps == 4 * 6
    assert torch.equal(weights[-1], weights[1])


def make_result(rate: float, seed: int, score: float) -> AttemptResult:
    return AttemptResult(rate, seed, {"accuracy": score}, 1, 1, 1, 1.0)


def test_the_rate_with_the_best_mean_wins() -> None:
    results = [
        make_result(1e-5, 0, 0.95),
        make_result(1e-5, 1, 0.60),
        make_result(2e-5, 0, 0.85),
        make_result(2e-5, 1, 0.86),
    ]
    best = run.choose_best(results, "accuracy")
    assert (best.learning_rate, best.seed) == (2e-5, 1)


def test_seeds_that_disagree_are_said_so(
    caplog: pytest.LogCaptureFixture,
) -> None:
    calm = [make_result(1e-5, seed, 0.9 + seed / 100) for seed in (0, 1)]
    advice.warn_of_spread(calm, calm[0], "accuracy")
    assert not caplog.text
    wild = [make_result(1e-5, seed, 0.5 + 0.4 * seed) for seed in (0, 1)]
    advice.warn_of_spread(wild, wild[1], "accuracy")
    assert "from 0.5000 to 0.9000 over 2 seeds" in caplog.text


Change = Callable[[FinetunePlan], FinetunePlan]


@pytest.mark.parametrize(
    "change",
    [
        lambda plan: replace(plan, freeze_layers=1),
        lambda plan: replace(plan, layer_decay=0.8),
        lambda plan: replace(plan, class_weights="balanced"),
        lambda plan: replace(plan, class_weights=(1.0, 2.0)),
        lambda plan: replace(plan, data=replace(plan.data, limit=20)),
    ],
)
def test_every_setting_changes_the_training(
    plan: FinetunePlan, tmp_path: Path, change: Change
) -> None:
    plan = replace(plan, epochs=1)
    run.start(plan, tmp_path / "plain", quiet)
    run.start(change(plan), tmp_path / "changed", quiet)
    plain, changed = (
        read_lines(tmp_path / name / "runs/lr-0.003-seed-0/metrics.jsonl")
        for name in ("plain", "changed")
    )
    assert plain[-1]["loss"] != changed[-1]["loss"]


@pytest.mark.parametrize("encoder", ["bow", "bilstm"])
def test_a_baseline_takes_the_same_road(
    plan: FinetunePlan, tmp_path: Path, encoder: str
) -> None:
    plan = replace(
        plan,
        model=None,
        options={"encoder": encoder},
        learning_rates=(1e-2,),
        epochs=10,
    )
    found = run.start(replace(plan, epochs=8), tmp_path / "out", quiet)
    assert found is not None
    assert found.scores["accuracy"] == 1
    predictor = TaskPredictor.load(tmp_path / "out")
    told = predictor.predict_texts(["the song was warm ."])
    assert told[0]["label"] == "good"


def test_a_crash_before_the_last_file_can_be_resumed(
    plan: FinetunePlan, tmp_path: Path
) -> None:
    plan = replace(plan, epochs=1)
    found = run.start(plan, tmp_path / "out", quiet)
    assert found is not None
    # 像是断在 model/ 与 metrics.json 之间：权重还在，结果没写完
    out = tmp_path / "out"
    (out / "metrics.json").unlink()
    attempt_dir = out / "runs" / "lr-0.003-seed-0"
    (attempt_dir / "result.json").unlink()
    again = run.resume(out, quiet)
    assert again is not None
    assert again.scores == found.scores


def test_weights_that_are_no_numbers_are_an_error(
    plan: FinetunePlan, tmp_path: Path
) -> None:
    # 一步就走完：损失在这一步之前还是好的
    plan = replace(
        plan, learning_rates=(1e30,), epochs=1, batch_size=96, warmup_share=0.0
    )
    with pytest.raises(BertError, match="diverged"):
        run.start(plan, tmp_path / "out", quiet)


def test_changed_data_is_noticed(
    plan: FinetunePlan, tmp_path: Path, stop: threading.Event, reviews: Path
) -> None:
    train = tmp_path / "train.tsv"
    text = (reviews / "train.tsv").read_text()
    train.write_text(text)
    plan = replace(plan, data=replace(plan.data, train=str(train)))
    with pytest.raises(Interrupted):
        run.start(plan, tmp_path / "out", stop_at(3, stop))
    train.write_text(text.replace("lovely", "awful"))
    with pytest.raises(BertError, match="has changed"):
        run.resume(tmp_path / "out", quiet)
    train.write_text(text)
    assert run.resume(tmp_path / "out", quiet) is not None


@pytest.mark.parametrize(
    "change",
    [
        lambda plan: replace(plan, attention_dropout=2.0),
        lambda plan: replace(plan, options={"metric": "beauty"}),
        lambda plan: replace(plan, freeze_layers=5),
    ],
)
def test_bad_settings_leave_no_directory(
    plan: FinetunePlan, tmp_path: Path, change: Change
) -> None:
    with pytest.raises(BertError):
        run.start(change(plan), tmp_path / "out", quiet)
    assert not (tmp_path / "out").exists()


def test_few_steps_and_one_label_are_warned_of(
    plan: FinetunePlan, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    plan = replace(plan, epochs=1, learning_rates=(1e-9,))
    run.start(plan, tmp_path / "out", quiet)
    assert "Only 6 steps" in caplog.text
    assert "learnt nothing yet" in caplog.text


def test_a_vocabulary_that_does_not_fit_is_warned_of(
    plan: FinetunePlan, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    rows = [f"讨厌 {number % 2}\t{number % 2}" for number in range(8)]
    data = tmp_path / "data.tsv"
    data.write_text("\n".join(["text\tlabel", *rows]) + "\n", encoding="utf-8")
    files = replace(plan.data, train=str(data), dev=str(data))
    run.start(replace(plan, epochs=1, data=files), tmp_path / "out", quiet)
    assert "of the tokens are [UNK]" in caplog.text
