"""The span head: Hugging Face's numbers, in either layout of a batch."""

import math
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
import torch
import transformers
from torch import Tensor

from bert_from_scratch import BertConfig
from bert_from_scratch.data.batch import IGNORE_INDEX, Batch, pack, pad
from bert_from_scratch.finetune.labels import PART
from bert_from_scratch.finetune.qa_span import QuestionAnswerer, span_loss

from .outputs import outputs_of

CONFIG = BertConfig(
    vocab_size=40,
    hidden_size=32,
    num_hidden_layers=2,
    num_attention_heads=2,
    intermediate_size=48,
    max_position_embeddings=24,
    hidden_dropout_prob=0.0,
    attention_probs_dropout_prob=0.0,
)


@dataclass(frozen=True)
class Ids:
    input_ids: list[int]
    token_type_ids: list[int]


def make_sequences(lengths: list[int], seed: int = 0) -> list[Ids]:
    generator = np.random.default_rng(seed)
    return [
        Ids(generator.integers(5, 40, n).tolist(), [0] * 3 + [1] * (n - 3))
        for n in lengths
    ]


def with_labels(batch: Batch, starts: list[int], ends: list[int]) -> Batch:
    return replace(
        batch,
        start_positions=torch.tensor(starts),
        end_positions=torch.tensor(ends),
    )


def new_model() -> QuestionAnswerer:
    torch.manual_seed(0)
    model = QuestionAnswerer(CONFIG)
    # 放大头的权重：否则各处分数几乎相等，比较就没有意义
    torch.nn.init.normal_(model.qa_outputs.weight)
    return model


def test_uniform_scores_cost_the_log_of_the_length() -> None:
    logits = torch.zeros(2, 8, 2)
    logits[1, 4:] = -math.inf
    part = span_loss(logits, torch.tensor([3, 1]), torch.tensor([3, 2]))
    by_hand = math.log(8) + math.log(4)
    assert part.total.item() == pytest.approx(by_hand)
    assert part.count == 2


def test_right_means_both_ends_and_unlabelled_rows_do_not_count() -> None:
    logits = torch.zeros(4, 6, 2)
    logits[:, 2, 0] = logits[:, 4, 1] = 9.0
    starts = torch.tensor([2, 2, 1, IGNORE_INDEX])
    ends = torch.tensor([4, 5, 4, IGNORE_INDEX])
    part = span_loss(logits, starts, ends)
    assert (part.count.item(), part.correct.item()) == (3, 1)
    alone = span_loss(logits[:3], starts[:3], ends[:3])
    assert torch.equal(part.total, alone.total)


def peer_gradients(peer: torch.nn.Module, directory: Path) -> dict[str, Tensor]:
    """Returns their gradients under our names, by way of the files."""
    with torch.no_grad():
        for parameter in peer.parameters():
            assert parameter.grad is not None
            parameter.copy_(parameter.grad)
    peer.save_pretrained(directory)  # type: ignore[operator]
    model = QuestionAnswerer.from_pretrained(directory)
    return dict(model.state_dict())


def test_loss_and_gradients_are_those_of_hugging_face(tmp_path: Path) -> None:
    model = new_model()
    model.save_pretrained(tmp_path / "ours")
    peer, info = transformers.BertForQuestionAnswering.from_pretrained(
        tmp_path / "ours", output_loading_info=True
    )
    assert not any(info.values()), info
    batch = with_labels(
        pad(make_sequences([12] * 5)), [4, 0, 7, 11, 5], [6, 0, 7, 11, 9]
    )
    output = peer(
        input_ids=batch.input_ids,
        token_type_ids=batch.token_type_ids,
        start_positions=batch.start_positions,
        end_positions=batch.end_positions,
    )
    loss = model(batch).loss
    torch.testing.assert_close(loss, output.loss, atol=1e-5, rtol=0)
    loss.backward()
    output.loss.backward()
    expected = peer_gradients(peer, tmp_path / "gradients")
    actual = {k: p.grad for k, p in model.named_parameters()}
    torch.testing.assert_close(actual, expected, atol=1e-5, rtol=0)
    assert max(g.abs().max() for g in expected.values()) > 0.01


def test_their_directory_loads_and_gives_their_scores(tmp_path: Path) -> None:
    torch.manual_seed(1)
    theirs = transformers.BertConfig(**vars(CONFIG))
    peer = transformers.BertForQuestionAnswering(theirs).eval()
    peer.save_pretrained(tmp_path)
    model = QuestionAnswerer.from_pretrained(tmp_path)
    assert model.qa_outputs.weight.shape == (2, 32)
    batch = pad(make_sequences([9, 9]))
    output = peer(batch.input_ids, token_type_ids=batch.token_type_ids)
    expected = torch.stack([output.start_logits, output.end_logits], -1)
    torch.testing.assert_close(model.logits(batch), expected, atol=1e-5, rtol=0)


def test_packed_and_padded_batches_agree() -> None:
    model = new_model()
    sequences = make_sequences([12, 5, 24, 8], seed=2)
    starts, ends = [4, 0, 20, IGNORE_INDEX], [6, 0, 23, IGNORE_INDEX]
    packed = with_labels(pack(sequences), starts, ends)
    padded = with_labels(pad(sequences), starts, ends)
    a, b = model(packed).parts[PART], model(padded).parts[PART]
    torch.testing.assert_close(a.total, b.total, atol=1e-5, rtol=0)
    assert (a.count, a.correct) == (b.count, b.correct)
    assert model.count_labels(packed)[PART] == a.count == 3
    gradients = [
        torch.autograd.grad(part.total, list(model.parameters()))
        for part in (a, b)
    ]
    torch.testing.assert_close(*gradients, atol=1e-5, rtol=1e-6)
    outputs = zip(
        outputs_of(model, packed), outputs_of(model, padded), strict=True
    )
    for (ours, others), sequence in zip(outputs, sequences, strict=True):
        assert ours.shape == (len(sequence.input_ids), 2)
        np.testing.assert_allclose(ours, others, atol=1e-5)


def test_outputs_without_padding_are_one_row_a_sequence() -> None:
    model = new_model()
    sequences = make_sequences([7, 7])
    padded, packed = (
        outputs_of(model, pad(sequences)),
        outputs_of(model, pack(sequences)),
    )
    np.testing.assert_allclose(padded, packed, atol=1e-5)
    assert padded[0].dtype == np.float32


def test_neighbours_in_a_packed_batch_do_not_change_the_loss() -> None:
    model = new_model()
    first, second = make_sequences([12, 20])
    alone = model(with_labels(pack([first]), [4], [6]))
    ignored = [4, IGNORE_INDEX], [6, IGNORE_INDEX]
    both = model(with_labels(pack([first, second]), *ignored))
    torch.testing.assert_close(alone.loss, both.loss)


def test_the_loss_is_float32_in_half_precision() -> None:
    model = new_model()
    batch = with_labels(pack(make_sequences([12, 9])), [4, 3], [6, 3])
    expected = model(batch).loss
    with torch.autocast("cpu", torch.bfloat16):
        assert model(batch).loss.dtype == torch.float32
    model.to(torch.bfloat16)
    loss = model(batch).loss
    assert loss.dtype == torch.float32
    assert outputs_of(model, batch)[0].dtype == np.float32
    torch.testing.assert_close(loss, expected, atol=0.1, rtol=0.05)
