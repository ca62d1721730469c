"""Lengths one after the other, each for its share of the budget."""

from dataclasses import replace
from itertools import islice

import pytest

from bert_from_scratch.data.masking import MaskingRule
from bert_from_scratch.data.phases import Phase, PhasedData, read_phases
from bert_from_scratch.data.pretraining import (
    BatchShape,
    PretrainingData,
    SharedShape,
)
from bert_from_scratch.data.shards import TokenShards
from bert_from_scratch.data.steps import Position
from bert_from_scratch.errors import BertError

from .conftest import VOCAB_SIZE, MakeShards, make_tokenizer

RULE = MaskingRule(4, (0, 1, 2, 3, 4), VOCAB_SIZE)
PHASES = (Phase(16, 0.75), Phase(64, 0.25))


def make_data(corpus: TokenShards) -> PhasedData:
    return PhasedData(
        PHASES,
        [
            PretrainingData(
                corpus,
                make_tokenizer(),
                BatchShape.plan(512, phase.max_length),
                RULE,
                seed=0,
            )
            for phase in PHASES
        ],
    )


def test_the_form_of_the_command_line_is_read() -> None:
    assert read_phases("128:0.9,512:0.1") == (Phase(128, 0.9), Phase(512, 0.1))
    assert read_phases("128:0.25::0.3,128:0.75:131072") == (
        Phase(128, 0.25, None, 0.3),
        Phase(128, 0.75, 131072),
    )


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("128", "not of the form"),
        ("128:0.9,512", "not of the form"),
        ("128:x", "not of the form"),
        ("128:0.9,512:0.2", "sum to 1"),
        ("128:1.5,512:-0.5", "positive"),
        ("128:0.5,128:0.5", "twice"),
        ("128:0.5:x,128:0.5", "not of the form"),
        ("128:1:2:0.15:9", "not of the form"),
    ],
)
def test_other_forms_are_refused(text: str, complaint: str) -> None:
    with pytest.raises(BertError, match=complaint):
        read_phases(text)


def test_a_phase_ends_with_its_share_and_not_before(
    corpus: TokenShards,
) -> None:
    data = make_data(corpus)
    place = Position(epoch=2, cursor=1)
    assert data.advance(place, 0.7499) == place
    entered = data.advance(place, 0.75)
    assert entered == Position(phase=1, epochs_before=data.epochs_done(place))
    later = replace(entered, cursor=3)
    assert data.advance(later, 1.0) == later


def test_passes_are_counted_over_all_phases(corpus: TokenShards) -> None:
    data = make_data(corpus)
    half = data.num_steps(0) // 2
    entered = data.advance(Position(epoch=1, cursor=half), 0.8)
    assert data.epochs_done(entered) == pytest.approx(1.5, abs=0.1)
    assert data.epochs_done(replace(entered, epoch=1)) == pytest.approx(
        data.epochs_done(entered) + 1
    )


def test_each_phase_yields_its_own_length(corpus: TokenShards) -> None:
    data = make_data(corpus)
    for number, phase in enumerate(PHASES):
        step = next(data.steps(Position(phase=number)))
        (batch,) = step.micro_batches
        assert batch.max_seqlen == phase.max_length
        assert batch.cu_seqlens is not None
        assert int(batch.cu_seqlens.diff().max()) > phase.max_length // 2
        assert data.finish(batch, 0, number).mlm_labels is not None
        assert step.following.phase == number


def test_phases_of_one_length_share_one_shape(corpus: TokenShards) -> None:
    shapes = SharedShape(0.3)
    base = BatchShape.plan(512, 16)
    small, large = (
        PretrainingData(
            corpus,
            make_tokenizer(),
            base.multiplied(factor),
            replace(RULE, mask_rate=rate),
            seed=0,
            shapes=shapes,
            first_epoch=factor,
        )
        for factor, rate in ((1, 0.3), (4, 0.15))
    )
    found = set()
    for data in (small, large, small):
        for batch in next(data.steps(Position())).micro_batches:
            masked = data.finish(batch, 0)
            assert masked.mlm_labels is not None
            assert masked.cu_seqlens is not None
            found.add(
                (
                    len(masked.input_ids),
                    len(masked.cu_seqlens),
                    len(masked.mlm_labels),
                )
            )
    assert len(found) == 1


@pytest.mark.parametrize("rate", [0.02, 0.05, 0.15])
def test_very_short_sequences_have_slots_for_all_that_is_hidden(
    rate: float, make_shards: MakeShards
) -> None:
    # 每条至少遮一个词，远多于词数乘遮盖率
    shards = make_shards([[1] * 40 for _ in range(100)])
    rule = replace(RULE, mask_rate=rate)
    free, fixed = (
        PretrainingData(
            shards,
            make_tokenizer(),
            BatchShape.plan(2048, 5),
            rule,
            seed=0,
            shapes=shapes,
        )
        for shapes in (None, SharedShape(rate))
    )
    assert count_hidden(free) == count_hidden(fixed)


def count_hidden(data: PretrainingData) -> list[int]:
    """Returns how many tokens the first micro-batches hide."""
    counts = []
    for step in islice(data.steps(Position()), 4):
        for batch in step.micro_batches:
            labels = data.finish(batch, 0).mlm_labels
            assert labels is not None
            counts.append(int(labels.ge(0).sum()))
    return counts
