"""What is said of the four models is what their table shows."""

import re

import pytest

from bert_from_scratch.corpus.builtin import simple_sentences
from bert_from_scratch.learn.language import LANGUAGES, Language
from bert_from_scratch.learn.lesson import Items
from bert_from_scratch.learn.lessons.four_models import (
    OPEN_QUESTION,
    compare_four_models,
    count_answers,
)
from bert_from_scratch.learn.materials import Materials
from bert_from_scratch.learn.minibert_training import TrainedMiniBert


@pytest.fixture(scope="module")
def materials() -> Materials:
    return Materials(num_epochs=2)


def test_the_open_question_has_as_many_answers_as_there_are_people() -> None:
    assert count_answers(simple_sentences(), OPEN_QUESTION) == 5
    assert count_answers(["a b", "a b", "a c d"], "a [MASK]") == 1


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("last", [1.0, 0.5])
def test_positions_are_credited_only_with_what_they_add_to_fresh_masks(
    language: Language,
    last: float,
    materials: Materials,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shares = iter([(0.1, 0.11), (0.9, 0.2), (1.0, 1.0), (last, last)])
    monkeypatch.setattr(
        TrainedMiniBert, "verb_shares", lambda run: next(shares)
    )
    *_, items = compare_four_models(language, materials)
    assert isinstance(items, Items)
    told = [set(re.findall(r"\d+%", point)) for point in items.points]
    assert told[:2] == [{"10%", "11%", "90%", "20%"}, {"100%"}]
    claim = {"en": "fresh masks alone settle", "zh": "只靠重新抽签"}[language]
    assert (claim in items.points[2]) == (last == 1.0)
    assert ("50%" in items.points[2]) == (last == 0.5)
