"""Heads are named by numbers that can be worked out by hand."""

import pytest
import torch
from torch import Tensor

from bert_from_scratch.analysis.heads import Role, find_role, summarise_heads

TOKENS = ["[CLS]", "a", "b", "c", "d", "[SEP]"]
SIZE = len(TOKENS)


def looking_at(*shares: tuple[int, float]) -> Tensor:
    """Makes one head: shares by distance, what is left evenly on all."""
    weights = torch.zeros(SIZE, SIZE)
    for row in range(SIZE):
        for step, share in shares:
            weights[row, (row + step) % SIZE] += share
        weights[row] += (1 - weights[row].sum()) / SIZE
    return weights[None]


def at_separator(share: float) -> Tensor:
    weights = torch.full((SIZE, SIZE), (1 - share) / SIZE)
    weights[:, -1] += share
    return weights[None]


def test_a_head_on_the_previous_token_is_named_so() -> None:
    (head,) = summarise_heads(looking_at((-1, 1.0)), 2, TOKENS)
    assert (head.layer, head.head, head.role) == (2, 1, "previous")
    assert head.previous == pytest.approx(1)
    assert head.entropy == pytest.approx(0)
    assert head.distance == pytest.approx(1)
    assert head.next == 0


def test_a_head_on_the_next_token_is_named_so() -> None:
    (head,) = summarise_heads(looking_at((1, 0.7)), 1, TOKENS)
    assert head.role == "next"
    assert head.next == pytest.approx(0.7 + 0.3 / 6)
    # 四个词里只有 d 的后一个是 [SEP]
    assert head.separator == pytest.approx(0.3 / 6 + 0.7 / 4)


def test_a_head_on_separators_is_named_so() -> None:
    (head,) = summarise_heads(at_separator(0.6), 1, TOKENS)
    assert head.role == "separator"
    assert head.separator == pytest.approx(0.6 + 0.4 / 6)


def test_a_head_on_cls_is_named_so() -> None:
    weights = torch.full((1, SIZE, SIZE), 0.5 / SIZE)
    weights[..., 0] += 0.5
    (head,) = summarise_heads(weights, 1, TOKENS)
    assert head.role == "cls"
    assert head.cls == pytest.approx(0.5 + 0.5 / 6)
    # a 的前一个就是 [CLS]：四个词里占一个
    assert head.previous == pytest.approx(0.5 / 6 + 0.5 / 4)


def test_both_separators_of_a_pair_count() -> None:
    tokens = ["[CLS]", "a", "[SEP]", "b", "[SEP]"]
    weights = torch.zeros(1, 5, 5)
    weights[..., 2] = weights[..., 4] = 0.5
    (head,) = summarise_heads(weights, 1, tokens)
    assert head.separator == pytest.approx(1)


def test_equal_attention_is_broad_with_the_entropy_of_all_tokens() -> None:
    (head,) = summarise_heads(torch.full((1, 8, 8), 1 / 8), 1, list("abcdefgh"))
    assert head.role == "broad"
    assert head.entropy == pytest.approx(3)
    # 等概率时两点的平均距离是 (n² - 1) / 3n
    assert head.distance == pytest.approx(63 / 24)


def test_a_head_on_itself_is_mixed() -> None:
    (head,) = summarise_heads(looking_at((0, 1.0)), 1, TOKENS)
    assert head.role == "mixed"
    assert head.distance == 0


def test_cls_and_sep_do_not_count_as_looking() -> None:
    weights = looking_at((-1, 1.0))
    changed = weights.clone()
    changed[0, 0] = changed[0, -1] = 1 / SIZE
    assert summarise_heads(weights, 1, TOKENS) == summarise_heads(
        changed, 1, TOKENS
    )


def test_a_text_without_tokens_still_has_numbers() -> None:
    (head,) = summarise_heads(torch.full((1, 2, 2), 0.5), 1, ["[CLS]", "[SEP]"])
    assert head.entropy == pytest.approx(1)
    assert head.role == "separator"


@pytest.mark.parametrize(
    ("numbers", "role"),
    [
        ((3.0, 0.40, 0.1, 0.1, 0.1), "previous"),
        ((3.0, 0.39, 0.1, 0.1, 0.1), "broad"),
        ((1.9, 0.39, 0.1, 0.1, 0.1), "mixed"),
        ((2.0, 0.39, 0.1, 0.1, 0.1), "broad"),
        ((3.0, 0.41, 0.42, 0.1, 0.1), "next"),
        ((0.1, 0.41, 0.42, 0.9, 0.1), "separator"),
        ((3.0, 0.41, 0.42, 0.1, 0.43), "cls"),
        ((1.9, 0.1, 0.1, 0.1, 0.39), "mixed"),
    ],
)
def test_the_rule_is_the_one_that_is_told(
    numbers: tuple[float, float, float, float, float], role: str
) -> None:
    entropy, previous, following, separator, cls = numbers
    shares: dict[Role, float] = {
        "previous": previous,
        "next": following,
        "separator": separator,
        "cls": cls,
    }
    assert find_role(entropy, shares, num_tokens=8) == role
