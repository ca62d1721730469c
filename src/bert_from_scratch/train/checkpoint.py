"""Checkpoints: everything to go on from, whole or not at all.

    checkpoints/step-00001000/
        model.safetensors       weights, under our names
        optimizer.safetensors   Adam's averages, under the weights' names
        state.json              step, place in the data, time, checksums

Dropout, masks and order are functions of seed and step, so there is no random
state to keep.
"""

import json
import re
import shutil
from dataclasses import asdict, dataclass
from hashlib import file_digest
from pathlib import Path

import torch
from torch import Tensor, nn

from bert_from_scratch import atomic
from bert_from_scratch.config import check_types, read_json
from bert_from_scratch.data.steps import Position
from bert_from_scratch.errors import BertError
from bert_from_scratch.model.tensor_file import read_tensors, write_tensors
from bert_from_scratch.train.sharding import cut, whole

_NAME = re.compile(r"step-(\d{8,})")
_FILES = ("model.safetensors", "optimizer.safetensors")


@dataclass(frozen=True)
class TrainingState:
    """Where a run is.

    Attributes:
        step: Steps taken.
        position: Place in the data.
        seconds: Time used, over all sittings.
        schedule_start: How much of it had passed at the first step.
        num_tokens: Real tokens seen.
        best_loss: Lowest held-out loss so far, or None.
        best_step: When it was.
    """

    step: int = 0
    position: Position = Position()  # noqa: RUF009
    seconds: float = 0.0
    schedule_start: float | None = None
    num_tokens: int = 0
    best_loss: float | None = None
    best_step: int | None = None


def save_checkpoint(
    checkpoints_dir: Path,
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    state: TrainingState,
    *,
    writes: bool = True,
) -> Path:
    """Writes a checkpoint; it appears in one step, with its checksums.

    Args:
        checkpoints_dir: Where it goes.
        model: Whose weights.
        optimizer: Whose averages.
        state: Where the run is.
        writes: Whether this process writes. Where processes share the
            weights, all of them must call this, to put the whole together.
    """
    path = checkpoint_path(checkpoints_dir, state.step)
    tensors = (whole_weights(model), _optimizer_tensors(model, optimizer))
    if path.exists() or not writes:
        return path
    with atomic.new_directory(path) as scratch_dir:
        for name, contents in zip(_FILES, tensors, strict=True):
            write_tensors(scratch_dir / name, contents)
        values = asdict(state)
        values["checksums"] = {n: _checksum(scratch_dir / n) for n in _FILES}
        atomic.write_text(
            scratch_dir / "state.json", json.dumps(values, indent=2) + "\n"
        )
    return path


def load_checkpoint(
    path: Path, model: nn.Module, optimizer: torch.optim.Optimizer
) -> TrainingState:
    """Fills model and optimiser from a checkpoint, in place."""
    values = read_json(path / "state.json")
    try:
        checksums = dict(values.pop("checksums"))
        position = Position(**values.pop("position"))
        state = TrainingState(position=position, **values)
        check_types(position)
        check_types(state)
    except (KeyError, TypeError, ValueError) as error:
        raise BertError(f"{path} is damaged: {error}.") from error
    for name, expected in checksums.items():
        if _checksum(path / name) != expected:
            raise BertError(
                f"{path / name} does not match its checksum.",
                hint="remove this checkpoint; the one before it is used then",
            )
    weights, averages = (read_tensors(path / name) for name in _FILES)
    own = model.state_dict()
    model.load_state_dict({n: cut(t, own[n]) for n, t in weights.items()})
    _restore_optimizer(model, optimizer, averages)
    return state


def checkpoint_path(checkpoints_dir: Path, step: int) -> Path:
    """Returns where the checkpoint of a step lies."""
    return checkpoints_dir / f"step-{step:08d}"


def newest_checkpoint(checkpoints_dir: Path) -> Path | None:
    """Returns the checkpoint of the highest step, or None."""
    found = list_checkpoints(checkpoints_dir)
    return found[-1] if found else None


def list_checkpoints(checkpoints_dir: Path) -> list[Path]:
    """Returns all checkpoints, the newest last."""
    if not checkpoints_dir.is_dir():
        return []
    return sorted(
        path for path in checkpoints_dir.iterdir() if _NAME.fullmatch(path.name)
    )


def remove_old_checkpoints(
    checkpoints_dir: Path, keep: int, best: Path | None
) -> None:
    """Removes all but the newest `keep` and the best one."""
    for path in list_checkpoints(checkpoints_dir)[:-keep]:
        if path != best:
            shutil.rmtree(path)


def whole_weights(model: nn.Module) -> dict[str, Tensor]:
    """Returns all weights on the CPU, put together where they are shared."""
    state = model.state_dict()
    return {name: _copy_whole(tensor) for name, tensor in state.items()}


def _copy_whole(tensor: Tensor) -> Tensor:
    # 切分的权重先拼完整：检查点与进程数无关，换多少个进程都能恢复
    return whole(tensor).detach().cpu().contiguous()


def _optimizer_tensors(
    model: nn.Module, optimizer: torch.optim.Optimizer
) -> dict[str, Tensor]:
    """Names Adam's averages after their weights: "exp_avg/bert.pooler..."."""
    return {
        f"{kind}/{name}": _copy_whole(tensor)
        for name, parameter in model.named_parameters()
        for kind, tensor in optimizer.state.get(parameter, {}).items()
    }


def _restore_optimizer(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    averages: dict[str, Tensor],
) -> None:
    parameters = dict(model.named_parameters())
    for key, tensor in averages.items():
        kind, _, name = key.partition("/")
        parameter = parameters[name]
        # Adam 的步数是标量，留在 CPU；两个均值跟着参数走
        if tensor.shape == parameter.shape:
            tensor = cut(tensor, parameter)
        is_moved = tensor.shape == parameter.shape or parameter.is_cuda
        device = parameter.device if is_moved else tensor.device
        optimizer.state[parameter][kind] = tensor.to(device)


def _checksum(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise BertError(f"Cannot read {path}: {error.strerror}.") from error
