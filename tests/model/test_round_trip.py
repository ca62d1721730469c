"""Directories go to Hugging Face and back without a changed bit."""

from pathlib import Path

import pytest
import torch
import transformers

from bert_from_scratch import BertConfig, BertForPreTraining, BertModel

ModelClass = type[BertModel] | type[BertForPreTraining]


def assert_same_bits(a: torch.nn.Module, b: torch.nn.Module) -> None:
    ours, theirs = a.state_dict(), b.state_dict()
    assert ours.keys() == theirs.keys()
    for name, tensor in ours.items():
        assert torch.equal(tensor, theirs[name]), name


@pytest.mark.parametrize("model_class", [BertModel, BertForPreTraining])
def test_ours_saved_is_ours_loaded_and_theirs(
    tmp_path: Path, model_class: ModelClass
) -> None:
    config = BertConfig.preset("tiny", vocab_size=60, hidden_act="gelu_new")
    model = model_class(config).eval()
    model.save_pretrained(tmp_path / "ours")
    again = model_class.from_pretrained(tmp_path / "ours")
    assert again.config == config
    assert_same_bits(model, again)

    peer_class = getattr(transformers, model_class.__name__)
    peer, info = peer_class.from_pretrained(
        tmp_path / "ours", output_loading_info=True
    )
    assert not any(info.values()), info
    peer.save_pretrained(tmp_path / "theirs")
    assert_same_bits(model, model_class.from_pretrained(tmp_path / "theirs"))
    auto = transformers.AutoModel.from_pretrained(tmp_path / "ours")
    assert isinstance(auto, transformers.BertModel)


def test_their_masked_lm_loads_without_pooler_and_nsp_head(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    config = transformers.BertConfig(
        vocab_size=60,
        hidden_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=40,
    )
    peer = transformers.BertForMaskedLM(config).eval()
    peer.save_pretrained(tmp_path)
    model = BertForPreTraining.from_pretrained(tmp_path)
    assert "bert.pooler, nsp_head" in caplog.text
    assert all(p.isfinite().all() for p in model.parameters())
    ids = torch.tensor([[2, 5, 9, 3]])
    hidden_state = model.bert(ids).hidden_state
    torch.testing.assert_close(
        model.mlm_logits(hidden_state, torch.arange(4)), peer(ids).logits[0]
    )


@pytest.mark.slow
def test_real_weights_survive_the_round_trip(
    tmp_path: Path, minilm_dir: Path, antiberty_dir: Path
) -> None:
    sentence_encoder = BertModel.from_pretrained(minilm_dir)
    sentence_encoder.save_pretrained(tmp_path / "minilm")
    assert_same_bits(
        sentence_encoder, BertModel.from_pretrained(tmp_path / "minilm")
    )
    assert_same_bits(
        transformers.BertModel.from_pretrained(minilm_dir),
        transformers.BertModel.from_pretrained(tmp_path / "minilm"),
    )
    masked_lm = BertForPreTraining.from_pretrained(antiberty_dir)
    masked_lm.save_pretrained(tmp_path / "antiberty")
    assert_same_bits(
        masked_lm, BertForPreTraining.from_pretrained(tmp_path / "antiberty")
    )
    assert_same_bits(
        transformers.BertForMaskedLM.from_pretrained(antiberty_dir),
        transformers.BertForMaskedLM.from_pretrained(tmp_path / "antiberty"),
    )
