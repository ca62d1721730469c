"""80/10/10, drawn with the model's own tokenizer on the given texts."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from bert_from_scratch.analysis.verify.check import (
    Check,
    Measurement,
    NotApplicable,
    Said,
    at_least,
    at_most,
    equal,
)
from bert_from_scratch.analysis.verify.subject import Subject
from bert_from_scratch.data.batch import IGNORE_INDEX, Batch, pack
from bert_from_scratch.data.masking import MaskingRule, mask_tokens
from bert_from_scratch.tokenizer.wordpiece import Encoding

MIN_DRAWN = 100_000
DRAWN_A_STEP = 20_000
MASK_RATE, MASK_SHARE, RANDOM_SHARE = 0.15, 0.8, 0.1
# 二项分布的五个标准差：偶然超出的机会不到百万分之一
NUM_DEVIATIONS = 5.0


@dataclass(frozen=True)
class _Drawn:
    """What was hidden over all steps; all are counts.

    Attributes:
        hidden: Labelled positions.
        masked: Those that show [MASK].
        replaced: Those that show another ordinary token.
        kept: Those that show what they are.
        special: Those that are special tokens, or show one but [MASK].
        mislabelled: Labels that are not the original id.
        changed: Positions without a label that changed all the same.
        miscounted: Sequences with another number of hidden tokens than 15 %.
    """

    hidden: int = 0
    masked: int = 0
    replaced: int = 0
    kept: int = 0
    special: int = 0
    mislabelled: int = 0
    changed: int = 0
    miscounted: int = 0

    def __add__(self, other: "_Drawn") -> "_Drawn":
        mine, theirs = vars(self), vars(other)
        return _Drawn(**{name: mine[name] + theirs[name] for name in mine})


def _measure(subject: Subject) -> Iterator[Measurement]:
    drawn = _draw(subject)
    yield at_least(
        Said("positions drawn", "抽取的位置数"), drawn.hidden, MIN_DRAWN
    )
    rule = MaskingRule.of(subject.tokenizer)
    # 随机替换可能恰好抽到原词：词表很小时这一份不可忽略
    luck = RANDOM_SHARE / (rule.vocab_size - len(subject.special_ids))
    shares = (
        (Said("shown as [MASK]", "换成 [MASK]"), drawn.masked, MASK_SHARE),
        (
            Said("shown as another token", "换成别的词"),
            drawn.replaced,
            RANDOM_SHARE - luck,
        ),
        (
            Said("shown as they are", "保持原样"),
            drawn.kept,
            1 - MASK_SHARE - RANDOM_SHARE + luck,
        ),
    )
    for name, count, share in shares:
        yield from _measure_share(name, count, drawn.hidden, share)
    yield from _measure_mistakes(drawn)


def _measure_share(
    name: Said, count: int, total: int, share: float
) -> Iterator[Measurement]:
    deviation = math.sqrt(share * (1 - share) / total)
    yield at_most(
        Said(
            f"{name.en}: {count / total:.4f}, |share - {share:.4f}|",
            f"{name.zh}：{count / total:.4f}，|比例 - {share:.4f}|",
        ),
        abs(count / total - share),
        NUM_DEVIATIONS * deviation,
    )


def _measure_mistakes(drawn: _Drawn) -> Iterator[Measurement]:
    names = {
        "special": Said(
            "special tokens hidden, or put in at random",
            "被遮盖、或被随机换入的特殊符号",
        ),
        "mislabelled": Said(
            "labels that are not the original id", "与原词不符的标签"
        ),
        "changed": Said(
            "tokens without a label that changed", "没有标签却被改动的词元"
        ),
        "miscounted": Said(
            "sequences that do not hide 15 %, at least one",
            "遮盖数不是 15%（至少一个）的序列",
        ),
    }
    for name, said in names.items():
        yield equal(said, getattr(drawn, name), 0)


def _draw(subject: Subject) -> _Drawn:
    """Hides tokens of the texts, again and again."""
    texts = [e for e in subject.encodings if _count_words(subject, e)]
    if not texts:
        raise NotApplicable(
            Said(
                "The texts hold special tokens alone: nothing may be hidden.",
                "文本里只有特殊符号：没有可遮盖的词。",
            )
        )
    expected = sum(_bounds(subject, text)[0] for text in texts)
    copies = max(1, DRAWN_A_STEP // expected)
    original = pack(texts * copies)
    keys = torch.arange(len(texts) * copies)
    original = replace(original, sequence_keys=keys)
    bounds = torch.tensor([_bounds(subject, text) for text in texts] * copies)
    rule = MaskingRule.of(subject.tokenizer, MASK_RATE)
    drawn = _Drawn()
    for step in range(math.ceil(MIN_DRAWN / (expected * copies))):
        hidden = mask_tokens(original, rule, seed=0, step=step)
        drawn += _count(subject, original, hidden, bounds)
    return drawn


def _count_words(subject: Subject, encoding: Encoding) -> int:
    return sum(i not in subject.special_ids for i in encoding.input_ids)


def _bounds(subject: Subject, encoding: Encoding) -> tuple[int, int]:
    """Returns the fewest and the most tokens that 15 % may mean."""
    words, wanted = _count_words(subject, encoding), MASK_RATE * len(encoding)
    # 恰在两整数之间时，向哪边取整取决于浮点误差：两边都算对
    edge = 0.5 + 1e-4
    least, most = math.ceil(wanted - edge), math.floor(wanted + edge)
    return min(words, max(1, least)), min(words, max(1, most))


def _count(
    subject: Subject, original: Batch, hidden: Batch, bounds: Tensor
) -> _Drawn:
    assert hidden.mlm_positions is not None
    assert hidden.mlm_labels is not None
    is_used = hidden.mlm_labels != IGNORE_INDEX
    places, labels = hidden.mlm_positions[is_used], hidden.mlm_labels[is_used]
    before, after = original.input_ids[places], hidden.input_ids[places]
    is_masked = after == subject.tokenizer.mask_token_id
    specials = torch.tensor(sorted(subject.special_ids))
    is_special = torch.isin(before, specials)
    is_special |= torch.isin(after, specials) & ~is_masked
    elsewhere = torch.ones_like(original.input_ids, dtype=torch.bool)
    elsewhere[places] = False
    is_changed = hidden.input_ids != original.input_ids
    counts = original.token_owners()[places].bincount(minlength=len(bounds))
    is_miscounted = (counts < bounds[:, 0]) | (counts > bounds[:, 1])
    return _Drawn(
        hidden=len(places),
        masked=int(is_masked.sum()),
        replaced=int((~is_masked & (after != before)).sum()),
        kept=int((~is_masked & (after == before)).sum()),
        special=int(is_special.sum()),
        mislabelled=int((labels != before).sum()),
        changed=int((is_changed & elsewhere).sum()),
        miscounted=int(is_miscounted.sum()),
    )


MASKING = Check(
    "masking",
    Said("15 % hidden, 80/10/10", "遮盖 15%，按 80/10/10"),
    Said(
        "15 % of a sequence is hidden; of these 80 % become [MASK], 10 % a "
        "random token, 10 % stay; special tokens are never hidden and never "
        "put in (binomial tolerance, five standard deviations). A random "
        "token may happen to be the original: this luck moves from the second "
        "share to the third.",
        "每条序列遮盖 15%；其中 80% 换成 [MASK]，10% 换成随机词，10% 不变；"
        "特殊符号从不被遮盖，也从不被换入（二项分布容差，五个标准差）。随机抽到"
        "的词可能恰好是原词：这一点运气从第二份移到第三份。",
    ),
    "|count / n - p| <= 5 sqrt(p (1 - p) / n), p = 0.8, 0.1, 0.1",
    _measure,
)
