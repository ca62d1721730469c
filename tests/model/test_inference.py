from pathlib import Path

import torch

from bert_from_scratch import BertConfig, BertModel
from bert_from_scratch.model.inference import for_inference

CONFIG = BertConfig.preset("tiny", vocab_size=50)
IDS = torch.arange(7)[None]


def test_the_form_for_inference_gives_the_same_numbers() -> None:
    model = BertModel(CONFIG).eval()
    with torch.inference_mode():
        expected = model(IDS).hidden_state
        found = for_inference(model)(IDS).hidden_state
    torch.testing.assert_close(found, expected)
    weight = model.get_parameter("encoder.blocks.0.attention.qkv.weight")
    assert not weight.is_contiguous()


def test_it_is_saved_as_it_was(tmp_path: Path) -> None:
    model = BertModel(CONFIG)
    expected = {k: v.clone() for k, v in model.state_dict().items()}
    for_inference(model).save_pretrained(tmp_path / "model")
    found = BertModel.from_pretrained(tmp_path / "model").state_dict()
    for name, tensor in expected.items():
        assert torch.equal(found[name], tensor), name
