"""What was changed, damaged or taken by another process is refused."""

import json
import shutil
import threading
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import SafetensorError

from bert_from_scratch import BertError
from bert_from_scratch.finetune import outcome, run
from bert_from_scratch.finetune.attempt import read_result
from bert_from_scratch.finetune.loading import load_data
from bert_from_scratch.finetune.plan import MAX_SEEDS, DataPlan, FinetunePlan
from bert_from_scratch.finetune.tasks import load_task, read_columns
from bert_from_scratch.model import tensor_file
from bert_from_scratch.train.interruption import Interrupted
from bert_from_scratch.train.recorder import Progress
from bert_from_scratch.train.run_directory import RunDirectory


@pytest.fixture(autouse=True)
def no_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
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
        epochs=1,
        batch_size=16,
        device="cpu",
        options={"max_length": 32},
    )


@pytest.fixture
def finished(plan: FinetunePlan, tmp_path: Path) -> Path:
    run.start(plan, tmp_path / "done", quiet)
    return tmp_path / "done" / "model"


def quiet(where: run.Where, progress: Progress) -> None:
    pass


def edit(path: Path, change: Callable[[dict[str, Any]], object]) -> None:
    values = json.loads(path.read_text())
    change(values)
    path.write_text(json.dumps(values))


@pytest.fixture
def stopped(
    plan: FinetunePlan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Path:
    """A run of two seeds, stopped in its first attempt."""
    event = threading.Event()

    @contextmanager
    def catch() -> Any:
        yield event

    with monkeypatch.context() as patch:
        patch.setattr(run, "catch_signals", catch)
        with pytest.raises(Interrupted):
            run.start(
                replace(plan, seeds=(0, 1)),
                tmp_path / "out",
                lambda where, progress: event.set(),
            )
    return tmp_path / "out"


def test_a_directory_has_one_process_at_a_time(
    plan: FinetunePlan, stopped: Path, tmp_path: Path
) -> None:
    before = (stopped / "plan.json").read_text()
    with RunDirectory(stopped):
        with pytest.raises(BertError, match="Another process is working"):
            run.resume(stopped, quiet)
        with pytest.raises(BertError, match="exists already"):
            run.start(replace(plan, epochs=9), stopped, quiet)
    assert (stopped / "plan.json").read_text() == before
    new = tmp_path / "new"
    new.mkdir()
    with (
        RunDirectory(new),
        pytest.raises(BertError, match="Another process is working"),
    ):
        run.start(plan, new, quiet)
    assert not (new / "plan.json").exists()


def test_a_directory_that_another_took_meanwhile_is_left_alone(
    plan: FinetunePlan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"

    def slow_read(plan: FinetunePlan) -> Any:
        out.mkdir()
        (out / "plan.json").write_text("another's")
        return load_data(plan)

    monkeypatch.setattr(run, "load_data", slow_read)
    with pytest.raises(BertError, match="exists already") as error:
        run.start(plan, out, quiet)
    assert "resume" in str(error.value.hint)
    assert (out / "plan.json").read_text() == "another's"


def test_a_folder_that_is_no_run_is_not_said_to_be_one(
    plan: FinetunePlan, tmp_path: Path
) -> None:
    (tmp_path / "letter.txt").write_text("Dear reader")
    with pytest.raises(BertError, match="exists already") as error:
        run.start(plan, tmp_path, quiet)
    assert "resume" not in str(error.value.hint)


def test_another_base_model_is_noticed(
    plan: FinetunePlan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = tmp_path / "bert"
    shutil.copytree(plan.model or "", model)
    out = tmp_path / "out"
    run.start(replace(plan, model=str(model)), out, quiet)
    (out / "metrics.json").unlink()
    weights = tensor_file.read_tensors(model / "model.safetensors")
    changed = {name: 2 * tensor for name, tensor in weights.items()}
    tensor_file.write_tensors(
        model / "model.safetensors", changed, {"format": "pt"}
    )
    with pytest.raises(BertError, match=r"The model of .* has changed"):
        run.resume(out, quiet)


def test_a_full_disk_is_told_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise SafetensorError("I/O error: No space left on device")

    monkeypatch.setattr(tensor_file, "save_file", fail)
    with pytest.raises(BertError, match="x cannot be written") as error:
        tensor_file.write_tensors(tmp_path / "x", {"a": torch.ones(1)})
    assert "disk" in str(error.value.hint)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("labels", ["good", "bad"], "different labels"),
        ("labels", ["a", "a"], "different labels"),
        ("labels", "ab", "labels cannot be 'ab'"),
        ("max_length", "x", "max_length cannot be 'x'"),
        ("max_length", 10.5, "max_length cannot be 10.5"),
    ],
)
def test_a_task_that_was_changed_is_refused(
    finished: Path, name: str, value: object, message: str
) -> None:
    assert load_task(finished).name == "classify"
    edit(
        finished / "task.json",
        lambda values: values["settings"].update({name: value}),
    )
    with pytest.raises(BertError, match=message):
        load_task(finished)


@pytest.mark.parametrize("task", [["x"], "sing", None, 5])
def test_an_unknown_task_is_refused(finished: Path, task: object) -> None:
    edit(finished / "task.json", lambda values: values.update(task=task))
    with pytest.raises(BertError, match="another version"):
        load_task(finished)


@pytest.mark.parametrize("columns", [[1], 5, {"text": {}}, {"text": 1.5}])
def test_columns_that_are_none_are_refused(
    finished: Path, columns: object
) -> None:
    edit(finished / "task.json", lambda values: values.update(columns=columns))
    with pytest.raises(BertError, match="names no columns"):
        read_columns(finished)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("seeds", None),
        ("learning_rates", 5),
        ("epochs", "3"),
        ("data", {"colour": "red"}),
    ],
)
def test_a_plan_that_was_changed_is_refused(
    stopped: Path, name: str, value: object
) -> None:
    edit(stopped / "plan.json", lambda values: values.update({name: value}))
    with pytest.raises(BertError, match=r"plan\.json is damaged"):
        run.resume(stopped, quiet)


def test_a_checkpoint_without_its_state_is_left_out(
    stopped: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (state,) = stopped.glob("runs/*/checkpoints/*/state.json")
    state.write_text("{}")
    assert run.resume(stopped, quiet) is not None
    assert "It is left out." in caplog.text


def test_a_result_without_its_numbers_is_refused(tmp_path: Path) -> None:
    (tmp_path / "result.json").write_text("{}")
    with pytest.raises(BertError, match="is damaged") as error:
        read_result(tmp_path)
    assert "remove" in str(error.value.hint)


def test_weights_of_an_attempt_that_are_cut_off_are_refused(
    plan: FinetunePlan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"

    def fail(*_: object) -> None:
        raise OSError("the power is gone")

    with monkeypatch.context() as patch:
        patch.setattr(run, "write_outcome", fail)
        with pytest.raises(OSError, match="power"):
            run.start(plan, out, quiet)
    (path,) = out.glob("runs/*/weights.safetensors")
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(BertError, match=r"weights\.safetensors is damaged"):
        run.resume(out, quiet)


def test_numbers_out_of_reach_are_refused(plan: FinetunePlan) -> None:
    with pytest.raises(BertError, match="--threads must be at most"):
        replace(plan, num_threads=2**31)
    with pytest.raises(BertError, match="--seeds must be at most"):
        replace(plan, seeds=tuple(range(MAX_SEEDS + 1)))
    with pytest.raises(BertError, match="finite"):
        replace(plan, weight_decay=float("nan"))


def test_names_that_are_not_utf8_are_refused(
    plan: FinetunePlan, tmp_path: Path
) -> None:
    with pytest.raises(BertError, match=r"o\\udcff is not UTF-8"):
        run.start(plan, tmp_path / "o\udcff", quiet)
    with pytest.raises(BertError, match="is not UTF-8"):
        replace(plan, model="m\udcff")


def test_dev_limit_holds_for_the_test_set_too(
    plan: FinetunePlan, reviews: Path, tmp_path: Path
) -> None:
    data = replace(plan.data, test=str(reviews / "dev.tsv"), dev_limit=7)
    said: list[str] = []
    run.start(replace(plan, data=data), tmp_path / "out", quiet, said.append)
    assert "scoring test: 7 examples" in said


def test_a_stop_while_scoring_says_how_to_go_on(
    plan: FinetunePlan,
    reviews: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    event = threading.Event()

    @contextmanager
    def catch() -> Any:
        yield event

    def announce(text: str) -> None:
        if text.startswith("scoring"):
            event.set()

    out = tmp_path / "out"
    data = replace(plan.data, test=str(reviews / "dev.tsv"))
    with monkeypatch.context() as patch:
        patch.setattr(run, "catch_signals", catch)
        with pytest.raises(Interrupted, match="while scoring") as error:
            run.start(replace(plan, data=data), out, quiet, announce)
    assert f"bert finetune resume {out}" in str(error.value.hint)
    assert run.resume(out, quiet) is not None


def test_texts_that_are_cut_are_told_of(
    plan: FinetunePlan, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "long.tsv"
    rows = [f"the film was {10 * word}\t{word}" for word in ("good ", "bad ")]
    path.write_text("text\tlabel\n" + "\n".join(rows) + "\n")
    data = DataPlan(train=str(path), dev=str(path))
    short = replace(plan, data=data, options={"max_length": 8})
    run.start(short, tmp_path / "out", quiet)
    assert "2 of 2 texts fill or exceed 8 tokens" in caplog.text


def test_a_better_epoch_than_the_last_is_told_of(
    plan: FinetunePlan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scores = iter([0.9, 0.4, 0.4])

    def judge(self: Any, model: Any) -> Any:
        return replace(
            true_judge(self, model), scores={"accuracy": next(scores)}
        )

    true_judge = run._Run._judge
    monkeypatch.setattr(run._Run, "_judge", judge)
    said: list[str] = []
    run.start(replace(plan, epochs=2), tmp_path / "out", quiet, said.append)
    assert "epoch 1 was better (0.9000); --patience keeps the best" in said
