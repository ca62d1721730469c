"""Masks: 15 %, 80/10/10, never special tokens, the same everywhere."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from bert_from_scratch.data.assembly import SpecialIds, StaticSizes, assemble
from bert_from_scratch.data.batch import IGNORE_INDEX, Batch
from bert_from_scratch.data.masking import MaskingRule, mask_tokens
from bert_from_scratch.data.pairs import plan_pairs
from bert_from_scratch.data.shards import TokenShards

from .conftest import VOCAB_SIZE, MakeShards

RULE = MaskingRule(4, (0, 1, 2, 3, 4), VOCAB_SIZE)
SPECIAL = SpecialIds(pad=0, cls=2, sep=3)


def make_batch(
    shards: TokenShards,
    rows: "np.ndarray[tuple[int], np.dtype[np.int64]]",
    sizes: StaticSizes | None = None,
) -> Batch:
    planned = plan_pairs(shards.sentence_ends, shards.documents(), 128, 0, 0)
    pairs = planned.take(rows)
    return assemble(shards.tokens, pairs, rows, SPECIAL, 128, sizes)


@pytest.fixture
def large(make_shards: MakeShards) -> Batch:
    shards = make_shards([[25] * 40] * 120)
    return make_batch(shards, np.arange(900))


def test_80_10_10_within_half_a_percent_of_100_000_tokens(large: Batch) -> None:
    assert len(large.input_ids) > 100_000
    shares = np.zeros(3)
    num_hidden = 0
    for step in range(8):
        masked = mask_tokens(large, RULE, seed=0, step=step)
        assert masked.mlm_positions is not None
        assert masked.mlm_labels is not None
        shown = masked.input_ids[masked.mlm_positions]
        is_mask, is_same = shown == 4, shown == masked.mlm_labels
        num_hidden += len(shown)
        shares += [int(is_mask.sum()), int((~is_mask & ~is_same).sum()), 0]
        shares[2] += int(is_same.sum())
    mask, random, same = shares / num_hidden
    assert mask == pytest.approx(0.8, abs=0.005)
    assert random == pytest.approx(0.1, abs=0.005)
    assert same == pytest.approx(0.1, abs=0.005)
    rate = num_hidden / 8 / len(large.input_ids)
    assert rate == pytest.approx(0.15, abs=0.003)


def test_every_sequence_hides_its_share_and_no_special_token(
    corpus: TokenShards,
) -> None:
    batch = make_batch(corpus, np.arange(60))
    masked = mask_tokens(batch, RULE, seed=0, step=0)
    assert masked.mlm_positions is not None
    assert batch.cu_seqlens is not None
    assert len(set(masked.mlm_positions.tolist())) == len(masked.mlm_positions)
    owners = batch.token_owners()[masked.mlm_positions]
    counts = torch.bincount(owners, minlength=60)
    lengths = batch.cu_seqlens.diff()
    expected = (lengths * 0.15).round().clamp(min=1)
    assert torch.equal(counts, expected.minimum(lengths - 3).long())
    assert (batch.input_ids[masked.mlm_positions] >= 5).all()


def test_labels_are_the_originals_and_all_else_stays(
    corpus: TokenShards,
) -> None:
    batch = make_batch(corpus, np.arange(40))
    masked = mask_tokens(batch, RULE, seed=0, step=0)
    assert masked.mlm_positions is not None
    assert masked.mlm_labels is not None
    originals = batch.input_ids[masked.mlm_positions].long()
    assert torch.equal(masked.mlm_labels, originals)
    untouched = torch.ones(len(batch.input_ids), dtype=torch.bool)
    untouched[masked.mlm_positions] = False
    assert torch.equal(masked.input_ids[untouched], batch.input_ids[untouched])


def test_random_replacements_are_never_special_and_cover_the_rest(
    large: Batch,
) -> None:
    rule = replace(RULE, mask_share=0.0, random_share=1.0)
    masked = mask_tokens(large, rule, seed=0, step=0)
    shown = masked.input_ids[masked.mlm_positions]
    assert shown.min() >= 5
    assert shown.max() < VOCAB_SIZE
    assert len(shown.unique()) > 0.99 * (VOCAB_SIZE - 5)


def test_masks_change_with_step_and_seed_and_nothing_else(
    corpus: TokenShards,
) -> None:
    batch = make_batch(corpus, np.arange(40))
    first = mask_tokens(batch, RULE, seed=0, step=7).input_ids
    assert torch.equal(mask_tokens(batch, RULE, 0, 7).input_ids, first)
    assert not torch.equal(mask_tokens(batch, RULE, 0, 8).input_ids, first)
    assert not torch.equal(mask_tokens(batch, RULE, 1, 7).input_ids, first)


def test_a_sequence_has_the_same_mask_in_any_batch(
    corpus: TokenShards,
) -> None:
    together = mask_tokens(make_batch(corpus, np.arange(40)), RULE, 0, 3)
    alone = mask_tokens(make_batch(corpus, np.array([17])), RULE, 0, 3)
    assert together.cu_seqlens is not None
    start, end = together.cu_seqlens[17:19].tolist()
    assert torch.equal(together.input_ids[start:end], alone.input_ids)


def test_static_shapes_change_no_mask(corpus: TokenShards) -> None:
    rows = np.arange(20)
    free = mask_tokens(make_batch(corpus, rows), RULE, 0, 3)
    sizes = StaticSizes(num_tokens=4096, num_sequences=64, num_slots=640)
    fixed = mask_tokens(make_batch(corpus, rows, sizes), RULE, 0, 3, 640)
    assert fixed.mlm_labels is not None
    assert fixed.mlm_positions is not None
    assert fixed.nsp_labels is not None
    assert fixed.cu_seqlens is not None
    assert len(fixed.input_ids) == 4096
    assert len(fixed.mlm_labels) == 640
    assert len(fixed.nsp_labels) == 64
    assert fixed.cu_seqlens.diff().max() <= 128
    num_tokens = len(free.input_ids)
    assert torch.equal(fixed.input_ids[:num_tokens], free.input_ids)
    is_used = fixed.mlm_labels != IGNORE_INDEX
    assert free.mlm_positions is not None
    assert torch.equal(fixed.mlm_positions[is_used], free.mlm_positions)
    assert (fixed.nsp_labels[20:] == IGNORE_INDEX).all()


def test_whole_words_are_hidden_together_by_one_decision(
    corpus: TokenShards,
) -> None:
    batch = make_batch(corpus, np.arange(60))
    # 每三个词片算一个词；特殊符号各自成词
    starts = torch.arange(len(batch.input_ids)) % 3 == 0
    starts |= batch.input_ids < 5
    starts[1:] |= batch.input_ids[:-1] < 5
    batch = replace(batch, word_starts=starts)
    masked = mask_tokens(batch, RULE, seed=0, step=0)
    assert masked.mlm_positions is not None
    assert masked.mlm_labels is not None
    hidden = torch.zeros(len(starts), dtype=torch.bool)
    hidden[masked.mlm_positions[masked.mlm_labels != IGNORE_INDEX]] = True
    assert hidden.float().mean() == pytest.approx(0.14, abs=0.015)
    words = starts.long().cumsum(0)
    for word in words[hidden].unique().tolist():
        inside = words == word
        assert hidden[inside].all()
        is_mask = masked.input_ids[inside] == 4
        assert is_mask.all() or not is_mask.any()
