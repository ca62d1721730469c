"""Only what is asked for: the last block at some places equals all of it."""

import pytest
import torch

from bert_from_scratch import BertConfig, BertForPreTraining, BertModel
from bert_from_scratch.data.batch import Batch

CONFIG = BertConfig(
    vocab_size=50,
    hidden_size=32,
    num_hidden_layers=3,
    num_attention_heads=2,
    intermediate_size=64,
    max_position_embeddings=16,
    hidden_dropout_prob=0.0,
    attention_probs_dropout_prob=0.0,
)
PACKED = {
    "input_ids": torch.arange(5, 29),
    "cu_seqlens": torch.tensor([0, 9, 10, 24], dtype=torch.int32),
    "max_seqlen": 14,
}
PADDED = {
    "input_ids": torch.arange(5, 29).view(3, 8),
    "attention_mask": torch.tensor([[1] * 8, [1] * 5 + [0] * 3, [1] * 8]),
}
PLACES = torch.tensor([1, 3, 11, 22, 0, 0])


@pytest.mark.parametrize("inputs", [PACKED, PADDED], ids=["packed", "padded"])
@pytest.mark.parametrize("recomputes", [False, True])
def test_states_and_gradients_at_places_equal_those_of_all(
    inputs: dict[str, torch.Tensor], recomputes: bool
) -> None:
    torch.manual_seed(0)
    model = BertModel(CONFIG)
    model.encoder.recomputes = recomputes
    model.train()
    weights = torch.randn(len(PLACES), CONFIG.hidden_size)
    results = []
    for places in (None, PLACES):
        model.zero_grad()
        output = model(**inputs, places=places)
        states = output.hidden_state
        if places is None:
            states = states.reshape(-1, CONFIG.hidden_size)[PLACES]
        ((states * weights).sum() + output.pooled.square().sum()).backward()
        gradients = [p.grad for p in model.parameters()]
        results.append([states, output.pooled, *gradients])
    for whole, part in zip(*results, strict=True):
        torch.testing.assert_close(part, whole, atol=1e-5, rtol=1e-4)


def test_the_loss_is_that_of_logits_at_all_positions() -> None:
    torch.manual_seed(0)
    model = BertForPreTraining(CONFIG).eval()
    ids = PADDED["input_ids"]
    positions = torch.tensor([2, 9, 17])
    batch = Batch(
        input_ids=ids,
        token_type_ids=torch.zeros_like(ids),
        position_ids=torch.arange(8).expand(3, 8),
        attention_mask=PADDED["attention_mask"],
        mlm_positions=positions,
        mlm_labels=torch.tensor([7, 8, 9]),
        nsp_labels=torch.tensor([0, 1, 1]),
    )
    output = model(batch)
    states = model.bert(**batch.inputs())
    logits = model.mlm_logits(states.hidden_state, positions)
    expected = torch.nn.functional.cross_entropy(
        logits, torch.tensor([7, 8, 9]), reduction="sum"
    )
    torch.testing.assert_close(output.parts["mlm"].total, expected)
    scores = model.nsp_head(states.pooled)
    expected = torch.nn.functional.cross_entropy(
        scores, torch.tensor([0, 1, 1]), reduction="sum"
    )
    torch.testing.assert_close(output.parts["nsp"].total, expected)


def test_the_last_block_computes_nothing_else() -> None:
    model = BertModel(CONFIG).eval()
    seen: list[torch.Size] = []
    last = model.encoder.blocks[-1].get_submodule("feed_forward")
    last.register_forward_hook(
        lambda _module, _args, result: seen.append(result.shape)
    )
    model(**PACKED, places=PLACES)
    # 六个位置，加上三条序列的 [CLS]
    assert seen == [torch.Size([9, CONFIG.hidden_size])]


def test_half_precision_goes_through_the_whole_residual_stream() -> None:
    model = BertModel(CONFIG)
    types: list[torch.dtype] = []
    for block in model.encoder.blocks:
        block.register_forward_hook(
            lambda _module, _args, result: types.append(result.dtype)
        )
    with torch.autocast("cpu", torch.bfloat16):
        half = model(**PADDED).hidden_state
    assert types == [torch.bfloat16] * CONFIG.num_hidden_layers
    whole = model(**PADDED).hidden_state
    assert whole.dtype == torch.float32
    error = (half.float() - whole).norm() / whole.norm()
    assert 0 < error < 0.02
