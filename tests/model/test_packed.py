"""Packed and padded batches give the same numbers; so do both attentions."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from bert_from_scratch import BertConfig, BertError, BertForPreTraining
from bert_from_scratch import BertModel as Bert
from bert_from_scratch.data.batch import IGNORE_INDEX, Batch, pack, pad
from bert_from_scratch.model import Packed, Padded, TransformerBlock
from bert_from_scratch.model.attention import _attend_varlen
from bert_from_scratch.tokenizer import Encoding

CONFIG = BertConfig(
    vocab_size=60,
    hidden_size=48,
    num_hidden_layers=3,
    num_attention_heads=4,
    intermediate_size=70,
    max_position_embeddings=32,
    hidden_dropout_prob=0.0,
    attention_probs_dropout_prob=0.0,
)


def make_sequences(lengths: list[int], seed: int) -> list[Encoding]:
    generator = torch.Generator().manual_seed(seed)
    sequences = []
    for length in lengths:
        ids = torch.randint(5, 60, (length,), generator=generator).tolist()
        half = length // 2
        types = [0] * half + [1] * (length - half)
        blank: list[int] = [1] * length
        sequences.append(Encoding([], ids, types, blank, [], []))
    return sequences


def add_labels(batch: Batch, lengths: list[int], seed: int) -> Batch:
    """Labels the same tokens of the same sequences in either layout."""
    generator = torch.Generator().manual_seed(seed)
    positions, labels = [], []
    start = 0
    for row, length in enumerate(lengths):
        for column in range(length):
            if torch.rand((), generator=generator) < 0.4:
                packed = batch.cu_seqlens is not None
                offset = start if packed else row * batch.max_seqlen
                positions.append(offset + column)
                labels.append((row * 7 + column) % 60)
        start += length
    # 末尾留两个不用的预测位，它们不得影响损失
    positions += [0, 0]
    labels += [IGNORE_INDEX, IGNORE_INDEX]
    nsp = torch.arange(len(lengths)) % 2
    return Batch(
        **{
            **vars(batch),
            "mlm_positions": torch.tensor(positions),
            "mlm_labels": torch.tensor(labels),
            "nsp_labels": nsp,
        }
    )


def gradients(model: BertForPreTraining) -> dict[str, Tensor]:
    found = {
        name: parameter.grad.clone()
        for name, parameter in model.named_parameters()
        if parameter.grad is not None
    }
    model.zero_grad()
    return found


@settings(max_examples=30, deadline=None)
@given(
    lengths=st.lists(st.integers(1, 32), min_size=1, max_size=6),
    seed=st.integers(0, 10**6),
)
def test_outputs_losses_and_gradients_are_those_of_padded_rows(
    lengths: list[int], seed: int
) -> None:
    torch.manual_seed(seed)
    model = BertForPreTraining(CONFIG)
    sequences = make_sequences(lengths, seed)
    packed = add_labels(pack(sequences), lengths, seed)
    padded = add_labels(pad(sequences), lengths, seed)

    a = model.bert(**packed.inputs())
    b = model.bert(**padded.inputs())
    real = torch.arange(padded.max_seqlen) < torch.tensor(lengths)[:, None]
    torch.testing.assert_close(
        a.hidden_state, b.hidden_state[real], atol=1e-5, rtol=0
    )
    torch.testing.assert_close(a.pooled, b.pooled, atol=1e-5, rtol=0)

    step_a, step_b = model(packed), model(padded)
    torch.testing.assert_close(step_a.loss, step_b.loss, atol=1e-5, rtol=0)
    assert step_a.parts.keys() == {"mlm", "nsp"}
    for name, part in step_a.parts.items():
        other = step_b.parts[name]
        torch.testing.assert_close(part.mean, other.mean, atol=1e-5, rtol=0)
        assert part.count == other.count
    step_a.loss.backward()
    of_packed = gradients(model)
    step_b.loss.backward()
    torch.testing.assert_close(of_packed, gradients(model), atol=1e-5, rtol=0)


def test_packed_sequences_do_not_see_each_other() -> None:
    model = Bert(CONFIG).eval()
    first, second, other = make_sequences([9, 12, 12], seed=1)
    alone = model(**pack([first]).inputs()).hidden_state
    with_second = model(**pack([first, second]).inputs()).hidden_state
    with_other = model(**pack([first, other]).inputs()).hidden_state
    torch.testing.assert_close(with_second[:9], alone)
    assert torch.equal(with_second[:9], with_other[:9])


def test_the_order_of_sequences_does_not_matter() -> None:
    model = Bert(CONFIG).eval()
    first, second = make_sequences([9, 12], seed=2)
    ab = model(**pack([first, second]).inputs())
    ba = model(**pack([second, first]).inputs())
    torch.testing.assert_close(ab.pooled, ba.pooled.flip(0))


def test_positions_are_counted_anew_in_every_packed_sequence() -> None:
    model = Bert(CONFIG).eval()
    batch = pack(make_sequences([4, 3, 1], seed=3))
    assert batch.position_ids.tolist() == [0, 1, 2, 3, 0, 1, 2, 0]
    given_positions = model(**batch.inputs()).hidden_state
    counted = model(**{**batch.inputs(), "position_ids": None}).hidden_state
    assert torch.equal(given_positions, counted)


@pytest.mark.parametrize("packed", [True, False])
def test_explicit_weights_reproduce_the_fused_kernel(packed: bool) -> None:
    torch.manual_seed(0)
    model = Bert(CONFIG).eval()
    sequences = make_sequences([7, 11, 3], seed=4)
    batch = pack(sequences) if packed else pad(sequences)
    x, layout = model.embed(**batch.inputs())
    first_block = model.encoder.blocks[0]
    assert isinstance(first_block, TransformerBlock)
    attention = first_block.attention
    weights = attention.weights(x, layout)
    assert weights.shape == (3, 4, 11, 11)
    torch.testing.assert_close(weights.sum(-1), torch.ones(3, 4, 11))
    # 填充位置得不到任何注意力
    assert weights[2, :, :, 3:].abs().max() == 0

    rows = torch.zeros(3, 11, 48)
    real = torch.arange(11) < torch.tensor([7, 11, 3])[:, None]
    rows[real] = x if packed else x[real]
    value = attention.qkv(rows)[..., 96:].unflatten(-1, (4, 12))
    mixed = torch.einsum("bnqk,bknd->bqnd", weights, value).flatten(-2)
    expected = attention.output(mixed)[real]
    fused = attention(x, layout)
    actual = fused if packed else fused[real]
    torch.testing.assert_close(actual, expected, atol=1e-6, rtol=1e-5)


def test_attention_dropout_acts_in_training_only() -> None:
    config = BertConfig(**{**vars(CONFIG), "attention_probs_dropout_prob": 0.5})
    model = Bert(config)
    batch = pack(make_sequences([8, 8], seed=5))
    torch.manual_seed(0)
    once, twice = (model(**batch.inputs()).pooled for _ in range(2))
    assert not torch.equal(once, twice)
    model.eval()
    once, twice = (model(**batch.inputs()).pooled for _ in range(2))
    assert torch.equal(once, twice)


def test_layouts_find_first_tokens_and_owners() -> None:
    packed = Packed(torch.tensor([0, 3, 3, 5], dtype=torch.int32), 3)
    assert packed.lengths.tolist() == [3, 0, 2]
    assert packed.sequence_ids(5).tolist() == [0, 0, 0, 2, 2]
    assert packed.position_ids(5).tolist() == [0, 1, 2, 0, 1]
    x = torch.arange(12).reshape(2, 3, 2)
    assert torch.equal(Padded().first_tokens(x), x[:, 0])


@pytest.mark.parametrize(
    ("ids", "message"),
    [
        (torch.tensor([[1, 60]]), "input_ids holds 60, outside 0 ... 59"),
        (torch.tensor([[1, -3]]), "input_ids holds -3"),
        (torch.ones(1, 33, dtype=torch.long), "33 tokens is too long"),
    ],
)
def test_ids_and_lengths_out_of_range_are_named(
    ids: Tensor, message: str
) -> None:
    with pytest.raises(BertError, match=message):
        Bert(CONFIG)(ids)


def test_a_packed_sequence_over_the_position_table_is_refused() -> None:
    with pytest.raises(BertError, match="max_position_embeddings=32"):
        Bert(CONFIG)(**pack(make_sequences([4, 33], seed=6)).inputs())


def test_a_segment_out_of_range_is_named() -> None:
    ids = torch.ones(1, 2, dtype=torch.long)
    with pytest.raises(BertError, match="token_type_ids holds 2"):
        Bert(CONFIG)(ids, torch.tensor([[0, 2]]))


def test_arguments_that_contradict_each_other_are_refused() -> None:
    ids = torch.ones(4, dtype=torch.long)
    starts = torch.tensor([0, 4], dtype=torch.int32)
    with pytest.raises(ValueError, match="cu_seqlens"):
        Bert(CONFIG)(ids)
    with pytest.raises(ValueError, match="no attention_mask"):
        Bert(CONFIG)(ids, cu_seqlens=starts, attention_mask=ids)
    with pytest.raises(ValueError, match="must be"):
        Bert(CONFIG)(ids[None], cu_seqlens=starts)


@pytest.mark.gpu
@pytest.mark.parametrize("dropout", [0.0, 0.1])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_gpu_paths_agree_with_the_cpu(
    dtype: torch.dtype, dropout: float
) -> None:
    if not torch.cuda.is_available():
        pytest.skip("needs a CUDA device")
    config = BertConfig(
        **{
            **vars(CONFIG),
            "hidden_size": 64,
            "attention_probs_dropout_prob": dropout,
        }
    )
    model = Bert(config).eval()
    batch = pack(make_sequences([7, 32, 3, 20], seed=7))
    expected = model(**batch.inputs()).hidden_state
    model = model.to("cuda", dtype)
    actual = model(**batch.to("cuda").inputs()).hidden_state
    tolerance = 1e-4 if dtype == torch.float32 else 5e-2
    torch.testing.assert_close(
        actual.float().cpu(), expected, atol=tolerance, rtol=tolerance
    )


@pytest.mark.gpu
def test_the_packed_kernel_drops_single_attention_weights() -> None:
    if not torch.cuda.is_available():
        pytest.skip("needs a CUDA device")
    length, width = 64, 64
    query, key = torch.randn(2, 4 * length, 1, width, device="cuda").bfloat16()
    # 以单位阵为值：输出就是（丢弃之后的）注意力权重本身
    value = torch.eye(length, device="cuda").repeat(4, 1)[:, None].bfloat16()
    starts = torch.arange(5, device="cuda", dtype=torch.int32) * length
    layout = Packed(starts, length)
    torch.manual_seed(0)
    kept = _attend_varlen(query, key, value, layout, 0.0).float()
    dropped = _attend_varlen(query, key, value, layout, 0.25).float()
    is_zero = dropped == 0
    assert is_zero.float().mean().item() == pytest.approx(0.25, abs=0.03)
    torch.testing.assert_close(
        dropped[~is_zero], kept[~is_zero] / 0.75, atol=1e-2, rtol=2e-2
    )
    torch.manual_seed(1)
    again = _attend_varlen(query, key, value, layout, 0.25)
    torch.manual_seed(1)
    assert again.equal(_attend_varlen(query, key, value, layout, 0.25))
