"""80/10/10 and 15 %, counted."""

import pytest

from bert_from_scratch.learn.masking_counts import count_replacements


def test_the_shares_are_the_papers() -> None:
    counts = count_replacements(num_steps=30)
    shares = counts.shares()
    assert sum(shares.values()) == pytest.approx(1)
    assert shares["mask"] == pytest.approx(0.8, abs=0.02)
    assert shares["random"] == pytest.approx(0.1, abs=0.02)
    assert shares["kept"] == pytest.approx(0.1, abs=0.02)
    assert counts.num_hidden / counts.num_tokens == pytest.approx(
        0.15, abs=0.005
    )
