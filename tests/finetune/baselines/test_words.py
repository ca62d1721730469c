"""Words: BERT's own cuts, stable numbers, never an empty sequence."""

from pathlib import Path

import pytest

from bert_from_scratch import BertError
from bert_from_scratch.finetune.baselines.words import (
    PAD_ID,
    SEP_ID,
    SPECIAL_WORDS,
    UNK_ID,
    WordTokenizer,
)

TEXTS = ["The café is open, the door too.", "茶很香，茶也热。", "a tea, 茶!"]


@pytest.fixture(scope="module")
def tokenizer() -> WordTokenizer:
    return WordTokenizer.build(TEXTS, min_count=1)


def words_of(tokenizer: WordTokenizer, text: str) -> list[str]:
    (sequence,) = tokenizer.encode_batch([text])
    return [tokenizer.words[number] for number in sequence.input_ids]


def test_english_is_cut_by_words_and_chinese_by_characters(
    tokenizer: WordTokenizer,
) -> None:
    words = words_of(tokenizer, "THE Café,茶很香!")
    assert words == ["the", "cafe", ",", "茶", "很", "香", "!"]


def test_special_words_have_the_first_numbers(
    tokenizer: WordTokenizer,
) -> None:
    assert tokenizer.words[:3] == SPECIAL_WORDS
    assert (PAD_ID, UNK_ID, SEP_ID) == (0, 1, 2)
    # 茶 occurs three times; the others of the first five twice
    assert tokenizer.words[3:6] == ("茶", ",", "the")


def test_order_of_texts_does_not_change_numbers() -> None:
    forwards = WordTokenizer.build(TEXTS, min_count=1)
    backwards = WordTokenizer.build(reversed(TEXTS), min_count=1)
    assert forwards.words == backwards.words


def test_rare_words_and_words_over_the_limit_are_unknown() -> None:
    texts = ["x x x y y z"]
    assert WordTokenizer.build(texts).words[3:] == ("x", "y")
    smaller = WordTokenizer.build(texts, max_words=4)
    assert len(smaller) == 4
    assert words_of(smaller, "x y z") == ["x", "[UNK]", "[UNK]"]


def test_special_words_in_a_text_are_plain_text() -> None:
    tokenizer = WordTokenizer.build(["[SEP] [PAD]"], min_count=1)
    assert words_of(tokenizer, "[SEP]") == ["[", "sep", "]"]


@pytest.mark.parametrize("text", ["", "  \n", "\u0000"])
def test_an_empty_text_is_one_unknown_word(
    tokenizer: WordTokenizer, text: str
) -> None:
    (sequence,) = tokenizer.encode_batch([text])
    assert sequence.input_ids.tolist() == [UNK_ID]
    assert sequence.token_type_ids.tolist() == [0]
    (pair,) = tokenizer.encode_batch([text], [text])
    assert pair.input_ids.tolist() == [UNK_ID, SEP_ID, UNK_ID]


def test_a_pair_is_told_apart_by_separator_and_segments(
    tokenizer: WordTokenizer,
) -> None:
    (pair,) = tokenizer.encode_batch(["the door"], ["茶, tea"])
    words = [tokenizer.words[number] for number in pair.input_ids]
    assert words == ["the", "door", "[SEP]", "茶", ",", "tea"]
    assert pair.token_type_ids.tolist() == [0, 0, 0, 1, 1, 1]
    assert pair.input_ids.dtype == pair.token_type_ids.dtype == "int32"


def test_the_longer_text_is_cut_first(tokenizer: WordTokenizer) -> None:
    (single,) = tokenizer.encode_batch(["the door is open"], max_length=3)
    assert len(single.input_ids) == len(single.token_type_ids) == 3
    (pair,) = tokenizer.encode_batch(
        ["the door is open"], ["tea"], max_length=4
    )
    words = [tokenizer.words[number] for number in pair.input_ids]
    assert words == ["the", "door", "[SEP]", "tea"]
    assert pair.token_type_ids.tolist() == [0, 0, 0, 1]


def test_a_limit_without_room_is_refused(tokenizer: WordTokenizer) -> None:
    with pytest.raises(BertError, match="--max-length to 1 or more"):
        tokenizer.encode_batch(["tea"], max_length=0)
    with pytest.raises(BertError, match="--max-length to 3 or more"):
        tokenizer.encode_batch(["tea"], ["tea"], max_length=2)
    with pytest.raises(ValueError, match="2 texts, but 1 pairs"):
        tokenizer.encode_batch(["tea", "tea"], ["tea"])


def test_a_lone_surrogate_is_named(tokenizer: WordTokenizer) -> None:
    with pytest.raises(BertError, match="Text 2 has a lone surrogate"):
        tokenizer.encode_batch(["tea", "a \ud800"])


def test_saved_and_loaded_is_the_same(
    tokenizer: WordTokenizer, tmp_path: Path
) -> None:
    tokenizer.save(tmp_path / "new")
    loaded = WordTokenizer.load(tmp_path / "new")
    assert loaded.words == tokenizer.words
    assert words_of(loaded, TEXTS[0]) == words_of(tokenizer, TEXTS[0])


def test_a_damaged_or_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BertError, match=r"holds no words\.txt"):
        WordTokenizer.load(tmp_path)
    path = tmp_path / "words.txt"
    path.write_text("tea\ncup\n")
    with pytest.raises(BertError, match="must start with"):
        WordTokenizer.load(tmp_path)
    path.write_text("\n".join([*SPECIAL_WORDS, "tea", "tea"]))
    with pytest.raises(BertError, match="stands twice"):
        WordTokenizer.load(tmp_path)
