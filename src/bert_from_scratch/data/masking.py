"""Hiding tokens: 15 % of each sequence, 80/10/10, drawn where the batch is.

A pure function of seed and step in integer arithmetic: a CPU and a GPU, and
one process or many, draw the same masks.

Letters: B sequences, T tokens of a packed batch, P prediction slots.
"""

from dataclasses import dataclass, replace
from functools import lru_cache
from hashlib import blake2b
from typing import Self

import torch
import torch.nn.functional as F
from torch import Tensor

from bert_from_scratch.data.batch import IGNORE_INDEX, Batch
from bert_from_scratch.tokenizer import WordPieceTokenizer
from bert_from_scratch.tokenizer.vocabulary import SPECIAL_TOKENS


@dataclass(frozen=True)
class MaskingRule:
    """What to hide, and behind what.

    Attributes:
        mask_token_id: The id of [MASK].
        special_ids: Ids that are never hidden and never put in: [PAD],
            [UNK], [CLS], [SEP], [MASK].
        vocab_size: Random replacements are drawn below it.
        mask_rate: Share of each sequence that is hidden.
        mask_share: Share of the hidden tokens that become [MASK].
        random_share: Share that becomes a random token; the rest stays.
    """

    mask_token_id: int
    special_ids: tuple[int, ...]
    vocab_size: int
    mask_rate: float = 0.15
    mask_share: float = 0.8
    random_share: float = 0.1

    @classmethod
    def of(cls, tokenizer: WordPieceTokenizer, mask_rate: float = 0.15) -> Self:
        """Returns the rule for a vocabulary."""
        return cls(
            tokenizer.mask_token_id,
            tuple(tokenizer.token_to_id(token) for token in SPECIAL_TOKENS),
            len(tokenizer),
            mask_rate,
        )


def mask_tokens(
    batch: Batch,
    rule: MaskingRule,
    seed: int,
    step: int,
    num_slots: int | None = None,
) -> Batch:
    """Hides tokens of a packed batch and labels them.

    Args:
        batch: Packed, with `sequence_keys`; where it has `word_starts`, the
            pieces of a word are hidden together, by one decision.
        rule: What to hide.
        seed: Decides the masks, together with `step`.
        step: The training step.
        num_slots: Size of `mlm_positions`; unused slots point at 0 and are
            labelled IGNORE_INDEX. None: as many as are hidden.

    Returns:
        The batch with changed `input_ids`, with `mlm_positions` and
        `mlm_labels`.
    """
    assert batch.cu_seqlens is not None
    assert batch.sequence_keys is not None
    num_tokens = len(batch.input_ids)
    lengths = batch.cu_seqlens.diff()
    owners = batch.token_owners()
    # 抽签以“哪条序列、第几个词”为键，与批次怎么切分、放在哪张卡上无关
    device = batch.input_ids.device
    # 在设备上填一个数：从 CPU 抄过去要等前面的计算全部结束
    base = torch.full((), _mix_numbers(seed, step), device=device)
    keys = _mix(base, batch.sequence_keys)
    units = _deciding_places(batch)
    ordinary = _ordinary_ids(rule, device)
    is_word = ordinary.index_select(0, batch.input_ids)
    counts = _count_hidden(batch.cu_seqlens, is_word, rule.mask_rate)
    # index_select、repeat_interleave 比方括号取值快三四倍
    own_keys = keys.repeat_interleave(lengths, output_size=num_tokens)
    draws = _draw(_mix(own_keys, units), ORDER_BITS)
    order = _shuffle_within(owners, draws, is_word, len(lengths))
    slots, is_used = _first_of_each(batch.cu_seqlens, counts, num_slots)
    positions = torch.where(is_used, order.index_select(0, slots), 0)
    if batch.word_starts is not None:
        is_whole = _find_whole_words(batch, owners, order, counts)
        is_used = is_used & is_whole[positions]
    # 替换只对选中的位置抽签，省下六分之五的计算
    chosen_keys = own_keys.index_select(0, positions)
    chosen_units = units.index_select(0, positions)
    choice = _draw(_mix(chosen_keys + 1, chosen_units), DRAW_BITS)
    places = batch.position_ids.index_select(0, positions).long()
    chance = _draw(_mix(chosen_keys + 2, places), DRAW_BITS)
    labels = batch.input_ids.index_select(0, positions).long()
    shown = _replace(labels, choice, chance, rule)
    # 未用的槽位写回原值：不改动任何词
    shown = torch.where(is_used, shown, labels)
    input_ids = batch.input_ids.clone()
    input_ids.scatter_(0, positions, shown.to(input_ids.dtype))
    return replace(
        batch,
        input_ids=input_ids,
        mlm_positions=positions,
        mlm_labels=torch.where(is_used, labels, IGNORE_INDEX),
    )


def _deciding_places(batch: Batch) -> Tensor:
    """Returns, for each token, the place whose draw decides for it, [T]."""
    places = batch.position_ids.long()
    if batch.word_starts is None:
        return places
    # 全词遮盖：词内各片段都用词首的签，于是同进同退
    indexes = torch.arange(len(places), device=places.device)
    heads = torch.where(batch.word_starts, indexes, 0).cummax(0).values
    return places[heads]


@lru_cache(maxsize=8)
def _ordinary_ids(rule: MaskingRule, device: torch.device) -> Tensor:
    """Returns which ids may be hidden, bool [vocab_size]."""
    is_ordinary = torch.ones(rule.vocab_size, dtype=torch.bool)
    is_ordinary[list(rule.special_ids)] = False
    return is_ordinary.to(device)


def _count_hidden(
    cu_seqlens: Tensor, is_word: Tensor, mask_rate: float
) -> Tensor:
    """Returns how many tokens each sequence hides, long [B]."""
    # 与 Google 一致：按含特殊符号的长度取整，再短的句子也至少遮一个
    lengths = cu_seqlens.diff()
    wanted = (lengths * mask_rate).round().clamp(min=1).long()
    before = F.pad(is_word.cumsum(0), (1, 0))
    return torch.minimum(wanted, before.index_select(0, cu_seqlens).diff())


def _shuffle_within(
    owners: Tensor, draws: Tensor, is_word: Tensor, num_sequences: int
) -> Tensor:
    """Returns token places, shuffled inside each sequence, long [T].

    What may not be hidden comes last in its sequence.
    """
    ranks = torch.where(is_word, draws, 1 << ORDER_BITS)
    # 高位放序列编号、低位放签：一次排序就完成所有序列各自的洗牌
    combined = (owners << (ORDER_BITS + 1)) | ranks
    if num_sequences < 1 << (30 - ORDER_BITS):
        # 放得进 32 位就用 32 位排：快一倍，次序不变
        combined = combined.int()
    return combined.sort(stable=True).indices


def _first_of_each(
    cu_seqlens: Tensor, counts: Tensor, num_slots: int | None
) -> tuple[Tensor, Tensor]:
    """Points slots at the first `counts` places of every sequence.

    Returns:
        Places in the shuffled order, long [P], and which slots are used,
        bool [P].
    """
    ends = counts.cumsum(0)
    if num_slots is None:
        num_slots = int(ends[-1])
    slots = torch.arange(num_slots, device=counts.device)
    is_used = slots < ends[-1]
    # 槽位减去本序列之前的槽数，再加上本序列的起点；末尾一段归未用的槽位
    shift = F.pad(cu_seqlens[:-1] - (ends - counts), (0, 1))
    bounds = F.pad(ends.clamp(max=num_slots), (1, 0))
    sizes = F.pad(bounds, (0, 1), value=num_slots).diff()
    shifts = shift.repeat_interleave(sizes, output_size=num_slots)
    return torch.where(is_used, slots + shifts, 0), is_used


def _find_whole_words(
    batch: Batch, owners: Tensor, order: Tensor, counts: Tensor
) -> Tensor:
    """Returns for which tokens all of their word is hidden, bool [T]."""
    assert batch.cu_seqlens is not None
    assert batch.word_starts is not None
    ranks = torch.empty_like(order)
    ranks[order] = torch.arange(len(order), device=order.device)
    ranks -= batch.cu_seqlens[owners]
    words = batch.word_starts.long().cumsum(0)
    last = torch.zeros_like(ranks).scatter_reduce(0, words, ranks, "amax")
    return last[words] < counts[owners]


def _replace(
    labels: Tensor, choice: Tensor, chance: Tensor, rule: MaskingRule
) -> Tensor:
    """Returns what stands in for the hidden tokens, long [P]."""
    scale = 1 << DRAW_BITS
    specials = sorted(rule.special_ids)
    replacement = chance % (rule.vocab_size - len(specials))
    for special_id in specials:
        # 跳过特殊符号的编号：随机替换永远不会变成 [SEP] 之类
        replacement = replacement + (replacement >= special_id).long()
    masks_until = int(rule.mask_share * scale)
    random_until = int((rule.mask_share + rule.random_share) * scale)
    shown = torch.where(choice < random_until, replacement, labels)
    return torch.where(choice < masks_until, rule.mask_token_id, shown)


DRAW_BITS = 31
ORDER_BITS = 16


def _draw(mixed: Tensor, num_bits: int) -> Tensor:
    """Takes the top bits of hashes: long, 0 ... 2**num_bits - 1."""
    return (mixed >> (63 - num_bits)) & ((1 << num_bits) - 1)


def _mix(keys: Tensor, places: Tensor | int) -> Tensor:
    """Hashes long tensors to 64 random bits (SplitMix64)."""
    mixed = keys + places * _GOLDEN
    for bits, factor in ((30, _FIRST), (27, _SECOND)):
        mixed ^= _shift(mixed, bits)
        mixed *= factor
    mixed ^= _shift(mixed, 31)
    return mixed


def _mix_numbers(seed: int, step: int) -> int:
    """Hashes two numbers to one, within the range of a long."""
    digest = blake2b(f"{seed} {step}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little", signed=True)


def _shift(x: Tensor, bits: int) -> Tensor:
    """Shifts right without copying the sign, as for unsigned numbers."""
    shifted = x >> bits
    shifted &= (1 << (64 - bits)) - 1
    return shifted


# SplitMix64 的三个常数，写成有符号 64 位：乘法自然回绕，各设备结果一致
_GOLDEN = 0x9E3779B97F4A7C15 - (1 << 64)
_FIRST = 0xBF58476D1CE4E5B9 - (1 << 64)
_SECOND = 0x94D049BB133111EB - (1 << 64)
