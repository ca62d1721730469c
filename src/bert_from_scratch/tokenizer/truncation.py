"""Cutting a pair of segments to a budget, the longer one first."""


def lengths_to_keep(
    num_first: int, num_second: int, budget: int
) -> tuple[int, int]:
    """Returns how much of each segment to keep, as Hugging Face does.

    The longer segment loses tokens until both are equal, then both lose; where
    the budget is odd, the odd token goes to the longer segment, and to the
    second where both are of one length.

    >>> lengths_to_keep(10, 3, 9)
    (6, 3)
    >>> lengths_to_keep(8, 8, 9)
    (4, 5)
    """
    if num_first + num_second <= budget:
        return num_first, num_second
    shorter, longer = sorted((num_first, num_second))
    if shorter <= budget - shorter:
        # 只剪长的一段就够了
        longer = budget - shorter
    else:
        shorter = budget // 2
        longer = budget - shorter
    return (longer, shorter) if num_first > num_second else (shorter, longer)
