"""On a GPU the loop never waits, and says and leaves the same as if it did."""

from collections.abc import Iterator
from dataclasses import replace

import pytest
import torch

from bert_from_scratch import BertConfig, SequenceClassifier
from bert_from_scratch.data.batch import Batch
from bert_from_scratch.data.steps import Position, StepData
from bert_from_scratch.train.processes import Processes
from bert_from_scratch.train.settings import OptimizerName, TrainingSettings
from bert_from_scratch.train.step_result import NonFiniteLossError, StepResult
from bert_from_scratch.train.trainer import BertTrainer

CONFIG = BertConfig(
    vocab_size=100,
    hidden_size=64,
    num_hidden_layers=2,
    num_attention_heads=2,
    intermediate_size=128,
    max_position_embeddings=32,
)
NUM_STEPS = 6


class Source:
    """Steps of random ids, packed; the same every time."""

    def steps(self, position: Position) -> Iterator[StepData]:
        for number in range(position.cursor, NUM_STEPS):
            generator = torch.Generator().manual_seed(number)
            ids = torch.randint(5, 100, (64,), generator=generator)
            batch = Batch(
                input_ids=ids,
                token_type_ids=torch.zeros_like(ids),
                position_ids=torch.arange(16).repeat(4),
                cu_seqlens=torch.arange(0, 65, 16, dtype=torch.int32),
                max_seqlen=16,
                labels=torch.randint(3, (4,), generator=generator),
            )
            yield StepData([batch], 64, replace(position, cursor=number + 1))

    def num_steps(self, epoch: int) -> int:
        return NUM_STEPS

    def epochs_done(self, position: Position) -> float:
        return position.cursor / NUM_STEPS

    def advance(self, position: Position, progress: float) -> Position:
        return position

    def finish(self, batch: Batch, step: int, phase: int = 0) -> Batch:
        return batch


def make_trainer(
    device: str, optimizer: OptimizerName = "adamw"
) -> BertTrainer:
    torch.manual_seed(0)
    settings = TrainingSettings(
        steps=NUM_STEPS,
        learning_rate=1e-3,
        warmup_steps=1,
        optimizer=optimizer,
    )
    model = SequenceClassifier(CONFIG, ("a", "b", "c"))
    return BertTrainer(model, Source(), settings, device=device)


def weights(trainer: BertTrainer) -> torch.Tensor:
    parameters = trainer.model.parameters()
    return torch.cat([p.detach().flatten().cpu() for p in parameters])


DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)]


@pytest.fixture(params=DEVICES)
def device(request: pytest.FixtureRequest) -> str:
    if request.param == "cuda" and not torch.cuda.is_available():
        pytest.skip("needs a CUDA device")
    return str(request.param)


def test_every_step_is_told_with_the_weights_it_left(device: str) -> None:
    waiting = make_trainer(device)
    expected = [
        (waiting.train_batch(data), weights(waiting))
        for data in Source().steps(Position())
    ]
    trainer = make_trainer(device)
    told: list[StepResult] = []

    def note(result: StepResult) -> bool:
        assert trainer.state.step == result.step
        torch.testing.assert_close(
            weights(trainer), expected[len(told)][1], rtol=0, atol=1e-6
        )
        told.append(result)
        return False

    assert trainer.fit(note)
    assert [r.step for r in told] == list(range(1, NUM_STEPS + 1))
    for result, (other, _) in zip(told, expected, strict=True):
        assert result.loss == pytest.approx(other.loss, rel=1e-5)
        assert result.gradient_norm == pytest.approx(
            other.gradient_norm, rel=1e-4
        )
        assert result.learning_rate == other.learning_rate


@pytest.mark.parametrize("optimizer", ["adamw", "google", "muon"])
def test_a_loss_that_is_no_number_changes_nothing(
    device: str, optimizer: OptimizerName
) -> None:
    trainer = make_trainer(device, optimizer)
    before: list[torch.Tensor] = []

    def spoil(_model: object, _args: object, output: object) -> None:
        # 第四步的前向开始时弄坏损失；上一步的更新那时已经发出
        if trainer.state.step == 3:
            for part in output.parts.values():  # type: ignore[attr-defined]
                part.total.data.fill_(float("nan"))

    trainer.model.register_forward_hook(spoil)

    def note(result: StepResult) -> bool:
        before.append(weights(trainer))
        return False

    with pytest.raises(NonFiniteLossError, match="at step 4"):
        trainer.fit(note)
    assert trainer.state.step == 3
    assert len(before) == 3
    torch.testing.assert_close(weights(trainer), before[-1], rtol=0, atol=0)
    assert all(
        p.grad is None or not p.grad.any() for p in trainer.model.parameters()
    )


@pytest.mark.parametrize("optimizer", ["adamw", "google", "muon"])
def test_a_gradient_without_bounds_changes_nothing(
    device: str, optimizer: OptimizerName
) -> None:
    trainer = make_trainer(device, optimizer)
    before: list[torch.Tensor] = []

    def spoil(gradient: torch.Tensor) -> torch.Tensor:
        # 损失仍是好的；裁剪会把这一个无穷大变成满盘 NaN
        is_fourth = trainer.state.step == 3
        return gradient * float("inf") if is_fourth else gradient

    next(trainer.model.parameters()).register_hook(spoil)

    def note(result: StepResult) -> bool:
        before.append(weights(trainer))
        return False

    with pytest.raises(NonFiniteLossError, match="norm of its gradient"):
        trainer.fit(note)
    assert trainer.state.step == len(before) == 3
    torch.testing.assert_close(weights(trainer), before[-1], rtol=0, atol=0)


def test_dropout_differs_between_steps_and_between_processes() -> None:
    def draw(seed: int, step: int, rank: int) -> float:
        trainer = make_trainer("cpu")
        trainer.settings = replace(trainer.settings, seed=seed)
        trainer.processes = Processes(rank, 1)
        trainer._seed(step)
        return float(torch.rand(()))

    places = [(0, 0, 0), (0, 1, 0), (0, 0, 1), (1, 0, 0)]
    assert len({draw(*place) for place in places}) == 4
    assert draw(0, 1, 0) == draw(0, 1, 0)


def test_a_rate_that_is_scaled_to_nothing_moves_nothing() -> None:
    trainer = make_trainer("cpu")
    name, still = next(iter(trainer.model.named_parameters()))
    scaled = BertTrainer(
        trainer.model,
        Source(),
        trainer.settings,
        rate_scales={name: 0.0},
    )
    before = still.detach().clone(), weights(scaled)
    scaled.train_batch(next(Source().steps(Position())))
    assert torch.equal(still, before[0])
    assert not torch.equal(weights(scaled), before[1])


def test_stopping_keeps_the_step_that_was_told(device: str) -> None:
    trainer = make_trainer(device)
    assert not trainer.fit(lambda result: result.step == 2)
    assert trainer.state.step == 2
    assert trainer.state.position.cursor == 2
    assert trainer.fit(lambda result: False)
    assert trainer.state.step == NUM_STEPS
