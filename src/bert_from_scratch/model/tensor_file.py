"""Files of named tensors (safetensors), whose faults name the file."""

from collections.abc import Mapping
from pathlib import Path

from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from bert_from_scratch.errors import BertError


def write_tensors(
    path: Path,
    tensors: Mapping[str, Tensor],
    metadata: Mapping[str, str] | None = None,
) -> None:
    """Writes tensors; a full disk is a user's error, not a traceback."""
    try:
        save_file(dict(tensors), path, dict(metadata or {}) or None)
    except SafetensorError as error:
        raise BertError(
            f"{path} cannot be written: {error}.",
            hint="is there room on the disk?",
        ) from error


def read_tensors(path: Path) -> dict[str, Tensor]:
    """Reads all tensors of a file onto the CPU."""
    try:
        return load_file(path)
    except SafetensorError as error:
        raise BertError(f"{path} is damaged: {error}.") from error
