"""The lesson shows what it computed: gradients, losses, both routes."""

import pytest

from bert_from_scratch.learn.lesson import Code, Table
from bert_from_scratch.learn.lessons.minibert import minibert
from bert_from_scratch.learn.materials import Materials


@pytest.fixture(scope="module")
def tables() -> list[Table]:
    lesson = minibert("en", Materials(num_epochs=3))
    return [block for block in lesson.blocks if isinstance(block, Table)]


def test_every_weight_is_compared_with_autograd(tables: list[Table]) -> None:
    rows = {row[0]: row for row in tables[1].rows}
    assert rows.keys() == {
        *("token", "position", "query", "key", "value", "gain", "shift"),
        *("dense", "dense_bias", "vocabulary_bias"),
    }
    for _, _, size, difference in rows.values():
        assert float(difference) < 1e-10
        assert float(difference) < 1e-8 * float(size)


def test_the_losses_shown_are_the_epochs_that_were_trained(
    tables: list[Table],
) -> None:
    assert [row[0] for row in tables[2].rows] == ["1", "3"]
    assert tables[2].rows[0][2] == "3.86"


def test_both_routes_are_shown_to_agree(tables: list[Table]) -> None:
    assert len(tables[3].rows) == 3
    for _, ours, theirs in tables[3].rows:
        assert float(ours) == pytest.approx(float(theirs), abs=1e-10)


def test_the_code_shown_is_the_code_that_runs() -> None:
    lesson = minibert("zh", Materials(num_epochs=1))
    codes = [block.text for block in lesson.blocks if isinstance(block, Code)]
    assert [text.split("(")[0] for text in codes] == [
        "def softmax_backward",
        "def attend_backward",
    ]
