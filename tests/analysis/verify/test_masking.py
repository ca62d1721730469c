"""Masks that are not 15 %, 80/10/10, are found."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch

from bert_from_scratch import WordPieceTokenizer
from bert_from_scratch.analysis.verify import masking
from bert_from_scratch.analysis.verify.masking import MASKING
from bert_from_scratch.analysis.verify.subject import Subject
from bert_from_scratch.analysis.verify.suite import run_check
from bert_from_scratch.data.batch import Batch
from bert_from_scratch.data.masking import MaskingRule, mask_tokens

from .conftest import MakeDir, judge

SPECIAL_IDS = (0, 1, 2, 3, 4)
CLS_ID, SEP_ID, MASK_ID = 2, 3, 4


def test_the_rule_of_the_paper_passes(subject: Subject) -> None:
    assert judge(MASKING, subject) == "pass"


@pytest.mark.parametrize(
    "change",
    [
        {"mask_share": 1.0, "random_share": 0.0},
        {"mask_share": 0.8, "random_share": 0.2},
        {"mask_share": 0.79},
        {"special_ids": ()},
        {"mask_rate": 0.3},
    ],
    ids=str,
)
def test_another_rule_fails(
    subject: Subject, monkeypatch: pytest.MonkeyPatch, change: dict[str, Any]
) -> None:
    def of(tokenizer: WordPieceTokenizer, rate: float = 0.15) -> MaskingRule:
        rule = MaskingRule(
            tokenizer.mask_token_id, SPECIAL_IDS, len(tokenizer), rate
        )
        return replace(rule, **change)

    monkeypatch.setattr(MaskingRule, "of", of)
    assert judge(MASKING, subject) == "fail"


def test_hiding_the_first_token_too_is_counted_as_special(
    subject: Subject, monkeypatch: pytest.MonkeyPatch
) -> None:
    others = tuple(i for i in SPECIAL_IDS if i != CLS_ID)

    def of(tokenizer: WordPieceTokenizer, rate: float = 0.15) -> MaskingRule:
        return MaskingRule(MASK_ID, others, len(tokenizer), rate)

    monkeypatch.setattr(MaskingRule, "of", of)
    measured = {
        m.name.en: m.value for m in run_check(MASKING, subject).measurements
    }
    found = measured["special tokens hidden, or put in at random"]
    drawn = measured["positions drawn"]
    assert isinstance(found, int)
    assert isinstance(drawn, int)
    # 随机换入的 [CLS] 不到千分之一；被遮盖的约占一成
    assert 0.05 < found / drawn < 0.2


def change_labels(original: Batch, hidden: Batch) -> Batch:
    assert hidden.mlm_labels is not None
    return replace(hidden, mlm_labels=hidden.mlm_labels + 1)


def change_a_neighbour(original: Batch, hidden: Batch) -> Batch:
    ids = hidden.input_ids.clone()
    ids[0] += 1
    return replace(hidden, input_ids=ids)


def put_in_separators(original: Batch, hidden: Batch) -> Batch:
    ids = hidden.input_ids
    is_random = (ids != original.input_ids) & (ids != MASK_ID)
    return replace(hidden, input_ids=torch.where(is_random, SEP_ID, ids))


@pytest.mark.parametrize(
    ("change", "counted"),
    [
        (change_labels, "labels that are not the original id"),
        (change_a_neighbour, "tokens without a label that changed"),
        (put_in_separators, "special tokens hidden, or put in at random"),
    ],
)
def test_right_shares_of_wrong_things_fail(
    subject: Subject,
    monkeypatch: pytest.MonkeyPatch,
    change: Callable[[Batch, Batch], Batch],
    counted: str,
) -> None:
    def broken(batch: Batch, *args: Any, **rest: Any) -> Batch:
        return change(batch, mask_tokens(batch, *args, **rest))

    monkeypatch.setattr(masking, "mask_tokens", broken)
    outcome = run_check(MASKING, subject)
    assert [m.name.en for m in outcome.measurements if not m.holds] == [counted]


def test_a_hundred_thousand_positions_are_drawn_of_any_text(
    make_dir: MakeDir,
) -> None:
    for text in ("man", "the man reads the book . " * 12):
        subject = Subject.load(make_dir("tiny"), [text])
        outcome = run_check(MASKING, subject)
        assert outcome.verdict == "pass"
        drawn = outcome.measurements[0].value
        assert isinstance(drawn, int)
        assert 100_000 <= drawn <= 150_000


def test_texts_of_special_tokens_alone_are_not_applicable(
    make_dir: MakeDir,
) -> None:
    subject = Subject.load(make_dir("tiny"), ["[MASK] [SEP]"])
    assert judge(MASKING, subject) == "not applicable"
