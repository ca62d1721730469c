"""The doctor finds every symptom, and none in a healthy run."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from bert_from_scratch import BertConfig
from bert_from_scratch.cli.doctor import doctor
from bert_from_scratch.data.phases import Phase
from bert_from_scratch.errors import BertError
from bert_from_scratch.train import evidence
from bert_from_scratch.train.doctor import examine, judge
from bert_from_scratch.train.evidence import Evidence
from bert_from_scratch.train.expected_curves import (
    CurvePoint,
    load_curves,
)
from bert_from_scratch.train.pretraining_plan import PretrainingPlan
from bert_from_scratch.train.settings import TrainingSettings

from ..data.conftest import make_shards
from .doctor_runs import (
    BATCH_TOKENS,
    CURVE,
    STEPS,
    Change,
    Line,
    MakeRun,
    bad,
    flat,
    make_run,
    only_bad,
    shards,
    titles,
)

__all__ = ["make_run", "make_shards", "shards"]

# 一台 H200 上六分钟的 base：每百步一行，是真实的健康曲线
# step, MLM loss, NSP accuracy, lr, gradient norm, tokens a second
H200 = """
10 9.881 0.483 1.398e-05 3.41 24613
100 7.166 0.491 1.537e-04 1.19 639946
200 6.828 0.515 3.109e-04 0.78 634980
300 6.711 0.666 4.665e-04 1.82 640187
400 6.559 0.701 4.863e-04 5.80 623381
500 6.441 0.749 4.682e-04 2.67 630366
600 6.435 0.775 4.501e-04 3.10 632076
700 6.353 0.836 4.325e-04 2.04 623494
800 6.361 0.833 4.149e-04 1.81 630077
900 6.312 0.877 3.971e-04 4.17 618662
1000 6.244 0.849 3.794e-04 2.99 618216
1100 5.932 0.861 3.612e-04 3.35 639507
1200 5.440 0.871 3.435e-04 3.34 624563
1300 5.056 0.891 3.258e-04 2.07 626002
1400 4.854 0.875 3.073e-04 2.45 379580
1500 4.569 0.875 2.895e-04 1.85 618126
1600 4.451 0.894 2.719e-04 1.67 624862
1700 4.315 0.903 2.534e-04 2.12 620994
1800 4.210 0.915 2.357e-04 2.05 629356
1900 4.022 0.908 2.179e-04 1.92 622300
2000 3.937 0.928 2.001e-04 1.65 626880
2100 3.912 0.900 1.821e-04 3.15 608386
2200 3.845 0.944 1.635e-04 1.35 623620
2300 3.698 0.947 1.457e-04 1.65 614158
2400 3.696 0.926 1.279e-04 1.80 619158
2500 3.625 0.944 1.103e-04 1.41 635540
2600 3.564 0.947 9.259e-05 1.63 619130
2700 3.599 0.954 7.436e-05 1.37 437176
2800 3.487 0.953 5.666e-05 1.61 632880
2900 3.472 0.948 3.910e-05 1.53 635362
3000 3.465 0.945 2.156e-05 1.47 620414
3100 3.405 0.947 3.943e-06 1.38 631205
3123 3.462 0.949 0.000e+00 1.45 611851
"""


def test_a_healthy_run_gets_only_good_words(make_run: MakeRun) -> None:
    diagnosis = examine(make_run())
    assert diagnosis.level == "ok"
    assert diagnosis.num_steps == STEPS
    assert [x.title for x in diagnosis.findings] == [
        "MLM learns from context",
        "NSP shows nothing suspicious",
        "The loss falls smoothly",
        "The data is large enough",
        "Held-out text does as well",
        "The speed is steady",
        "As the expected curve",
        "Data comes fast enough",
    ]


@pytest.mark.parametrize("until", [300, 500, 700, 950])
def test_a_healthy_run_is_healthy_at_any_moment(
    make_run: MakeRun, until: int
) -> None:
    assert bad(make_run(until=until)) == []


def h200_run(num_lines: int) -> Evidence:
    rows = [line.split() for line in H200.strip().splitlines()]
    names = "step mlm_loss nsp_accuracy lr gradient_norm tokens_per_second"
    metrics = [
        dict(zip(names.split(), map(float, row), strict=True))
        for row in rows[:num_lines]
    ]
    (curve,) = [x for x in load_curves() if x.name == "base-h200-6min"]
    return Evidence(
        PretrainingPlan(
            "gone",
            "",
            BertConfig.preset("base"),
            TrainingSettings(minutes=6, learning_rate=5e-4),
            preset="base",
            batch_tokens=65536,
        ),
        metrics,
        [
            {"step": x.step, "mlm_loss": x.mlm_loss}
            for x in curve.points
            if x.step <= metrics[-1]["step"]
        ],
        num_tokens=29_200_000,
        num_documents=6000,
        entropy=curve.unigram_entropy,
        curve=curve,
    )


@pytest.mark.parametrize("num_lines", [25, 28, 33])
def test_a_real_healthy_run_gets_only_good_words(num_lines: int) -> None:
    findings = judge(h200_run(num_lines))
    assert [x for x in findings if x.level != "ok"] == []
    assert "As the expected curve" in {x.title for x in findings}


def test_a_loss_at_the_unigram_entropy_is_a_problem(make_run: MakeRun) -> None:
    run = make_run(flat(6.7), flat(6.7))
    found = {x.title: x for x in bad(run)}
    stuck = found.pop("MLM is stuck near the unigram entropy")
    assert stuck.level == "problem"
    assert "6.70 nats" in stuck.detail
    assert "--warmup-steps" in stuck.advice
    assert "--lr" in stuck.advice
    assert set(found) == {"Behind the expected curve"}


def test_below_the_entropy_it_is_only_slow(make_run: MakeRun) -> None:
    run = make_run(flat(6.2), flat(6.2), preset="mini")
    only_bad(run, "warning", "MLM is still on its first plateau")


def test_the_plateau_is_no_problem_early(make_run: MakeRun) -> None:
    run = make_run(flat(6.5), flat(6.5), until=400, preset="mini")
    assert bad(run) == []
    assert "MLM is on its first plateau" in titles(run)


@pytest.mark.parametrize(
    ("last_loss", "level"), [(3.0, "warning"), (6.4, "ok")]
)
def test_the_plateau_is_judged_by_the_expected_curve(
    make_run: MakeRun,
    monkeypatch: pytest.MonkeyPatch,
    last_loss: float,
    level: str,
) -> None:
    points = [(100, 6.5), (1500, 6.5), (3000, last_loss)]
    curve = replace(
        CURVE,
        points=tuple(
            CurvePoint(step, step * BATCH_TOKENS, 0.0, loss, None, None)
            for step, loss in points
        ),
    )
    monkeypatch.setattr(evidence, "load_curves", lambda: [curve])
    run = make_run(flat(6.5), flat(6.5))
    if level == "ok":
        assert bad(run) == []
    else:
        title = "MLM is stuck near the unigram entropy"
        only_bad(run, "warning", title, "--steps", "curve own")


def test_nsp_at_chance_is_noticed_late(make_run: MakeRun) -> None:
    run = make_run(lambda line: {**line, "nsp_accuracy": 0.51})
    title = "NSP is no better than a coin"
    only_bad(run, "warning", title, "51.0%", "--no-nsp")


def test_nsp_at_chance_is_no_problem_early(make_run: MakeRun) -> None:
    run = make_run(lambda line: {**line, "nsp_accuracy": 0.51}, until=400)
    assert bad(run) == []


def test_nsp_at_chance_is_fine_where_it_is_expected(
    make_run: MakeRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    points = tuple(replace(x, nsp_accuracy=0.5) for x in CURVE.points)
    curve = replace(CURVE, points=points)
    monkeypatch.setattr(evidence, "load_curves", lambda: [curve])
    run = make_run(lambda line: {**line, "nsp_accuracy": 0.51})
    assert bad(run) == []
    assert "NSP is as far as expected" in titles(run)


def test_a_run_without_nsp_is_not_asked_about_it(make_run: MakeRun) -> None:
    def change(line: Line) -> Line:
        del line["nsp_accuracy"]
        return {**line, "nsp_loss": None}

    run = make_run(change, with_pairs=False)
    assert bad(run) == []
    assert not any("NSP" in title for title in titles(run))


def perfect_from(step: int) -> Change:
    def change(line: Line) -> Line:
        return {**line, "nsp_accuracy": 1.0} if line["step"] > step else line

    return change


def test_nsp_perfect_in_the_warm_up_is_suspicious(make_run: MakeRun) -> None:
    title = "NSP is suspiciously perfect"
    only_bad(make_run(perfect_from(0)), "warning", title, "50 documents")


def test_nsp_perfect_with_a_bad_mlm_is_suspicious(make_run: MakeRun) -> None:
    def change(line: Line) -> Line:
        return flat(5.5)(perfect_from(600)(line))

    run = make_run(change, flat(5.5), preset="mini")
    title = "NSP is suspiciously perfect"
    only_bad(run, "warning", title, "5.50 nats", "duplicates")


def test_nsp_perfect_late_with_a_good_mlm_is_fine(make_run: MakeRun) -> None:
    assert bad(make_run(perfect_from(600))) == []


def test_without_a_curve_the_rest_is_judged(make_run: MakeRun) -> None:
    run = make_run(flat(6.7), flat(6.7), preset="mini")
    title = "MLM is stuck near the unigram entropy"
    only_bad(run, "problem", title)
    assert "There is no expected curve" in titles(run)


def test_data_read_too_often_is_noticed(make_run: MakeRun) -> None:
    run = make_run(batch_tokens=512)
    title = "The data is repeated too often"
    only_bad(run, "warning", title, "102.4 times", "5,000 tokens", "--epochs")


def test_a_held_out_loss_that_rises_is_overfitting(make_run: MakeRun) -> None:
    def change(line: Line) -> Line:
        rise = max(line["step"] - 500, 0) / 1000
        return {**line, "mlm_loss": line["mlm_loss"] + rise}

    run = make_run(lambda x: x, change, preset="mini")
    title = "The model learns its data by heart"
    only_bad(run, "warning", title, "where it was 2.52 at step 700")


def test_a_held_out_loss_far_above_is_overfitting(make_run: MakeRun) -> None:
    def change(line: Line) -> Line:
        return {**line, "mlm_loss": line["mlm_loss"] + 0.7}

    run = make_run(lambda x: x, change, preset="mini")
    title = "The model learns its data by heart"
    only_bad(run, "warning", title, "2.10 nats in training, 2.81 held out")


def test_waiting_for_data_is_noticed(make_run: MakeRun) -> None:
    run = make_run(lambda line: {**line, "data_wait": 0.2})
    only_bad(run, "warning", "Training waits for data", "20.0%", "--threads")


def slow_from(step: int) -> Change:
    def change(line: Line) -> Line:
        return {
            **line,
            "tokens_per_second": 500 if line["step"] > step else 1000,
        }

    return change


def test_a_run_that_gets_slower_is_noticed(make_run: MakeRun) -> None:
    run = make_run(slow_from(700))
    only_bad(run, "warning", "The run gets slower", "1,000", "500", "50%")


def test_a_phase_of_long_sequences_may_be_slow(make_run: MakeRun) -> None:
    phases = (Phase(128, 0.7), Phase(512, 0.3))
    assert bad(make_run(slow_from(700), phases=phases)) == []


@pytest.mark.parametrize("until", [0, 50, 180])
def test_a_short_run_is_not_judged(make_run: MakeRun, until: int) -> None:
    run = make_run(flat(6.9), flat(6.9), until=until)
    only_bad(run, "warning", "Too short to judge", f"{until} steps", "--steps")


def test_a_warm_up_between_two_lines_is_over(make_run: MakeRun) -> None:
    run = make_run(
        lambda line: {**line, "lr": line["lr"] * 0.9}, lambda line: line
    )
    assert bad(run) == []


@pytest.mark.parametrize("way", ["gone", "changed"])
def test_without_its_data_the_rest_is_judged(
    make_run: MakeRun, tmp_path: Path, way: str
) -> None:
    gone = {"data_dir": str(tmp_path / "gone")}
    changed = {"data_sha256": "0"}
    run = make_run(
        lambda line: {**line, "nsp_accuracy": 0.51},
        **(gone if way == "gone" else changed),
    )
    only_bad(run, "warning", "NSP is no better than a coin")
    assert "The data cannot be read" in titles(run)


def test_a_directory_that_is_no_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BertError, match="no run"):
        examine(tmp_path)


def test_the_command_says_the_same_in_words_and_in_json(
    make_run: MakeRun,
) -> None:
    run = make_run(lambda line: {**line, "data_wait": 0.2})
    app = typer.Typer()
    app.command()(doctor)
    words = CliRunner().invoke(app, [str(run)])
    values = CliRunner().invoke(app, [str(run), "--json"])
    assert words.exit_code == values.exit_code == 0
    found = json.loads(values.stdout)
    assert (found["level"], found["steps"]) == ("warning", STEPS)
    assert words.stdout.startswith("warning  Training waits for data\n")
    for finding in found["findings"]:
        for part in ("title", "detail", "advice"):
            assert finding[part] in words.stdout
