"""More words, the same ids for all that was there before."""

from pathlib import Path

import pytest

from bert_from_scratch import WordPieceTokenizer
from bert_from_scratch.errors import BertError
from bert_from_scratch.tokenizer.growth import add_words, read_words

SPECIALS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
TOKENIZER = WordPieceTokenizer([*SPECIALS, "the", "heparin", "war", "##farin"])


def tokens(tokenizer: WordPieceTokenizer, text: str) -> list[str]:
    return tokenizer.encode(text, add_special_tokens=False).tokens


def test_a_new_word_is_one_token_and_old_ids_stay() -> None:
    grown = add_words(TOKENIZER, ["Warfarin", "the"])
    assert tokens(TOKENIZER, "the Warfarin") == ["the", "war", "##farin"]
    assert tokens(grown, "the Warfarin") == ["the", "warfarin"]
    assert len(grown) == len(TOKENIZER) + 1
    for token, number in TOKENIZER.vocabulary.items():
        assert grown.vocabulary[token] == number


def test_words_that_text_is_split_inside_are_refused() -> None:
    with pytest.raises(BertError, match=r"'covid-19'.*covid \+ - \+ 19"):
        add_words(TOKENIZER, ["covid-19"])
    with pytest.raises(BertError, match="has all of these words"):
        add_words(TOKENIZER, ["the", "HEPARIN"])


def test_a_file_of_words_is_read_line_by_line(tmp_path: Path) -> None:
    path = tmp_path / "words.txt"
    path.write_text("\nwarfarin \n\n华法林\n", encoding="utf-8")
    assert read_words(path) == ["warfarin", "华法林"]
    path.write_text("\n\n")
    with pytest.raises(BertError, match="holds no words"):
        read_words(path)
