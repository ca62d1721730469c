"""Cutting answers: characters, words, and what does not count."""

import random

import pytest

from bert_from_scratch.finetune.metrics.segments import (
    cut_chinese,
    remove_punctuation,
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ""),
        ("-:_*^/\\~`+=", ""),
        ("，。：？！“”；’《》·、「」（）－～『』", ""),
        (" 《Red-Apple》 ", "redapple"),
        ('"红"(果)', '"红"(果)'),
        ("……", "……"),
        ("一,二", "一,二"),
    ],
)
def test_only_the_listed_punctuation_is_removed(
    text: str, expected: str
) -> None:
    assert remove_punctuation(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("红苹果", ["红", "苹", "果"]),
        ("第12届AI大会。", ["第", "12", "届", "ai", "大", "会"]),
        ("约3.5万,共1,000吨", ["约", "3.5", "万", ",", "共", "1,000", "吨"]),
        ("增长20%", ["增", "长", "20", "%"]),
        ("red apple pie", ["red", "apple", "pie"]),
        ("end.", ["end", "."]),
        ("j. doe (poet)...", ["j.", "doe", "(", "poet", ")", "..."]),
        ('他"ok"了', ["他", "``", "ok", "''", "了"]),
        ('"', ["``"]),
        ('a"', ["a", "''"]),
        ('""', ["``", "``"]),
        ("don't king's they'll", ["do", "n't", "king", "'s", "they", "'ll"]),
        ("'tea'", ["'", "tea", "'"]),
        ("o'hara", ["o'hara"]),
        ("i cannot", ["i", "can", "not"]),
        ("龥龦", ["龥", "龦"]),
        ("龦龦", ["龦龦"]),
    ],
)
def test_texts_are_cut_as_worked_out_from_the_rules(
    text: str, expected: list[str]
) -> None:
    assert cut_chinese(text) == expected


def test_words_are_cut_as_nltk_cuts_them() -> None:
    nltk = pytest.importorskip("nltk.tokenize.destructive")
    tokenize = nltk.NLTKWordTokenizer().tokenize
    generator = random.Random(2)
    pieces = ["ab", "é", "x's", "1", "2.5", "3,000", ".", "...", "! ", ", "]
    pieces += [" ", " ", "(", ")", "[", "]", '"', "%", "$", "&", "?", ";"]
    for _ in range(2000):
        text = "".join(generator.choices(pieces, k=generator.randint(1, 8)))
        # 缩略语后紧跟句中句点时，各版 NLTK 的切法本就不同
        if "'s." not in text:
            expected = tokenize(remove_punctuation(text))
            assert cut_chinese(text) == expected, text


def test_no_character_that_counts_is_lost() -> None:
    generator = random.Random(4)
    letters = "红果ab 1.,'()!?%&é\u3000……龦😀"
    for _ in range(2000):
        text = "".join(generator.choices(letters, k=generator.randint(0, 12)))
        expected = "".join(remove_punctuation(text).split())
        assert "".join(cut_chinese(text)) == expected
