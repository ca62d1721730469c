"""Weights files give plain tensors, or are refused by name, unharmed."""

import json
import os
import pickle
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor

from bert_from_scratch.errors import BertError
from bert_from_scratch.model.weights import read_weights

Tensors = dict[str, Tensor]
TENSORS: Tensors = {
    f"bert.layer.{number}.{kind}": torch.randn(4, 3 + number)
    for number in range(4)
    for kind in ("weight", "bias")
}


def write_safetensors(directory: Path, tensors: Tensors) -> Path:
    path = directory / "model.safetensors"
    save_file(tensors, path, {"format": "pt"})
    return path


def write_bin(directory: Path, value: object) -> Path:
    path = directory / "pytorch_model.bin"
    torch.save(value, path)
    return path


def write_old_bin(directory: Path, value: object) -> Path:
    """Writes the format of PyTorch before 1.6, as BERT's first files are."""
    path = directory / "pytorch_model.bin"
    torch.save(value, path, _use_new_zipfile_serialization=False)
    return path


def write_shards(
    directory: Path, tensors: Tensors, name: str = "model.safetensors"
) -> Path:
    """Writes two shards and their index; returns the path of the index."""
    stem, suffix = name.split(".")
    weight_map = {}
    for number in (0, 1):
        shard = f"{stem}-{number + 1:05}-of-00002.{suffix}"
        part = dict(list(tensors.items())[number::2])
        weight_map.update(dict.fromkeys(part, shard))
        if suffix == "safetensors":
            save_file(part, directory / shard, {"format": "pt"})
        else:
            torch.save(part, directory / shard)
    path = directory / f"{name}.index.json"
    path.write_text(json.dumps({"metadata": {}, "weight_map": weight_map}))
    return path


def write_bin_shards(directory: Path, tensors: Tensors) -> Path:
    return write_shards(directory, tensors, "pytorch_model.bin")


FORMATS: list[Callable[[Path, Tensors], Path]] = [
    write_safetensors,
    write_shards,
    write_bin,
    write_old_bin,
    write_bin_shards,
]
BINS: list[Callable[[Path, object], Path]] = [write_bin, write_old_bin]


# 读得对


@pytest.mark.parametrize("write", FORMATS)
def test_every_format_gives_back_the_tensors(
    tmp_path: Path, write: Callable[[Path, Tensors], Path]
) -> None:
    write(tmp_path, TENSORS)
    read = read_weights(tmp_path)
    assert read.keys() == TENSORS.keys()
    for name, tensor in TENSORS.items():
        assert torch.equal(read[name], tensor), name


@pytest.mark.parametrize("write", [write_safetensors, write_bin])
@pytest.mark.parametrize(
    "dtype", [torch.float16, torch.bfloat16, torch.float64]
)
def test_other_precisions_become_float32(
    tmp_path: Path, dtype: torch.dtype, write: Callable[[Path, Tensors], Path]
) -> None:
    tensors = {name: tensor.to(dtype) for name, tensor in TENSORS.items()}
    write(tmp_path, {**tensors, "position_ids": torch.arange(5)})
    read = read_weights(tmp_path)
    assert read.pop("position_ids").dtype == torch.int64
    for name, tensor in read.items():
        assert tensor.dtype == torch.float32
        assert torch.equal(tensor, tensors[name].float())


def test_safetensors_are_preferred_to_a_pickle(tmp_path: Path) -> None:
    write_bin(tmp_path, {"from": torch.zeros(1)})
    write_safetensors(tmp_path, {"from": torch.ones(1)})
    assert read_weights(tmp_path)["from"].item() == 1


def test_one_file_is_preferred_to_shards(tmp_path: Path) -> None:
    write_shards(tmp_path, TENSORS)
    write_safetensors(tmp_path, {"alone": torch.ones(1)})
    assert read_weights(tmp_path).keys() == {"alone"}


# 拒绝：没有、不全、别处


def test_a_folder_without_weights_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(BertError, match=r"neither model\.safetensors nor") as e:
        read_weights(tmp_path)
    assert str(tmp_path) in e.value.message


@pytest.mark.parametrize(
    "name",
    ["tf_model.h5", "bert_model.ckpt.index", "model.ckpt.meta", "model.ckpt"],
)
def test_a_tensorflow_checkpoint_is_refused_by_name(
    tmp_path: Path, name: str
) -> None:
    (tmp_path / name).write_bytes(b"\x89HDF")
    with pytest.raises(BertError, match="TensorFlow") as caught:
        read_weights(tmp_path)
    assert caught.value.hint is not None
    assert "convert" in caught.value.hint


@pytest.mark.parametrize("write", [write_shards, write_bin_shards])
def test_a_missing_shard_is_refused_by_name(
    tmp_path: Path, write: Callable[[Path, Tensors], Path]
) -> None:
    write(tmp_path, TENSORS)
    (shard,) = tmp_path.glob("*-00002-of-00002.*")
    shard.unlink()
    with pytest.raises(BertError, match=shard.name):
        read_weights(tmp_path)


@pytest.mark.parametrize("place", ["../x/{}", "sub/{}", "/{}", "..", "", "."])
def test_an_index_cannot_point_outside_its_folder(
    tmp_path: Path, place: str
) -> None:
    directory = tmp_path / "model"
    directory.mkdir()
    index_path = write_shards(directory, TENSORS)
    (shard, _) = sorted(directory.glob("*.safetensors"))
    for folder in (tmp_path / "x", directory / "sub"):
        folder.mkdir()
        shutil.copy(shard, folder)
    name = place.format(shard.name)
    if place.startswith("/"):
        name = str(tmp_path / "x" / shard.name)
    index_path.write_text(index_path.read_text().replace(shard.name, name))
    with pytest.raises(BertError, match=r"outside its folder|is gone"):
        read_weights(directory)


@pytest.mark.parametrize(
    "index", ["{}", '{"weight_map": {}}', '{"weight_map": []}', "[]", "{"]
)
def test_an_index_without_a_map_is_refused_by_name(
    tmp_path: Path, index: str
) -> None:
    (tmp_path / "model.safetensors.index.json").write_text(index)
    with pytest.raises(BertError, match=r"index\.json"):
        read_weights(tmp_path)


# 拒绝：截断、损坏


def assert_called_damaged(path: Path) -> None:
    with pytest.raises(BertError, match="truncated or damaged") as caught:
        read_weights(path.parent)
    assert str(path) in caught.value.message
    assert caught.value.hint is not None
    assert "again" in caught.value.hint


@pytest.mark.parametrize("num_kept", [0, 1, 7, 9, 100, -300, -1])
def test_truncated_safetensors_are_refused_by_name(
    tmp_path: Path, num_kept: int
) -> None:
    path = write_safetensors(tmp_path, TENSORS)
    path.write_bytes(path.read_bytes()[:num_kept])
    assert_called_damaged(path)


@pytest.mark.parametrize("write", BINS)
@pytest.mark.parametrize("num_kept", [0, 1, 10, 300, 700, -300, -1])
def test_a_truncated_bin_is_refused_by_name(
    tmp_path: Path, write: Callable[[Path, object], Path], num_kept: int
) -> None:
    path = write(tmp_path, TENSORS)
    path.write_bytes(path.read_bytes()[:num_kept])
    # 断在名字中间的旧格式与陌生的名字无从分辨，当作代码拒绝也对
    with pytest.raises(BertError, match=r"damaged|refused") as caught:
        read_weights(tmp_path)
    assert str(path) in caught.value.message


def test_a_truncated_shard_is_refused_by_name(tmp_path: Path) -> None:
    write_shards(tmp_path, TENSORS)
    (path,) = tmp_path.glob("*-00002-of-00002.*")
    path.write_bytes(path.read_bytes()[:-1])
    assert_called_damaged(path)


@pytest.mark.parametrize("name", ["model.safetensors", "pytorch_model.bin"])
@pytest.mark.parametrize(
    "content",
    [
        b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n",
        b"<!doctype html><html></html>",
        b"Entry not found",
    ],
    ids=["git-lfs pointer", "web page", "error message"],
)
def test_a_download_that_went_wrong_is_not_called_an_attack(
    tmp_path: Path, name: str, content: bytes
) -> None:
    (tmp_path / name).write_bytes(content)
    assert_called_damaged(tmp_path / name)


@pytest.mark.parametrize("write", BINS)
def test_no_damage_to_a_bin_gets_past_the_loader(
    tmp_path: Path, write: Callable[[Path, object], Path]
) -> None:
    path = write(tmp_path, TENSORS)
    data = path.read_bytes()
    generator = torch.Generator().manual_seed(0)
    leaks: set[str] = set()
    for _ in range(250):
        damaged = bytearray(data)
        for place in torch.randint(900, (3,), generator=generator).tolist():
            damaged[place] ^= 0x15
        path.write_bytes(damaged)
        try:
            read_weights(tmp_path)
        except (BertError, UserWarning):
            continue  # torch 对怪异的 pickle 协议只发警告，在这里即是错误
        except Exception as error:
            leaks.add(type(error).__name__)
    assert leaks == set()


# 拒绝：会运行代码的 pickle


class Payload:
    """Unpickling this creates a file: what an attacker's could do."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, tuple[str, str]]:
        return open, (str(self.path), "w")


def write_bare_pickle(directory: Path, value: object) -> Path:
    path = directory / "pytorch_model.bin"
    path.write_bytes(pickle.dumps(value, protocol=2))
    return path


def test_the_payload_of_these_tests_is_live(tmp_path: Path) -> None:
    pickle.loads(pickle.dumps(Payload(tmp_path / "hit"))).close()
    assert (tmp_path / "hit").exists()


@pytest.mark.parametrize("write", [*BINS, write_bare_pickle])
@pytest.mark.parametrize("tensors", [{}, TENSORS], ids=["alone", "hidden"])
def test_a_pickle_that_runs_code_is_refused_and_does_not_run(
    tmp_path: Path, write: Callable[[Path, object], Path], tensors: Tensors
) -> None:
    hit = tmp_path / "hit"
    path = write(tmp_path, {**tensors, "payload": Payload(hit)})
    with pytest.raises(BertError, match="refused") as caught:
        read_weights(tmp_path)
    assert not hit.exists()
    assert str(path) in caught.value.message
    assert caught.value.hint is not None
    assert "safetensors" in caught.value.hint


def test_a_shard_that_runs_code_is_refused_and_does_not_run(
    tmp_path: Path,
) -> None:
    write_bin_shards(tmp_path, TENSORS)
    (shard,) = tmp_path.glob("*-00002-of-00002.bin")
    torch.save({"payload": Payload(tmp_path / "hit")}, shard)
    with pytest.raises(BertError, match="refused"):
        read_weights(tmp_path)
    assert not (tmp_path / "hit").exists()


def test_a_pickle_under_the_name_of_safetensors_does_not_run(
    tmp_path: Path,
) -> None:
    path = write_bin(tmp_path, {"payload": Payload(tmp_path / "hit")})
    path.rename(tmp_path / "model.safetensors")
    with pytest.raises(BertError, match=r"model\.safetensors"):
        read_weights(tmp_path)
    assert not (tmp_path / "hit").exists()


def test_the_environment_cannot_switch_the_protection_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(os.environ, "TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD", "1")
    write_bin(tmp_path, {"payload": Payload(tmp_path / "hit")})
    with pytest.raises(BertError, match="refused"):
        read_weights(tmp_path)
    assert not (tmp_path / "hit").exists()


@pytest.mark.parametrize(
    "value",
    [
        [torch.zeros(1)],
        {"state_dict": TENSORS},
        {"a": 3},
        torch.zeros(2),
        {1: torch.zeros(1)},
    ],
    ids=["list", "nested", "number", "tensor", "numbers for names"],
)
def test_a_bin_that_is_no_table_of_tensors_is_refused(
    tmp_path: Path, value: object
) -> None:
    path = write_bin(tmp_path, value)
    with pytest.raises(BertError, match="plain table of tensors") as caught:
        read_weights(tmp_path)
    assert str(path) in caught.value.message
