"""Cards and questions: complete, in both languages, and fair."""

import re
from collections import Counter
from collections.abc import Iterator

import pytest

from bert_from_scratch.errors import BertError
from bert_from_scratch.learn.cards.content import (
    LETTERS,
    Part,
    Text,
    choose_parts,
    load_parts,
    read_part,
)
from bert_from_scratch.learn.language import LANGUAGES, Language

PARTS = load_parts()
QUESTIONS = [question for part in PARTS for question in part.questions]
HAN = re.compile("[\u4e00-\u9fff]")
MATERIAL = """
letter = "A"
title.en = "Motivation"
title.zh = "动机"

[[cards]]
id = "A01"
section = "5.3, table 7"
front.en = "Front?"
front.zh = "正面？"
back.en = "Back."
back.zh = "反面。"

[[questions]]
id = "A-Q1"
section = "A.2"
ask.en = "Which?"
ask.zh = "哪个？"
""" + "".join(
    f"""
[[questions.options]]
is_right = {str(number == 2).lower()}
text.en = "option {number}"
text.zh = "选项 {number}"
why.en = "reason {number}"
why.zh = "理由 {number}"
"""
    for number in range(4)
)


def sentences() -> Iterator[tuple[str, Text]]:
    """Yields all that is a sentence; options may be a mere formula."""
    for part in PARTS:
        yield part.letter, part.title
        for card in part.cards:
            yield from ((card.id, text) for text in (card.front, card.back))
        for question in part.questions:
            yield question.id, question.ask
            yield from ((question.id, o.why) for o in question.options)


def test_six_parts_hold_at_least_66_cards_and_48_questions() -> None:
    assert [part.letter for part in PARTS] == list(LETTERS)
    assert all(len(part.cards) >= 11 for part in PARTS)
    assert all(len(part.questions) == 8 for part in PARTS)
    assert sum(len(part.cards) for part in PARTS) >= 66
    assert len(QUESTIONS) == 48


def test_chinese_is_chinese_and_english_has_none() -> None:
    for name, text in sentences():
        assert HAN.search(text.zh), name
        assert not HAN.search(text.en), name
    for question in QUESTIONS:
        for option in question.options:
            assert not HAN.search(option.text.en), question.id


def test_no_text_is_written_twice() -> None:
    for language in LANGUAGES:
        counts = Counter(text[language] for _, text in sentences())
        assert [text for text, count in counts.items() if count > 1] == []


def test_both_languages_give_the_same_numbers() -> None:
    # 大数的写法不同（3.3 billion、33 亿），小数和科学计数则应一字不差
    number = re.compile(r"(?:\d+\.\d+|\d+e-\d+)(?! billion| 亿)")
    for name, text in sentences():
        found = sorted(number.findall(text.zh))
        assert found == sorted(number.findall(text.en)), name


@pytest.mark.parametrize("part", PARTS, ids=lambda part: part.letter)
def test_right_answers_are_spread_evenly(part: Part) -> None:
    positions = [
        [option.is_right for option in question.options].index(True)
        for question in part.questions
    ]
    assert Counter(positions) == dict.fromkeys(range(4), 2)


@pytest.mark.parametrize("language", LANGUAGES)
def test_length_does_not_give_the_answer_away(language: Language) -> None:
    ranks = []
    for question in QUESTIONS:
        lengths = [len(option.text[language]) for option in question.options]
        right = lengths[[o.is_right for o in question.options].index(True)]
        wrong = (sum(lengths) - right) / 3
        assert 0.7 < right / wrong < 1.45, question.id
        ranks.append((right > sorted(lengths)[2], right < sorted(lengths)[1]))
    # 随手猜“最长的”或“最短的”，都不该比四选一好多少
    assert sum(longest for longest, _ in ranks) <= len(QUESTIONS) / 3
    assert sum(shortest for _, shortest in ranks) <= len(QUESTIONS) / 3


def test_no_option_refers_to_the_others() -> None:
    for question in QUESTIONS:
        for option in question.options:
            assert not re.search(r"(all|none) of the above", option.text.en)
            assert "以上" not in option.text.zh


def test_good_material_is_read_as_it_is_written() -> None:
    part = read_part(MATERIAL)
    (card,), (question,) = part.cards, part.questions
    assert (part.letter, part.title.zh) == ("A", "动机")
    assert (card.section, card.back["en"]) == ("5.3, table 7", "Back.")
    assert question.ask["zh"] == "哪个？"
    assert [o.is_right for o in question.options] == [0, 0, 1, 0]
    assert question.options[3].why.zh == "理由 3"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('section = "A.2"', "", "A-Q1: the paper has no such section"),
        ('"A.2"', '"A.6"', "no such section"),
        ("table 7", "table 9", "no such section"),
        ('back.zh = "反面。"', "", "A01: missing or unknown: zh"),
        ("back.zh", "back.de", "missing or unknown: de, zh"),
        ('back.en = "Back."', 'back.en = " "', "a text is empty"),
        ('front.en = "Front?"\nfront.zh = "正面？"', "", "unknown: front"),
        ('why.en = "reason 1"', "", "A-Q1: missing or unknown: en"),
        ("= true", "= false", "0 of 4 options are right"),
        ("is_right = false", "is_right = true", "4 of 4 options are right"),
        ("选项 3", "选项 1", "two options read the same"),
        ('id = "A01"', 'id = "B01"', "B01: the id is doubled or not of this"),
        ("[[questions]]", "[[questions]]\nhint = 1", "unknown: hint"),
    ],
)
def test_a_mistake_in_the_material_is_found(
    old: str, new: str, message: str
) -> None:
    assert old in MATERIAL
    with pytest.raises(ValueError, match=re.escape(message)):
        read_part(MATERIAL.replace(old, new))


def test_an_id_may_not_appear_twice() -> None:
    (card,) = re.findall(r"\[\[cards\]\].*?\n\n", MATERIAL, flags=re.DOTALL)
    with pytest.raises(ValueError, match="A01: the id is doubled"):
        read_part(MATERIAL.replace(card, card * 2))


def test_a_question_needs_four_options() -> None:
    *_, last = MATERIAL.split("[[questions.options]]")
    with pytest.raises(ValueError, match="1 of 3 options are right"):
        read_part(MATERIAL.replace("[[questions.options]]" + last, ""))


def test_a_part_is_chosen_by_its_letter_large_or_small() -> None:
    assert choose_parts("c") == choose_parts("C") == (PARTS[2],)
    assert choose_parts(None) == PARTS


def test_an_unknown_part_is_refused_with_a_list_of_parts() -> None:
    with pytest.raises(BertError, match="no part 'G'") as error:
        choose_parts("G")
    assert error.value.hint is not None
    for part in PARTS:
        assert f"{part.letter}: {part.title.en}" in error.value.hint
