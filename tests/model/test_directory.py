"""Checkpoints of all kinds load with their numbers, or say what differs."""

import json
import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from safetensors.torch import save_file
from torch import Tensor

from bert_from_scratch import (
    BertConfig,
    BertError,
    BertForPreTraining,
    BertModel,
)
from bert_from_scratch.model import directory as directory_module
from bert_from_scratch.model import tensor_file
from bert_from_scratch.model.bert import Pooler

Tensors = dict[str, Tensor]
ModelClass = type[BertModel] | type[BertForPreTraining]
BOTH = pytest.mark.parametrize("kind", [BertModel, BertForPreTraining])

CONFIG = BertConfig(
    vocab_size=20,
    hidden_size=8,
    num_hidden_layers=2,
    num_attention_heads=2,
    intermediate_size=12,
    max_position_embeddings=10,
)
INPUT_IDS = torch.tensor([[2, 7, 19, 5, 3], [2, 4, 11, 3, 6]])
QUERY = "bert.encoder.layer.0.attention.self.query.weight"
WORDS = "bert.embeddings.word_embeddings.weight"


@pytest.fixture(scope="module", autouse=True)
def one_thread() -> Iterator[None]:
    """Threads wait for each other longer than these tiny models compute."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def make_peer(kind: str = "BertForPreTraining") -> Any:
    """Builds one of Hugging Face's models, every weight off its default."""
    torch.manual_seed(0)
    config = transformers.BertConfig(**vars(CONFIG))
    peer = getattr(transformers, kind)(config).eval()
    with torch.no_grad():
        for parameter in peer.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.1)
    return peer


def tensors_of(peer: Any) -> Tensors:
    """Returns the tensors as `save_pretrained` writes them."""
    return {
        name: tensor.clone()
        for name, tensor in peer.state_dict().items()
        if not name.startswith("cls.predictions.decoder.")
    }


def write_config(directory: Path, **changes: object) -> Path:
    values = {**CONFIG.to_hugging_face("BertForPreTraining"), **changes}
    (directory / "config.json").write_text(json.dumps(values))
    return directory


def write(directory: Path, tensors: Tensors) -> Path:
    save_file(tensors, directory / "model.safetensors", {"format": "pt"})
    return write_config(directory)


def contents(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir()}


def assert_close(ours: Tensor, theirs: Tensor) -> None:
    torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=0)


@torch.no_grad()
def assert_same_numbers(
    ours: BertModel, peer: Any, has_pooler: bool = True
) -> None:
    """Compares outputs, so that a tensor in a wrong place is seen."""
    theirs = getattr(peer, "bert", peer)(INPUT_IDS)
    output = ours(INPUT_IDS)
    assert_close(output.hidden_state, theirs.last_hidden_state)
    if has_pooler:
        assert_close(output.pooled, theirs.pooler_output)


@torch.no_grad()
def assert_same_heads(ours: BertForPreTraining, peer: Any) -> None:
    theirs = peer(INPUT_IDS)
    output = ours.bert(INPUT_IDS)
    logits = ours.mlm_logits(output.hidden_state, torch.arange(10))
    assert_close(logits, theirs.prediction_logits.flatten(0, 1))
    assert_close(ours.nsp_head(output.pooled), theirs.seq_relationship_logits)


# 读得对：每一种存法，每一种名字


def write_shards(directory: Path, peer: Any) -> None:
    peer.save_pretrained(directory, max_shard_size="2KB")
    assert len(list(directory.glob("model-*.safetensors"))) > 2


def write_bin(directory: Path, peer: Any) -> None:
    torch.save(peer.state_dict(), directory / "pytorch_model.bin")


FORMATS: dict[str, Callable[[Path, Any], None]] = {
    "safetensors": lambda directory, peer: peer.save_pretrained(directory),
    "shards": write_shards,
    "bin": write_bin,
}


@pytest.mark.parametrize("form", FORMATS)
def test_every_format_gives_hugging_faces_numbers(
    tmp_path: Path, form: str
) -> None:
    peer = make_peer()
    FORMATS[form](tmp_path, peer)
    ours = BertForPreTraining.from_pretrained(write_config(tmp_path))
    assert_same_numbers(ours.bert, peer)
    assert_same_heads(ours, peer)
    # 同一目录去掉两个头，也能只读出编码器
    assert_same_numbers(BertModel.from_pretrained(tmp_path), peer)


@pytest.mark.parametrize("form", FORMATS)
def test_names_without_the_bert_prefix_are_read(
    tmp_path: Path, form: str
) -> None:
    peer = make_peer("BertModel")
    assert not any(name.startswith("bert.") for name in peer.state_dict())
    FORMATS[form](tmp_path, peer)
    write_config(tmp_path)
    assert_same_numbers(BertModel.from_pretrained(tmp_path), peer)
    ours = BertForPreTraining.from_pretrained(tmp_path, required_parts=())
    assert_same_numbers(ours.bert, peer)


def test_old_names_of_layer_norm_are_understood(tmp_path: Path) -> None:
    peer = make_peer()
    tensors = {
        name.replace("LayerNorm.weight", "LayerNorm.gamma").replace(
            "LayerNorm.bias", "LayerNorm.beta"
        ): tensor
        for name, tensor in tensors_of(peer).items()
    }
    assert sum(name.endswith(("gamma", "beta")) for name in tensors) == 12
    ours = BertForPreTraining.from_pretrained(write(tmp_path, tensors))
    assert_same_numbers(ours.bert, peer)
    assert_same_heads(ours, peer)


@pytest.mark.parametrize("prefix", ["", "bert."])
def test_stored_position_ids_are_ignored(tmp_path: Path, prefix: str) -> None:
    peer = make_peer("BertModel")
    tensors = {prefix + n: t for n, t in tensors_of(peer).items()}
    positions = torch.arange(10).flip(0)[None]
    tensors[f"{prefix}embeddings.position_ids"] = positions
    ours = BertModel.from_pretrained(write(tmp_path, tensors))
    assert_same_numbers(ours, peer)


def test_a_bias_stored_at_the_decoder_alone_is_used(tmp_path: Path) -> None:
    peer = make_peer()
    tensors = tensors_of(peer)
    bias = tensors.pop("cls.predictions.bias")
    tensors["cls.predictions.decoder.bias"] = bias
    tensors["cls.predictions.decoder.weight"] = tensors[WORDS].clone()
    ours = BertForPreTraining.from_pretrained(write(tmp_path, tensors))
    assert_same_heads(ours, peer)


@pytest.mark.parametrize("is_tied", [True, False])
def test_output_weights_of_their_own_are_warned_of(
    tmp_path: Path, is_tied: bool, caplog: pytest.LogCaptureFixture
) -> None:
    tensors = tensors_of(make_peer())
    decoder = tensors[WORDS].clone()
    if not is_tied:
        decoder[0, 0] += 1
    tensors["cls.predictions.decoder.weight"] = decoder
    write(tmp_path, tensors)
    BertForPreTraining.from_pretrained(tmp_path)
    assert ("output weights of its own" in caplog.text) is not is_tied
    caplog.clear()
    BertModel.from_pretrained(tmp_path)
    assert not caplog.text


def test_half_precision_is_loaded_as_float32(tmp_path: Path) -> None:
    peer = make_peer().half()
    write(tmp_path, tensors_of(peer))
    ours = BertForPreTraining.from_pretrained(tmp_path)
    assert {p.dtype for p in ours.parameters()} == {torch.float32}
    assert_same_numbers(ours.bert, peer.float())
    assert_same_heads(ours, peer)


def test_a_loaded_model_is_ready_to_use_and_to_train(tmp_path: Path) -> None:
    make_peer().save_pretrained(tmp_path)
    ours = BertForPreTraining.from_pretrained(tmp_path)
    assert not ours.training
    assert ours.config == CONFIG
    parameters = list(ours.parameters())
    assert all(p.device.type == "cpu" for p in parameters)
    assert all(p.requires_grad for p in parameters)


def test_a_run_directory_serves_as_its_model(tmp_path: Path) -> None:
    peer = make_peer("BertModel")
    peer.save_pretrained(tmp_path / "model")
    assert_same_numbers(BertModel.from_pretrained(tmp_path), peer)


# 缺头、多头


def test_a_missing_pooler_is_drawn_afresh_and_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    peer = make_peer("BertForMaskedLM")
    peer.save_pretrained(tmp_path)
    ours = BertModel.from_pretrained(tmp_path)
    assert_same_numbers(ours, peer, has_pooler=False)
    assert "no weights for: pooler;" in caplog.text
    assert isinstance(ours.pooler, Pooler)
    assert not ours.pooler.dense.bias.any()
    assert 0 < float(ours.pooler.dense.weight.detach().std()) < 0.1


def test_missing_heads_are_drawn_afresh_and_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    peer = make_peer("BertModel")
    peer.save_pretrained(tmp_path)
    ours = BertForPreTraining.from_pretrained(tmp_path)
    assert_same_numbers(ours.bert, peer)
    assert "no weights for: mlm_head, nsp_head;" in caplog.text
    for head in (ours.mlm_head, ours.nsp_head):
        assert all(p.abs().max() <= 1 for p in head.parameters())


def test_a_head_that_is_required_must_be_there(tmp_path: Path) -> None:
    make_peer("BertModel").save_pretrained(tmp_path)
    with pytest.raises(BertError, match=r"lacks .*(mlm_head|cls\.predictions)"):
        BertForPreTraining.from_pretrained(
            tmp_path, required_parts=("mlm_head",)
        )


def test_half_a_head_is_refused(tmp_path: Path) -> None:
    tensors = tensors_of(make_peer())
    del tensors["bert.pooler.dense.bias"]
    with pytest.raises(BertError, match=r"lacks 1 .*pooler"):
        BertForPreTraining.from_pretrained(write(tmp_path, tensors))


@pytest.mark.parametrize(
    ("kind", "has_pooler"),
    [
        ("BertForSequenceClassification", True),
        ("BertForTokenClassification", False),
        ("BertForQuestionAnswering", False),
        ("BertForNextSentencePrediction", True),
    ],
)
def test_heads_of_fine_tuned_checkpoints_are_passed_over(
    tmp_path: Path,
    kind: str,
    has_pooler: bool,
    caplog: pytest.LogCaptureFixture,
) -> None:
    peer = make_peer(kind)
    peer.save_pretrained(tmp_path)
    with caplog.at_level(logging.INFO):
        ours = BertModel.from_pretrained(tmp_path)
    assert_same_numbers(ours, peer, has_pooler)
    assert "passed over" in caplog.text


# 存盘


def test_saving_leaves_other_files_alone(tmp_path: Path) -> None:
    mine = {"vocab.txt": b"[PAD]\n", "README.md": b"my own words"}
    for name, data in mine.items():
        (tmp_path / name).write_bytes(data)
    BertModel(CONFIG).save_pretrained(tmp_path)
    after = contents(tmp_path)
    assert after.keys() == {*mine, "config.json", "model.safetensors"}
    assert {name: after[name] for name in mine} == mine


def test_what_was_saved_last_is_what_is_loaded(tmp_path: Path) -> None:
    write_shards(tmp_path, make_peer())
    write_bin(tmp_path, make_peer())
    ours = BertModel(CONFIG)
    ours.save_pretrained(tmp_path)
    again = BertModel.from_pretrained(tmp_path)
    name = "pooler.dense.weight"
    assert torch.equal(ours.state_dict()[name], again.state_dict()[name])


@pytest.mark.parametrize("step", ["weights", "config", "card"])
def test_a_save_that_fails_half_way_leaves_the_old_model_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    def fail(*args: object, **kwargs: object) -> None:
        for argument in args:
            if isinstance(argument, Path):
                argument.write_bytes(b"half a file")
        raise OSError("no space left")

    directory = tmp_path / "model"
    BertModel(CONFIG).save_pretrained(directory)
    (directory / "README.md").unlink()
    before = contents(directory)
    if step == "weights":
        monkeypatch.setattr(tensor_file, "save_file", fail)
    elif step == "config":
        monkeypatch.setattr(BertConfig, "save", fail)
    else:
        monkeypatch.setattr(directory_module, "_model_card", fail)
    with pytest.raises(OSError, match="no space left"):
        BertModel(CONFIG).save_pretrained(directory)
    assert contents(directory) == before
    assert list(tmp_path.iterdir()) == [directory]


def test_a_model_does_not_take_the_place_of_a_file(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("mine")
    with pytest.raises(BertError, match=r"notes\.txt is a file"):
        BertModel(CONFIG).save_pretrained(path)
    assert path.read_text() == "mine"


# 拒绝：没有模型，别的形状，别的结构


def test_a_folder_without_a_model_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(BertError, match=r"no model directory .*gone"):
        BertModel.from_pretrained(tmp_path / "gone")
    with pytest.raises(BertError, match=r"no config\.json") as caught:
        BertModel.from_pretrained(tmp_path)
    assert str(tmp_path) in caught.value.message


@BOTH
@pytest.mark.parametrize(
    ("name", "shape", "expected"),
    [
        (WORDS, (21, 8), (20, 8)),
        ("bert.embeddings.position_embeddings.weight", (9, 8), (10, 8)),
        ("bert.encoder.layer.1.output.LayerNorm.weight", (9,), (8,)),
        ("bert.encoder.layer.1.intermediate.dense.weight", (8, 12), (12, 8)),
        ("bert.pooler.dense.weight", (4, 8), (8, 8)),
    ],
)
def test_another_shape_is_refused_with_tensor_and_both_shapes(
    tmp_path: Path,
    kind: ModelClass,
    name: str,
    shape: tuple[int, ...],
    expected: tuple[int, ...],
) -> None:
    write(tmp_path, {**tensors_of(make_peer()), name: torch.zeros(shape)})
    with pytest.raises(BertError, match=r"^Tensor ") as caught:
        kind.from_pretrained(tmp_path)
    for part in (str(list(shape)), str(list(expected)), str(tmp_path)):
        assert part in caught.value.message


def test_a_wrong_tensor_is_called_by_its_name_in_the_file(
    tmp_path: Path,
) -> None:
    tensors = {**tensors_of(make_peer()), WORDS: torch.zeros(21, 8)}
    with pytest.raises(BertError, match=r"embeddings\.word_embeddings\.weight"):
        BertModel.from_pretrained(write(tmp_path, tensors))
    del tensors[WORDS]
    with pytest.raises(BertError, match=r"embeddings\.word_embeddings\.weight"):
        BertModel.from_pretrained(write(tmp_path, tensors))


def test_another_shape_of_a_head_matters_only_with_the_head(
    tmp_path: Path,
) -> None:
    tensors = tensors_of(make_peer())
    tensors["cls.predictions.bias"] = torch.zeros(21)
    with pytest.raises(BertError, match=r"\[21\].*\[20\]"):
        BertForPreTraining.from_pretrained(write(tmp_path, tensors))
    assert_same_numbers(BertModel.from_pretrained(tmp_path), make_peer())


@pytest.mark.parametrize("shape", [(4, 8), (8, 9), ()])
def test_another_shape_of_a_projection_is_refused_with_both_shapes(
    tmp_path: Path, shape: tuple[int, ...]
) -> None:
    write(tmp_path, {**tensors_of(make_peer()), QUERY: torch.zeros(shape)})
    with pytest.raises(BertError) as caught:
        BertModel.from_pretrained(tmp_path)
    for part in ("attention.self.query", str(list(shape)), "[8, 8]"):
        assert part in caught.value.message


def test_projections_whose_heights_only_add_up_are_refused(
    tmp_path: Path,
) -> None:
    tensors = tensors_of(make_peer())
    tensors[QUERY] = torch.zeros(12, 8)
    tensors[QUERY.replace("query", "key")] = torch.zeros(4, 8)
    with pytest.raises(BertError, match="shape"):
        BertModel.from_pretrained(write(tmp_path, tensors))


def test_whole_number_weights_are_refused_by_name(tmp_path: Path) -> None:
    tensors = tensors_of(make_peer())
    name = "bert.pooler.dense.weight"
    tensors[name] = torch.zeros(8, 8, dtype=torch.int8)
    with pytest.raises(BertError, match=r"pooler.dense.weight.*int8"):
        BertModel.from_pretrained(write(tmp_path, tensors))


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"model_type": "roberta"}, "'roberta'"),
        ({"is_decoder": True}, "is_decoder=True"),
        ({"position_embedding_type": "relative_key"}, "relative_key"),
        ({"hidden_act": "silu"}, "'silu'"),
        ({"num_attention_heads": 3}, "num_attention_heads=3"),
        ({"hidden_size": 16}, "has shape"),
        ({"num_hidden_layers": 1}, "does not account for"),
        ({"num_hidden_layers": 3}, "lacks 1[26] tensors"),
    ],
)
@pytest.mark.parametrize("peer", ["BertModel", "BertForPreTraining"])
def test_another_architecture_is_refused_by_what_differs(
    tmp_path: Path, peer: str, change: dict[str, object], named: str
) -> None:
    write(tmp_path, tensors_of(make_peer(peer)))
    write_config(tmp_path, **change)
    with pytest.raises(BertError, match=named):
        BertModel.from_pretrained(tmp_path)


def test_weights_of_another_model_are_refused(tmp_path: Path) -> None:
    config = transformers.DistilBertConfig(
        vocab_size=20, dim=8, n_layers=2, n_heads=2, hidden_dim=12
    )
    peer = transformers.DistilBertModel(config)
    with pytest.raises(BertError, match=r"lacks|shape|does not account"):
        BertModel.from_pretrained(write(tmp_path, dict(peer.state_dict())))


@BOTH
@pytest.mark.parametrize(
    "name", ["layer.0.output.adapter.weight", "extra.weight"]
)
def test_unknown_tensors_inside_the_encoder_are_refused(
    tmp_path: Path, kind: ModelClass, name: str
) -> None:
    extra = {f"bert.encoder.{name}": torch.zeros(8)}
    write(tmp_path, {**tensors_of(make_peer()), **extra})
    with pytest.raises(BertError, match=name.split(".")[-2]):
        kind.from_pretrained(tmp_path)


def test_unknown_tensors_inside_attention_are_refused(tmp_path: Path) -> None:
    name = "bert.encoder.layer.0.attention.self.distance_embedding.weight"
    write(tmp_path, {**tensors_of(make_peer()), name: torch.zeros(19, 4)})
    with pytest.raises(BertError, match="distance_embedding"):
        BertModel.from_pretrained(tmp_path)


@BOTH
@pytest.mark.parametrize(
    ("name", "called"),
    [
        (WORDS, "embed"),
        ("bert.embeddings.LayerNorm.bias", "embed"),
        ("bert.encoder.layer.1.output.dense.bias", "encoder"),
        ("bert.encoder.layer.0.attention.output.LayerNorm.weight", "encoder"),
    ],
)
def test_a_missing_encoder_tensor_is_refused(
    tmp_path: Path, kind: ModelClass, name: str, called: str
) -> None:
    tensors = tensors_of(make_peer())
    del tensors[name]
    with pytest.raises(BertError, match=rf"lacks 1 tensor.*{called}") as caught:
        kind.from_pretrained(write(tmp_path, tensors))
    assert str(tmp_path) in caught.value.message


@pytest.mark.parametrize("part", ["query.weight", "key.bias", "value.weight"])
def test_a_missing_projection_is_reported_as_missing(
    tmp_path: Path, part: str
) -> None:
    tensors = tensors_of(make_peer())
    del tensors[f"bert.encoder.layer.0.attention.self.{part}"]
    with pytest.raises(BertError, match="lacks"):
        BertModel.from_pretrained(write(tmp_path, tensors))
