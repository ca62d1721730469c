from pathlib import Path

import pytest
import torch

from bert_from_scratch import BertConfig, BertError, BertModel
from bert_from_scratch.model import inference
from bert_from_scratch.model.inference import (
    choose_batch_tokens,
    choose_precision,
    for_inference,
)

CONFIG = BertConfig.preset("tiny", vocab_size=50)
IDS = torch.arange(7)[None]


@pytest.mark.parametrize("has_onednn", [True, False])
def test_the_form_for_inference_gives_the_same_numbers(
    monkeypatch: pytest.MonkeyPatch, has_onednn: bool
) -> None:
    monkeypatch.setattr(inference, "onednn_is_faster", lambda: has_onednn)
    model = BertModel(CONFIG).eval()
    with torch.inference_mode():
        expected = model(IDS).hidden_state
        found = for_inference(model)(IDS).hidden_state
    torch.testing.assert_close(found, expected)
    weight = model.get_parameter("encoder.blocks.0.attention.qkv.weight")
    # MKL 要按列的权重，oneDNN 要按行的
    assert weight.is_contiguous() == has_onednn


def test_it_is_saved_as_it_was(tmp_path: Path) -> None:
    model = BertModel(CONFIG)
    expected = {k: v.clone() for k, v in model.state_dict().items()}
    for_inference(model).save_pretrained(tmp_path / "model")
    found = BertModel.from_pretrained(tmp_path / "model").state_dict()
    for name, tensor in expected.items():
        assert torch.equal(found[name], tensor), name


def test_half_precision_changes_numbers_a_little_and_halves_the_weights() -> (
    None
):
    torch.manual_seed(0)
    model = BertModel(CONFIG).eval()
    size = sum(p.numel() * p.element_size() for p in model.parameters())
    with torch.inference_mode():
        expected = model(IDS).hidden_state
        found = for_inference(model, "bf16")(IDS).hidden_state
    assert found.dtype == torch.bfloat16
    difference = (found.float() - expected).abs().max().item()
    assert 0 < difference < 0.05
    halved = sum(p.numel() * p.element_size() for p in model.parameters())
    assert halved == size // 2


@pytest.mark.parametrize(
    ("device", "has_bf16", "expected"),
    [("cpu", True, "fp32"), ("cuda", True, "bf16"), ("cuda", False, "fp32")],
    ids=["cpu", "gpu", "old gpu"],
)
def test_auto_is_bf16_only_on_a_gpu_that_has_it(
    monkeypatch: pytest.MonkeyPatch, device: str, has_bf16: bool, expected: str
) -> None:
    def is_bf16_supported(including_emulation: bool = True) -> bool:
        return has_bf16 or including_emulation

    monkeypatch.setattr(torch.cuda, "is_bf16_supported", is_bf16_supported)
    assert choose_precision("auto", torch.device(device)) == expected
    for given in ("fp32", "bf16"):
        assert choose_precision(given, torch.device(device)) == given


def test_an_unknown_precision_is_refused_with_the_known_ones() -> None:
    with pytest.raises(BertError, match="Unknown precision 'fp8'") as error:
        choose_precision("fp8", torch.device("cpu"))
    assert error.value.hint == "use one of auto, fp32, bf16"


def test_a_gpu_takes_more_tokens_at_once_unless_told() -> None:
    cpu, gpu = torch.device("cpu"), torch.device("cuda")
    assert choose_batch_tokens(None, cpu) == 8192
    assert choose_batch_tokens(None, gpu) == 65536
    assert choose_batch_tokens(7, cpu) == choose_batch_tokens(7, gpu) == 7
