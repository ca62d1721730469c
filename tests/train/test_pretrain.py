"""A whole run: what it leaves behind, and what it refuses."""

import json
import resource
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from bert_from_scratch import BertForPreTraining, WordPieceTokenizer
from bert_from_scratch.data.phases import Phase
from bert_from_scratch.data.shards import TokenShards
from bert_from_scratch.data.steps import Position
from bert_from_scratch.embeddings.linear import Linear
from bert_from_scratch.errors import BertError
from bert_from_scratch.kernels import fp8
from bert_from_scratch.train import memory, pretrain
from bert_from_scratch.train.assemble import assemble
from bert_from_scratch.train.checkpoint import list_checkpoints
from bert_from_scratch.train.defaults import budget, choose_rate, make_plan
from bert_from_scratch.train.evaluation import PartResult
from bert_from_scratch.train.interruption import Interrupted
from bert_from_scratch.train.pretraining_plan import PretrainingPlan
from bert_from_scratch.train.processes import Processes
from bert_from_scratch.train.recorder import Progress
from bert_from_scratch.train.run_directory import RunDirectory
from bert_from_scratch.train.trainer import BertTrainer

from ..data.conftest import MakeShards, make_shards

__all__ = ["make_shards"]

TINY = {
    "vocab_size": 1000,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 64,
    "max_position_embeddings": 64,
}


@pytest.fixture
def shards(make_shards: MakeShards) -> TokenShards:
    generator = np.random.default_rng(1)
    return make_shards(
        [
            generator.integers(1, 30, generator.integers(2, 9)).tolist()
            for _ in range(60)
        ]
    )


def plan_for(
    shards: TokenShards, folder: Path, **choices: Any
) -> PretrainingPlan:
    config_path = folder / "tiny.json"
    config_path.write_text(json.dumps(TINY))
    return make_plan(
        shards.directory,
        **{
            "config_path": config_path,
            "batch_tokens": 1024,
            "max_length": 32,
            "num_threads": 1,
            "held_out_share": 0.25,
            "log_every": 1,
            "steps": 6,
            **choices,
        },
    )


def ignore(progress: Progress) -> None:
    del progress


def read(run: Path, name: str) -> list[dict[str, Any]]:
    return RunDirectory(run).read_log(name)


def test_a_run_leaves_a_model_logs_events_and_a_picture(
    shards: TokenShards, tmp_path: Path
) -> None:
    seen: list[Progress] = []
    plan = plan_for(shards, tmp_path, evaluate_every=3)
    result = pretrain.start(plan, tmp_path / "run", seen.append)
    assert result is not None
    assert (result.num_steps, len(seen)) == (6, 6)
    assert seen[-1].progress == 1
    # 启动的时间不算在速度里：第一步之后才知道还要多久
    assert seen[0].seconds_left is None
    passed = (seen[2].seconds - seen[0].seconds) / 2
    assert seen[2].seconds_left == pytest.approx(3 * passed)
    assert [
        line["step"] for line in read(tmp_path / "run", "metrics.jsonl")
    ] == [*range(1, 7)]
    evaluations = read(tmp_path / "run", "evaluations.jsonl")
    assert [line["step"] for line in evaluations] == [3, 6]
    assert result.evaluation is not None
    assert evaluations[-1]["mlm_loss"] == result.evaluation["mlm"].loss
    assert result.curve_path is not None
    assert result.curve_path.read_bytes().startswith(b"\x89PNG")
    assert list((tmp_path / "run").glob("events.out.tfevents.*"))
    model = BertForPreTraining.from_pretrained(tmp_path / "run")
    assert model.config.hidden_size == 32
    assert len(WordPieceTokenizer.load(tmp_path / "run")) == 1000


def test_a_run_stopped_between_lines_of_metrics_can_be_finished(
    shards: TokenShards, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = plan_for(shards, tmp_path, log_every=50)

    @contextmanager
    def stopped() -> Iterator[threading.Event]:
        stop = threading.Event()
        stop.set()
        yield stop

    with monkeypatch.context() as patch:
        patch.setattr(pretrain, "catch_signals", stopped)
        with pytest.raises(Interrupted):
            pretrain.start(plan, tmp_path / "run", ignore)
    assert [x["step"] for x in read(tmp_path / "run", "metrics.jsonl")] == [1]
    result = pretrain.resume(tmp_path / "run", ignore)
    assert result is not None
    assert result.num_steps == 6


def test_half_a_model_is_none(
    shards: TokenShards, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = plan_for(shards, tmp_path)

    def fail(*_: object) -> None:
        raise OSError("No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(WordPieceTokenizer, "save", fail)
        with pytest.raises(OSError, match="No space"):
            pretrain.start(plan, tmp_path / "run", ignore)
    assert not (tmp_path / "run" / "model").exists()
    assert pretrain.resume(tmp_path / "run", ignore) is not None
    assert len(WordPieceTokenizer.load(tmp_path / "run")) == 1000


def test_the_best_checkpoint_outlives_the_newest(
    shards: TokenShards, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = plan_for(
        shards,
        tmp_path,
        steps=8,
        evaluate_every=2,
        checkpoint_every=1,
        keep_checkpoints=1,
    )
    losses = iter([3.0, 1.0, 2.0, 2.0])
    monkeypatch.setattr(
        BertTrainer,
        "evaluate",
        lambda *_: {"mlm": PartResult(next(losses), 0.0)},
    )
    result = pretrain.start(plan, tmp_path / "run", ignore)
    assert result is not None
    assert result.best_step == 4
    kept = list_checkpoints(tmp_path / "run" / "checkpoints")
    assert [path.name for path in kept] == ["step-00000004", "step-00000008"]


def test_phases_change_the_length_at_their_share(
    shards: TokenShards, tmp_path: Path
) -> None:
    plan = replace(
        plan_for(shards, tmp_path, steps=8),
        phases=(Phase(16, 0.75), Phase(64, 0.25)),
    )
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    pretrain.start(plan, whole, ignore)
    saved = json.loads(
        (whole / "checkpoints" / "step-00000008" / "state.json").read_text()
    )
    assert (saved["position"]["phase"], saved["position"]["cursor"]) == (1, 2)
    # 在换阶段的前后各断一次，曲线不变
    with pytest.raises(Interrupted):
        pretrain.start(plan, broken, stop_at(6))
    with pytest.raises(Interrupted):
        pretrain.resume(broken, stop_at(7))
    pretrain.resume(broken, ignore)
    expected = [line["loss"] for line in read(whole, "metrics.jsonl")]
    assert [x["loss"] for x in read(broken, "metrics.jsonl")] == expected


def test_minutes_count_from_when_the_process_began(
    shards: TokenShards, tmp_path: Path
) -> None:
    plan = plan_for(shards, tmp_path, steps=None, minutes=1.0)
    begun = time.monotonic() - 58
    result = pretrain.start(plan, tmp_path / "run", ignore, begun)
    assert result is not None
    # 只剩一两秒，还要留出结束的时间
    assert 58 < result.seconds < 60
    assert plan.training.reserved_seconds > 0


def test_phases_change_the_batch_and_the_mask_rate(
    shards: TokenShards, tmp_path: Path
) -> None:
    plan = plan_for(shards, tmp_path, steps=6)
    small = plan.batch_tokens
    plan = replace(
        plan,
        phases=(
            Phase(32, 0.5, mask_rate=0.4),
            Phase(32, 0.5, batch_tokens=2 * small),
        ),
    )
    data = assemble(plan, Processes()).data
    first, later = (data.data[number] for number in (0, 1))
    steps = [
        next(data.steps(Position(phase=number))).micro_batches
        for number in (0, 1)
    ]
    assert [len(batches) for batches in steps] == [1, 2]
    shares = [
        len(labels) / len(batches[0].input_ids)
        for number, batches in enumerate(steps)
        if (labels := data.finish(batches[0], 0, number).mlm_labels) is not None
    ]
    assert shares == pytest.approx([0.4, 0.15], abs=0.05)
    # 同样长度的第二个阶段不重走第一个阶段的路
    assert not np.array_equal(
        first.plan(0).sequences.a_start, later.plan(0).sequences.a_start
    )
    pretrain.start(plan, tmp_path / "whole", ignore)
    with pytest.raises(Interrupted):
        pretrain.start(plan, tmp_path / "broken", stop_at(4))
    pretrain.resume(tmp_path / "broken", ignore)
    losses = [
        [line["loss"] for line in read(tmp_path / name, "metrics.jsonl")]
        for name in ("whole", "broken")
    ]
    assert losses[0] == losses[1]


@pytest.mark.parametrize(
    ("phase", "complaint"),
    [
        (Phase(32, 1.0, batch_tokens=100), "no multiple of --batch-tokens"),
        (Phase(32, 1.0, mask_rate=1.5), "mask rate of --phases"),
    ],
)
def test_phases_that_cannot_be_are_refused(
    shards: TokenShards, tmp_path: Path, phase: Phase, complaint: str
) -> None:
    plan = plan_for(shards, tmp_path)
    with pytest.raises(BertError, match=complaint):
        replace(plan, phases=(phase,))


def stop_at(step: int) -> Any:
    """Returns a report that asks the run to stop, as SIGTERM does."""

    def report(progress: Progress) -> None:
        if progress.result.step == step:
            import os
            import signal

            os.kill(os.getpid(), signal.SIGTERM)

    return report


def test_a_finished_run_is_not_resumed(
    shards: TokenShards, tmp_path: Path
) -> None:
    pretrain.start(plan_for(shards, tmp_path), tmp_path / "run", ignore)
    with pytest.raises(BertError, match="is finished") as caught:
        pretrain.resume(tmp_path / "run", ignore)
    assert "--init" in (caught.value.hint or "")
    with pytest.raises(BertError, match="exists already"):
        pretrain.start(plan_for(shards, tmp_path), tmp_path / "run", ignore)


@pytest.mark.parametrize(
    ("name", "value"),
    [("seed", "0"), ("mask_rate", True), ("phases", 7), ("device", None)],
)
def test_a_config_with_values_of_other_types_is_no_run(
    name: str, value: Any, shards: TokenShards, tmp_path: Path
) -> None:
    out = tmp_path / "run"
    with pytest.raises(Interrupted):
        pretrain.start(plan_for(shards, tmp_path), out, stop_at(1))
    config = json.loads((out / "config.json").read_text())
    place = config if name in config else config["training"]
    place[name] = value
    (out / "config.json").write_text(json.dumps(config))
    with pytest.raises(BertError, match="not one of this version"):
        pretrain.resume(out, ignore)


def test_a_state_with_values_of_other_types_is_damaged(
    shards: TokenShards, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    plan = plan_for(shards, tmp_path, checkpoint_every=1)
    out = tmp_path / "run"
    with pytest.raises(Interrupted):
        pretrain.start(plan, out, stop_at(3))
    newest = list_checkpoints(out / "checkpoints")[-1]
    state = json.loads((newest / "state.json").read_text())
    state["seconds"] = "long"
    (newest / "state.json").write_text(json.dumps(state))
    pretrain.resume(out, ignore)
    assert (
        "is damaged: seconds must be of type float, got 'long'" in caplog.text
    )


def test_a_damaged_checkpoint_is_passed_over(
    shards: TokenShards, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    plan = plan_for(shards, tmp_path, checkpoint_every=1)
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    pretrain.start(plan, whole, ignore)
    with pytest.raises(Interrupted):
        pretrain.start(plan, broken, stop_at(4))
    older, newest = list_checkpoints(broken / "checkpoints")[-2:]
    weights = newest / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:1000])
    pretrain.resume(broken, ignore)
    assert "does not match its checksum" in caplog.text
    losses = [line["loss"] for line in read(whole, "metrics.jsonl")]
    assert [x["loss"] for x in read(broken, "metrics.jsonl")] == losses
    assert not older.exists()
    assert (newest.parent / f"damaged-{newest.name}").exists()


def test_a_run_without_one_whole_checkpoint_says_so(
    shards: TokenShards, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    plan = plan_for(shards, tmp_path, checkpoint_every=2)
    run = tmp_path / "run"
    with pytest.raises(Interrupted):
        pretrain.start(plan, run, stop_at(3))
    for path in list_checkpoints(run / "checkpoints"):
        (path / "state.json").write_text("{")
    with pytest.raises(BertError, match="No checkpoint is whole") as error:
        pretrain.resume(run, ignore)
    assert error.value.hint
    shutil.rmtree(run / "checkpoints")
    pretrain.resume(run, ignore)
    assert "has no checkpoint: it begins at step 1" in caplog.text


def test_data_that_was_moved_is_asked_for_by_name(
    shards: TokenShards, tmp_path: Path
) -> None:
    plan = plan_for(shards, tmp_path)
    with pytest.raises(Interrupted):
        pretrain.start(plan, tmp_path / "run", stop_at(2))
    shards.directory.rename(tmp_path / "moved")
    with pytest.raises(BertError, match="is not there now") as error:
        pretrain.resume(tmp_path / "run", ignore)
    assert "put it back" in str(error.value.hint)


def test_changed_data_is_refused(shards: TokenShards, tmp_path: Path) -> None:
    plan = plan_for(shards, tmp_path)
    with pytest.raises(Interrupted):
        pretrain.start(plan, tmp_path / "run", stop_at(2))
    config_path = tmp_path / "run" / "config.json"
    values = json.loads(config_path.read_text())
    config_path.write_text(json.dumps({**values, "data_sha256": "0" * 64}))
    with pytest.raises(BertError, match="has changed since"):
        pretrain.resume(tmp_path / "run", ignore)


def test_two_runs_cannot_share_a_directory(
    shards: TokenShards, tmp_path: Path
) -> None:
    plan = plan_for(shards, tmp_path)
    with pytest.raises(Interrupted):
        pretrain.start(plan, tmp_path / "run", stop_at(2))
    with (
        RunDirectory(tmp_path / "run"),
        pytest.raises(BertError, match="Another process"),
    ):
        pretrain.resume(tmp_path / "run", ignore)


def test_a_second_start_leaves_the_first_one_alone(
    shards: TokenShards, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both find the directory empty; the slower one must not clear it."""
    plan, out = plan_for(shards, tmp_path), tmp_path / "run"
    first = RunDirectory(out)
    first.create(plan.to_dict())
    monkeypatch.setattr(RunDirectory, "check_new", lambda _: None)
    with first, pytest.raises(BertError, match="Another process"):
        pretrain.start(plan, out, ignore)
    assert (out / "config.json").exists()


def test_settings_that_do_not_fit_leave_nothing_behind(
    shards: TokenShards, tmp_path: Path
) -> None:
    out = tmp_path / "run"
    with pytest.raises(BertError, match="max_position_embeddings=64"):
        pretrain.start(plan_for(shards, tmp_path, max_length=128), out, ignore)
    small = plan_for(shards, tmp_path)
    small = replace(small, model=replace(small.model, vocab_size=900))
    with pytest.raises(BertError, match="has 1000 entries"):
        pretrain.start(small, out, ignore)
    with pytest.raises(BertError, match="does not divide"):
        pretrain.start(
            plan_for(shards, tmp_path, num_accumulated=3), out, ignore
        )
    assert not out.exists()


def skip_without_fp8_rows() -> None:
    x = torch.zeros(16, 16)
    try:
        fp8.dense(x, x)
    except RuntimeError:
        pytest.skip("this PyTorch multiplies no fp8 rows on a CPU")


def test_fp8_is_for_the_blocks_and_for_gpus_that_have_it(
    shards: TokenShards, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(BertError, match="no fp8 on cpu"):
        plan_for(shards, tmp_path, precision="fp8")
    with monkeypatch.context() as patch:
        patch.setattr(fp8, "exists", lambda device: True)
        plan = plan_for(shards, tmp_path, precision="fp8", steps=2)
        model = assemble(plan, Processes()).trainer.model
        # 新的 PyTorch 在 CPU 上也会乘 fp8，只是慢
        skip_without_fp8_rows()
        pretrain.start(plan, tmp_path / "run", ignore)
        with pytest.raises(Interrupted):
            pretrain.start(plan, tmp_path / "broken", stop_at(1))
    layers = {
        name: layer.dense is fp8.dense
        for name, layer in model.named_modules()
        if isinstance(layer, Linear)
    }
    assert any(layers.values())
    for name, is_fp8 in layers.items():
        assert is_fp8 == (".blocks." in name)
    # 没有 fp8 的机器也不能接着训练
    with pytest.raises(BertError, match="no fp8 on cpu"):
        pretrain.resume(tmp_path / "broken", ignore)


def test_recomputed_activations_change_no_number(
    shards: TokenShards, tmp_path: Path
) -> None:
    losses = []
    for name, recomputes in (("plain", False), ("again", True)):
        plan = plan_for(shards, tmp_path, recomputes=recomputes)
        pretrain.start(plan, tmp_path / name, ignore)
        lines = read(tmp_path / name, "metrics.jsonl")
        losses.append([line["loss"] for line in lines])
    assert losses[0] == losses[1]


def test_every_optimiser_takes_other_steps(
    shards: TokenShards, tmp_path: Path
) -> None:
    losses = []
    for optimizer in ("adamw", "google", "muon"):
        plan = plan_for(shards, tmp_path, optimizer=optimizer)
        pretrain.start(plan, tmp_path / optimizer, ignore)
        lines = read(tmp_path / optimizer, "metrics.jsonl")
        losses.append([line["loss"] for line in lines])
    assert len({loss[0] for loss in losses}) == 1
    assert len({loss[-1] for loss in losses}) == 3


def test_training_goes_on_from_a_model_and_learns_new_words(
    shards: TokenShards, make_shards: MakeShards, tmp_path: Path
) -> None:
    first = plan_for(shards, tmp_path)
    pretrain.start(first, tmp_path / "first", ignore)
    choices: dict[str, Any] = {
        "config_path": None,
        "init_dir": tmp_path / "first",
        "steps": 1,
        "learning_rate": 1e-9,
    }
    again = plan_for(shards, tmp_path, **choices)
    assert again.model.attention_probs_dropout_prob == 0
    pretrain.start(again, tmp_path / "again", ignore)
    old, new = (
        BertForPreTraining.from_pretrained(tmp_path / name).state_dict()
        for name in ("first", "again")
    )
    for name, tensor in old.items():
        torch.testing.assert_close(new[name], tensor, atol=1e-6, rtol=0)

    words = tmp_path / "words.txt"
    words.write_text("W1w2\n")
    with pytest.raises(BertError, match="another vocabulary"):
        plan_for(shards, tmp_path, **choices, words_path=words)
    with pytest.raises(BertError, match="--init model"):
        plan_for(shards, tmp_path, words_path=words)


@pytest.mark.parametrize(
    ("num_tokens", "expected"),
    [(600, {"steps": 2000}), (10_000_000, {"epochs": 40})],
)
def test_the_default_budget_grows_with_the_text(
    num_tokens: int, expected: dict[str, int]
) -> None:
    assert budget(num_tokens, 4096) == expected


@pytest.mark.parametrize(
    ("choices", "complaint"),
    [
        ({"steps": 0}, "budget must be positive"),
        ({"steps": None, "minutes": float("nan")}, "budget must be positive"),
        ({"learning_rate": float("nan")}, "--lr must be positive"),
        ({"learning_rate": float("inf")}, "--lr must be positive"),
        ({"seed": 1 << 64}, "--seed"),
        ({"mask_rate": 0.0}, "--mask-rate"),
        ({"mask_rate": float("nan")}, "--mask-rate"),
        ({"held_out_share": -1.0}, "--held-out"),
        ({"num_threads": 0}, "--threads"),
        ({"num_threads": 3000}, "--threads"),
        ({"evaluate_every": -1}, "--eval-every"),
        ({"warmup_steps": -1}, "--warmup-steps"),
        ({"max_length": 3}, "too short"),
        ({"batch_tokens": 0}, "--batch-tokens must be at least 1"),
        ({"batch_tokens": 0, "steps": None, "epochs": 1}, "--batch-tokens"),
        ({"optimizer": "foo"}, "no --optimizer foo"),
        ({"max_length": None, "phases": "32:nan"}, "sum to 1"),
    ],
)
def test_values_out_of_range_are_refused(
    shards: TokenShards,
    tmp_path: Path,
    choices: dict[str, Any],
    complaint: str,
) -> None:
    with pytest.raises(BertError, match=complaint):
        plan_for(shards, tmp_path, **choices)


def test_a_start_that_fails_leaves_the_name_free(
    make_shards: MakeShards, tmp_path: Path
) -> None:
    one_document = make_shards([[5, 6, 7, 8]])
    plan = plan_for(one_document, tmp_path)
    with pytest.raises(BertError, match="at least two documents"):
        pretrain.start(plan, tmp_path / "run", ignore)
    assert not (tmp_path / "run").exists()
    plan = plan_for(one_document, tmp_path, no_nsp=True, steps=1)
    assert pretrain.start(plan, tmp_path / "run", ignore) is not None


def test_other_boundaries_are_other_data(
    make_shards: MakeShards, tmp_path: Path
) -> None:
    first = make_shards([[5, 6], [7, 8]])
    second = make_shards([[5, 6, 7, 8]])
    assert np.array_equal(first.tokens, second.tokens)
    assert first.meta.sha256 != second.meta.sha256


def test_settings_without_effect_are_refused_or_named(
    shards: TokenShards, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(BertError, match="--max-length or --phases"):
        plan_for(shards, tmp_path, phases="16:0.5,32:0.5")
    plan = plan_for(shards, tmp_path, shards_weights=True, steps=1)
    pretrain.start(plan, tmp_path / "run", ignore)
    assert "--shard has no effect" in caplog.text
    caplog.clear()
    plan_for(shards, tmp_path, warmup_steps=6)
    assert "never gets to its highest" in caplog.text
    plan_for(
        shards, tmp_path, max_length=None, mask_rate=0.3, phases="32:1::0.4"
    )
    assert "--mask-rate has no effect" in caplog.text
    caplog.clear()
    plan_for(shards, tmp_path, max_length=None, mask_rate=0.3, phases="32:1")
    plan_for(shards, tmp_path, warmup_steps=5)
    assert not caplog.messages
    plan_for(shards, tmp_path, compiles=True, num_threads=1000)
    assert "--compile gains nothing" in caplog.text
    assert "1000 threads on" in caplog.text
    assert "takes long on a CPU" not in caplog.text
    plan_for(shards, tmp_path, batch_tokens=65536)
    assert "A step of 65,536 tokens takes long on a CPU" in caplog.text


def test_a_short_warm_up_gets_a_lower_rate(
    shards: TokenShards, tmp_path: Path
) -> None:
    choices: dict[str, Any] = {"config_path": None, "preset": "base"}
    rates = {
        steps: plan_for(
            shards, tmp_path, steps=steps, **choices
        ).training.learning_rate
        for steps in (1000, 10_000)
    }
    # 十分之一的步数用于升温：base 每步最多升 1.6e-6
    assert rates[1000] == pytest.approx(100 * 1.63e-6, rel=0.01)
    assert rates[10_000] == 5e-4
    by_clock = plan_for(
        shards, tmp_path, steps=None, minutes=1.0, **choices
    ).training
    assert by_clock.learning_rate == 5e-4
    assert by_clock.min_warmup_steps == 308


def test_wider_models_get_lower_rates(shards: TokenShards) -> None:
    from bert_from_scratch import BertConfig

    names = ("tiny", "mini", "small", "medium", "base", "large")
    rates = [choose_rate(BertConfig.preset(name), False) for name in names]
    assert rates == sorted(rates, reverse=True)
    assert choose_rate(BertConfig.preset("tiny"), True) == 1e-4


def test_out_of_memory_names_a_size_that_fits(
    shards: TokenShards, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A step of over 600 tokens at once does not fit, a smaller one does."""
    real = BertTrainer._backward

    def limited(self: BertTrainer, batch: Any, *rest: Any) -> Any:
        if len(batch.input_ids) > 600:
            raise RuntimeError("DefaultCPUAllocator: can't allocate memory")
        return real(self, batch, *rest)

    monkeypatch.setattr(BertTrainer, "_backward", limited)
    with pytest.raises(BertError, match="Out of memory with 1,024") as caught:
        pretrain.start(plan_for(shards, tmp_path), tmp_path / "run", ignore)
    assert caught.value.hint is not None
    assert "--accumulate 2 fits" in caught.value.hint
    assert not (tmp_path / "run").exists()
    assert not memory.is_out_of_memory(RuntimeError("something else"))


def test_without_tensorboard_and_matplotlib_a_run_goes_on(
    shards: TokenShards,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    for name in ("torch.utils.tensorboard", "matplotlib.figure"):
        monkeypatch.setitem(sys.modules, name, None)
    result = pretrain.start(
        plan_for(shards, tmp_path), tmp_path / "run", ignore
    )
    assert result is not None
    assert result.curve_path is None
    assert "No TensorBoard events" in caplog.text
    assert "No loss curve" in caplog.text
    assert len(read(tmp_path / "run", "metrics.jsonl")) == 6


def test_a_loss_that_is_no_number_stops_the_run_and_is_saved(
    shards: TokenShards, tmp_path: Path
) -> None:
    def poison(progress: Progress) -> None:
        if progress.result.step == 3:
            for parameter in models[-1].parameters():
                parameter.data.fill_(float("nan"))

    models: list[BertForPreTraining] = []
    real = BertForPreTraining.__init__

    def remember(self: BertForPreTraining, config: Any) -> None:
        real(self, config)
        models.append(self)

    plan = plan_for(shards, tmp_path)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(BertForPreTraining, "__init__", remember)
        with pytest.raises(BertError, match="loss is nan at step 4"):
            pretrain.start(plan, tmp_path / "run", poison)
    lines = read(tmp_path / "run", "metrics.jsonl")
    assert [line["step"] for line in lines] == [1, 2, 3, 4]
    assert np.isnan(lines[-1]["loss"])
    assert list_checkpoints(tmp_path / "run" / "checkpoints")


@pytest.mark.slow
def test_a_full_disk_keeps_the_checkpoints_that_are_whole(
    shards: TokenShards, tmp_path: Path
) -> None:
    plan = plan_for(shards, tmp_path, checkpoint_every=1)
    with pytest.raises(Interrupted):
        pretrain.start(plan, tmp_path / "run", stop_at(2))
    before = list_checkpoints(tmp_path / "run" / "checkpoints")
    # 以文件大小上限代替写满的磁盘：同样是写到一半出错
    code = (
        "import sys; from pathlib import Path\n"
        "from bert_from_scratch.train.pretrain import resume\n"
        "resume(Path(sys.argv[1]), lambda progress: None)\n"
    )
    limit = 40_000
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "run")],
        capture_output=True,
        text=True,
        preexec_fn=lambda: resource.setrlimit(
            resource.RLIMIT_FSIZE, (limit, limit)
        ),
    )
    assert done.returncode != 0
    assert list_checkpoints(tmp_path / "run" / "checkpoints") == before
    assert pretrain.resume(tmp_path / "run", ignore) is not None
