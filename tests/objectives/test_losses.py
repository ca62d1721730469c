"""Losses: numbers worked out by hand, and the traps others fell into."""

import math

import pytest
import torch

from bert_from_scratch import BertConfig, BertError, BertForPreTraining
from bert_from_scratch.data.batch import IGNORE_INDEX, Batch
from bert_from_scratch.objectives import MaskedLMLoss, NSPLoss

LABELS = torch.tensor([[3, IGNORE_INDEX, 0, IGNORE_INDEX]])


def test_uniform_scores_cost_log_of_vocab_size() -> None:
    loss = MaskedLMLoss()(torch.zeros(1, 4, 10), LABELS).mean
    assert loss.item() == pytest.approx(math.log(10))


def test_unlabelled_positions_do_not_change_the_loss() -> None:
    logits = torch.randn(1, 4, 10)
    loss = MaskedLMLoss()(logits, LABELS).mean
    wilder = logits.clone()
    wilder[:, [1, 3]] = 1000 * torch.randn(2, 10)
    assert torch.equal(MaskedLMLoss()(wilder, LABELS).mean, loss)


def test_padding_slots_do_not_change_the_loss() -> None:
    logits = torch.randn(1, 4, 10)
    more_logits = torch.cat([logits, torch.randn(1, 30, 10)], dim=1)
    padding = torch.full((1, 30), IGNORE_INDEX)
    more_labels = torch.cat([LABELS, padding], dim=1)
    torch.testing.assert_close(
        MaskedLMLoss()(more_logits, more_labels).mean,
        MaskedLMLoss()(logits, LABELS).mean,
    )


def test_a_batch_without_hidden_tokens_costs_nothing_and_is_no_nan() -> None:
    labels = torch.full((2, 3), IGNORE_INDEX)
    assert MaskedLMLoss()(torch.randn(2, 3, 10), labels).mean.item() == 0


def test_both_nsp_labels_count() -> None:
    logits = torch.tensor([[0.0, 0.0], [0.0, math.log(3)]])
    loss = NSPLoss()(logits, torch.tensor([0, 1])).mean
    by_hand = (math.log(2) - math.log(3 / 4)) / 2
    assert loss.item() == pytest.approx(by_hand)


def test_the_loss_is_the_sum_of_its_parts_and_parts_may_be_left_out() -> None:
    model = BertForPreTraining(BertConfig.preset("tiny", vocab_size=20)).eval()
    ids = torch.tensor([[2, 5, 3]])
    bare = Batch(ids, torch.zeros_like(ids), torch.arange(3)[None])
    mlm = {
        "mlm_positions": torch.tensor([1]),
        "mlm_labels": torch.tensor([7]),
    }
    nsp = {"nsp_labels": torch.tensor([1])}
    both = model(Batch(**{**vars(bare), **mlm, **nsp}))
    torch.testing.assert_close(
        both.loss, both.parts["mlm"].mean + both.parts["nsp"].mean
    )
    only_mlm = model(Batch(**{**vars(bare), **mlm}))
    assert only_mlm.parts.keys() == {"mlm"}
    assert torch.equal(only_mlm.loss, both.parts["mlm"].mean)
    with pytest.raises(BertError, match="neither"):
        model(bare)


def test_output_weights_are_the_token_embeddings() -> None:
    model = BertForPreTraining(BertConfig.preset("tiny", vocab_size=20))
    hidden = torch.randn(1, 4, 128)
    before = model.mlm_logits(hidden, torch.arange(4))
    with torch.no_grad():
        model.bert.embedding.token.weight[6] += 1
    after = model.mlm_logits(hidden, torch.arange(4))
    changed = (before != after).any(dim=0)
    assert changed.nonzero().flatten().tolist() == [6]


def test_fresh_weights_are_a_truncated_normal() -> None:
    torch.manual_seed(0)
    model = BertForPreTraining(BertConfig.preset("mini", vocab_size=5000))
    weight = model.bert.embedding.token.weight
    assert weight.abs().max() <= 0.04
    # 截断在两倍标准差处，标准差因此缩小到约 0.88 倍
    assert weight.std().item() == pytest.approx(0.02 * 0.8796, rel=0.01)
    assert model.mlm_head.bias.abs().max() == 0
    first_guess = model.mlm_logits(torch.randn(1, 50, 256), torch.arange(50))
    assert first_guess.logsumexp(-1).mean().item() == pytest.approx(
        math.log(5000), abs=0.1
    )
