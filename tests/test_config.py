"""A config is right or refused by name, and is Hugging Face's on disk."""

import json
import math
from dataclasses import FrozenInstanceError, asdict
from pathlib import Path
from typing import Any

import pytest
import transformers

from bert_from_scratch.config import ACTIVATIONS, BertConfig, read_json
from bert_from_scratch.errors import BertError

SIZES = [
    "vocab_size",
    "hidden_size",
    "num_hidden_layers",
    "num_attention_heads",
    "intermediate_size",
    "max_position_embeddings",
    "type_vocab_size",
]
SMALL = BertConfig(
    vocab_size=100,
    hidden_size=24,
    num_hidden_layers=3,
    num_attention_heads=4,
    intermediate_size=40,
    hidden_act="gelu_new",
    hidden_dropout_prob=0.2,
    attention_probs_dropout_prob=0.0,
    max_position_embeddings=33,
    type_vocab_size=3,
    initializer_range=0.03,
    layer_norm_eps=1e-7,
    pad_token_id=9,
)


def write(folder: Path, content: str | bytes) -> Path:
    path = folder / "config.json"
    data = content.encode() if isinstance(content, str) else content
    path.write_bytes(data)
    return path


def test_the_defaults_are_bert_base() -> None:
    theirs = transformers.BertConfig().to_dict()
    ours = asdict(BertConfig())
    assert ours == {name: theirs[name] for name in ours}


@pytest.mark.parametrize(
    ("name", "layers", "hidden", "heads", "intermediate"),
    [
        ("tiny", 2, 128, 2, 512),
        ("mini", 4, 256, 4, 1024),
        ("small", 4, 512, 8, 2048),
        ("medium", 8, 512, 8, 2048),
        ("base", 12, 768, 12, 3072),
        ("large", 24, 1024, 16, 4096),
    ],
)
def test_presets_are_googles_sizes(
    name: str, layers: int, hidden: int, heads: int, intermediate: int
) -> None:
    config = BertConfig.preset(name)
    assert config.num_hidden_layers == layers
    assert config.hidden_size == hidden
    assert config.num_attention_heads == heads
    assert config.intermediate_size == intermediate
    assert config.head_size == 64


def test_a_preset_takes_other_fields() -> None:
    config = BertConfig.preset("tiny", vocab_size=77, intermediate_size=9)
    assert (config.vocab_size, config.intermediate_size) == (77, 9)
    assert config.hidden_size == 128


def test_an_unknown_preset_is_an_error_that_lists_them() -> None:
    with pytest.raises(BertError, match="'huge'") as caught:
        BertConfig.preset("huge")
    assert caught.value.hint is not None
    assert "tiny, mini, small, medium, base, large" in caught.value.hint


def test_sizes_that_do_not_divide_are_refused_with_both_numbers() -> None:
    with pytest.raises(BertError) as caught:
        BertConfig(hidden_size=100, num_attention_heads=12)
    assert "hidden_size=100" in caught.value.message
    assert "num_attention_heads=12" in caught.value.message
    assert caught.value.hint is not None


@pytest.mark.parametrize("name", SIZES)
@pytest.mark.parametrize("size", [0, -3])
def test_a_size_below_one_is_refused_by_name(name: str, size: int) -> None:
    with pytest.raises(BertError, match=rf"^{name} .* got {size}\."):
        BertConfig.from_dict({name: size})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *[(name, "12") for name in SIZES],
        ("hidden_size", 768.0),
        ("hidden_size", True),
        ("hidden_size", None),
        ("hidden_act", 3),
        ("layer_norm_eps", "1e-12"),
        ("hidden_dropout_prob", False),
        ("initializer_range", None),
        ("pad_token_id", "0"),
    ],
)
def test_a_value_of_another_type_is_refused_by_name(
    name: str, value: object
) -> None:
    with pytest.raises(BertError) as caught:
        BertConfig.from_dict({name: value})
    assert caught.value.message.startswith(f"{name} must be of type ")
    assert repr(value) in caught.value.message


def test_a_bad_padding_id_is_told_the_type_it_needs() -> None:
    with pytest.raises(BertError, match="of type int"):
        BertConfig.from_dict({"pad_token_id": "0"})


def test_whole_numbers_serve_where_floats_are_asked_for() -> None:
    config = BertConfig(hidden_dropout_prob=0, attention_probs_dropout_prob=0)
    assert config.hidden_dropout_prob == 0


@pytest.mark.parametrize(
    "name", ["hidden_dropout_prob", "attention_probs_dropout_prob"]
)
@pytest.mark.parametrize("value", [-0.1, 1.0, 1.5, math.nan, math.inf])
def test_a_dropout_outside_zero_to_one_is_refused(
    name: str, value: float
) -> None:
    with pytest.raises(BertError, match=name):
        BertConfig.from_dict({name: value})


@pytest.mark.parametrize("name", ["layer_norm_eps", "initializer_range"])
@pytest.mark.parametrize("value", [-0.02, math.nan, math.inf])
def test_a_negative_or_endless_scale_is_refused(
    name: str, value: float
) -> None:
    with pytest.raises(BertError, match=name):
        BertConfig.from_dict({name: value})


@pytest.mark.parametrize("pad_token_id", [-1, 30522])
def test_a_padding_id_outside_the_vocabulary_is_refused(
    pad_token_id: int,
) -> None:
    with pytest.raises(
        BertError, match=rf"pad_token_id={pad_token_id} .*30522"
    ):
        BertConfig(pad_token_id=pad_token_id)


def test_there_may_be_no_padding_id() -> None:
    assert BertConfig(pad_token_id=None).pad_token_id is None


def test_an_unknown_activation_is_an_error_that_lists_them() -> None:
    with pytest.raises(BertError, match="'swish'") as caught:
        BertConfig(hidden_act="swish")
    assert caught.value.hint is not None
    assert all(name in caught.value.hint for name in ACTIVATIONS)


@pytest.mark.parametrize(
    ("key", "meant"),
    [("num_layers", None), ("hidden_sise", "hidden_size"), ("colour", None)],
)
def test_an_unknown_key_is_an_error_and_a_slip_is_understood(
    key: str, meant: str | None
) -> None:
    with pytest.raises(BertError, match=repr(key)) as caught:
        BertConfig.from_dict({"vocab_size": 10, key: 1})
    if meant:
        assert caught.value.hint == f"did you mean {meant}?"


def test_a_config_cannot_be_changed() -> None:
    with pytest.raises(FrozenInstanceError):
        SMALL.vocab_size = 5  # type: ignore[misc]


# 磁盘上的格式


def test_a_config_survives_the_disk(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    SMALL.save(path, "BertModel")
    assert BertConfig.load(path) == SMALL
    assert json.loads(path.read_text())["architectures"] == ["BertModel"]


def test_hugging_face_reads_our_config_and_we_read_theirs(
    tmp_path: Path,
) -> None:
    SMALL.save(tmp_path / "config.json", "BertModel")
    theirs = transformers.BertConfig.from_pretrained(tmp_path)
    ours = asdict(SMALL)
    assert {name: getattr(theirs, name) for name in ours} == ours
    theirs.save_pretrained(tmp_path / "theirs")
    assert BertConfig.load(tmp_path / "theirs" / "config.json") == SMALL


def test_a_file_of_our_keys_alone_is_read_strictly(tmp_path: Path) -> None:
    path = write(tmp_path, '{"hidden_size": 24, "num_attention_heads": 3}')
    config = BertConfig.load(path)
    assert (config.hidden_size, config.head_size) == (24, 8)
    path = write(tmp_path, '{"hidden_size": 24, "heads": 3}')
    with pytest.raises(BertError, match="'heads'"):
        BertConfig.load(path)


@pytest.mark.parametrize(
    "mark", [{"model_type": "bert"}, {"architectures": ["BertModel"]}]
)
def test_keys_of_hugging_face_that_change_nothing_are_passed_over(
    tmp_path: Path, mark: dict[str, Any]
) -> None:
    values = {**mark, "vocab_size": 50, "use_cache": True, "id2label": {}}
    path = write(tmp_path, json.dumps(values))
    assert BertConfig.load(path) == BertConfig(vocab_size=50)


@pytest.mark.parametrize("model_type", ["roberta", "distilbert", "electra"])
def test_other_models_are_refused_by_name(model_type: str) -> None:
    with pytest.raises(BertError, match=f"'{model_type}', not a BERT"):
        BertConfig.from_hugging_face({"model_type": model_type})


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("is_decoder", True),
        ("add_cross_attention", True),
        ("position_embedding_type", "relative_key"),
        ("tie_word_embeddings", False),
    ],
)
def test_a_bert_that_computes_something_else_is_refused(
    key: str, value: object
) -> None:
    with pytest.raises(BertError, match=f"{key}={value!r}"):
        BertConfig.from_hugging_face({"model_type": "bert", key: value})


@pytest.mark.parametrize(
    "content",
    ["", "{", '{"vocab_size": }', b"\xff\xfe{}", "[1, 2]", "3", "null"],
)
def test_a_file_that_is_no_json_object_is_refused_by_name(
    tmp_path: Path, content: str | bytes
) -> None:
    path = write(tmp_path, content)
    with pytest.raises(BertError) as caught:
        BertConfig.load(path)
    assert str(path) in caught.value.message
    assert "JSON" in caught.value.message


def test_a_missing_file_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(BertError, match=r"no file .*config\.json"):
        BertConfig.load(tmp_path / "config.json")


def test_a_folder_in_place_of_a_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BertError, match="directory"):
        read_json(tmp_path)
