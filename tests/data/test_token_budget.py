"""Batches by tokens: nothing lost, none too large, in the order given."""

from hypothesis import given
from hypothesis import strategies as st

from bert_from_scratch.data.token_budget import cut_by_tokens, longest_first

LENGTHS = st.lists(st.integers(1, 512), max_size=60)


def test_the_longest_come_first_and_equals_keep_their_order() -> None:
    assert longest_first([3, 7, 3, 9]) == [3, 1, 0, 2]


@given(LENGTHS, st.integers(1, 1024))
def test_batches_are_full_and_within_the_budget(
    lengths: list[int], budget: int
) -> None:
    numbers = longest_first(lengths)
    batches = list(cut_by_tokens(numbers, lengths, budget))
    assert [number for batch in batches for number in batch] == numbers
    sums = [sum(lengths[n] for n in batch) for batch in batches]
    for total, batch in zip(sums, batches, strict=True):
        assert total <= budget or len(batch) == 1
    # 下一条放得下就不该另起一批
    for total, following in zip(sums, batches[1:], strict=False):
        assert total + lengths[following[0]] > budget
