"""Weights files: named tensors out of a folder, and nothing else out of it."""

import pickle
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from bert_from_scratch.config import read_json
from bert_from_scratch.errors import BertError

_TENSORFLOW_FILES = ("tf_model.h5", "*.ckpt", "*.ckpt.index", "*.ckpt.meta")


def read_weights(directory: Path) -> dict[str, Tensor]:
    """Reads all named tensors of a model directory, floats as float32.

    It takes `model.safetensors`, `pytorch_model.bin`, or either in shards
    with an index, in this order.

    Raises:
        BertError: No such file, a damaged one, or one that holds more than
            plain tensors.
    """
    paths = _find_files(directory)
    tensors: dict[str, Tensor] = {}
    for path in paths:
        read = _read_safetensors if path.suffix == ".safetensors" else _read_bin
        tensors.update(read(path))
    # 半精度权重升到 fp32：计算精度由运行时决定，不由文件决定
    return {
        name: tensor.float() if tensor.is_floating_point() else tensor
        for name, tensor in tensors.items()
    }


def _find_files(directory: Path) -> list[Path]:
    for name in ("model.safetensors", "pytorch_model.bin"):
        if (directory / name).is_file():
            return [directory / name]
        if (directory / f"{name}.index.json").is_file():
            return _find_shards(directory / f"{name}.index.json")
    if any(any(directory.glob(pattern)) for pattern in _TENSORFLOW_FILES):
        raise BertError(
            f"{directory} holds a TensorFlow checkpoint, which is not read.",
            hint="convert it once: `transformers` 4 has BertForPreTraining."
            "from_pretrained(..., from_tf=True).save_pretrained(...)",
        )
    raise BertError(
        f"{directory} has no weights: neither model.safetensors nor "
        "pytorch_model.bin."
    )


def _find_shards(index_path: Path) -> list[Path]:
    weight_map = read_json(index_path).get("weight_map")
    if not isinstance(weight_map, dict) or not weight_map:
        raise BertError(f"{index_path} has no weight_map.")
    names = sorted({str(name) for name in weight_map.values()})
    for name in names:
        # 索引文件来自他人：分片名只许是本目录内的普通文件名
        if Path(name).name != name:
            raise BertError(
                f"{index_path} points outside its folder: {name!r}."
            )
        if not (index_path.parent / name).is_file():
            raise BertError(f"The shard {name} named in {index_path} is gone.")
    return [index_path.parent / name for name in names]


def _read_safetensors(path: Path) -> dict[str, Tensor]:
    try:
        with safe_open(path, framework="pt") as file:
            return {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, OSError) as error:
        raise BertError(
            f"{path} is truncated or damaged: {error}.",
            hint="copy or download the file again",
        ) from error


def _read_bin(path: Path) -> dict[str, Tensor]:
    with path.open("rb") as file:
        is_weights = file.read(2) in _BIN_STARTS
    try:
        # weights_only 拒绝执行任何代码：别人给的 pickle 绝不能照单全收
        loaded = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:
        # 损坏的文件能让解码器抛出各种异常，一律归为损坏；只有格式完好
        # 却夹带别的对象时，才说它可能执行代码
        if is_weights and isinstance(error, pickle.UnpicklingError):
            raise BertError(
                f"{path} is refused: it is a pickle that holds more than "
                "plain weights, and loading it could run code.",
                hint="ask for model.safetensors instead",
            ) from error
        raise BertError(
            f"{path} is truncated or damaged: {_first_line(error)}.",
            hint="copy or download the file again",
        ) from error
    if not isinstance(loaded, dict) or not all(
        isinstance(name, str) and isinstance(tensor, Tensor)
        for name, tensor in loaded.items()
    ):
        raise BertError(f"{path} does not hold a plain table of tensors.")
    return loaded


# zip 容器，或旧格式的 pickle 协议标记
_BIN_STARTS = (b"PK", b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05")


def _first_line(error: Exception) -> str:
    return (str(error) or type(error).__name__).split("\n")[0].rstrip(".")
