"""A vocabulary is learned right, from a stream, the same way every time."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from bert_from_scratch import BertError, WordPieceTokenizer
from bert_from_scratch.learn import wordpiece as by_hand
from bert_from_scratch.tokenizer.vocabulary import SPECIAL_TOKENS

LINES = [
    "The cook cooked a good book of cooking, and the cook looked good.",
    "Lower, lowest, low; newer, newest, new: wide, wider, widest!",
    "模型读文字，文字教模型。模型 BERT 读得多，猜得准。",
    "naïve café, naïve cafés: São Paulo isn't a naïve town.",
    "A literal [SEP] and a literal [MASK] are text in a corpus.",
] * 3


def pieces(tokenizer: WordPieceTokenizer) -> list[str]:
    vocabulary = tokenizer.vocabulary
    return sorted(vocabulary, key=vocabulary.__getitem__)


@pytest.mark.parametrize("lowercase", [True, False])
@pytest.mark.parametrize("vocab_size", [150, 180, 300])
def test_the_engine_learns_what_the_readable_trainer_learns(
    lowercase: bool, vocab_size: int
) -> None:
    learned = WordPieceTokenizer.train(LINES, vocab_size, lowercase=lowercase)
    expected = by_hand.train(LINES, vocab_size, lowercase)
    assert pieces(learned) == expected


def test_special_tokens_come_first_and_nothing_stands_twice() -> None:
    learned = pieces(WordPieceTokenizer.train(LINES, 200))
    assert tuple(learned[:5]) == SPECIAL_TOKENS
    assert len(set(learned)) == len(learned) <= 200


def test_files_lists_and_iterators_give_one_vocabulary(tmp_path: Path) -> None:
    path = tmp_path / "corpus.txt"
    path.write_text("\n".join(LINES), encoding="utf-8")

    def stream() -> Iterator[str]:
        yield from LINES

    from_list = pieces(WordPieceTokenizer.train(LINES, 200))
    assert pieces(WordPieceTokenizer.train([path], 200)) == from_list
    assert pieces(WordPieceTokenizer.train([tmp_path], 200)) == from_list
    assert pieces(WordPieceTokenizer.train(stream(), 200)) == from_list


def test_an_uncased_vocabulary_has_no_capitals_and_a_cased_one_has() -> None:
    def has_capitals(learned: list[str]) -> bool:
        return any(token != token.lower() for token in learned[5:])

    assert not has_capitals(pieces(WordPieceTokenizer.train(LINES, 200)))
    cased = WordPieceTokenizer.train(LINES, 250, lowercase=False)
    assert has_capitals(pieces(cased))
    assert "ï" in cased.vocabulary


def test_chinese_characters_are_words_without_continuations() -> None:
    vocabulary = WordPieceTokenizer.train(LINES, 300).vocabulary
    assert "模" in vocabulary
    assert "##模" not in vocabulary
    assert "模型" not in vocabulary
    assert "##," not in vocabulary


def test_literal_special_tokens_in_the_corpus_are_plain_text() -> None:
    learned = WordPieceTokenizer.train(["[MASK] [MASK] x"] * 9, 100)
    # 若 [MASK] 被当成特殊符号，这几个字符就不会进入词表
    assert {"[", "]", "mask"} <= learned.vocabulary.keys()


def test_rare_characters_can_be_dropped() -> None:
    lines = ["aaa bbb", "aaa bbb z"]
    kept = WordPieceTokenizer.train(lines, 50).vocabulary
    dropped = WordPieceTokenizer.train(lines, 50, min_char_count=2).vocabulary
    assert "z" in kept
    assert "z" not in dropped


def test_every_character_of_the_text_can_be_encoded() -> None:
    tokenizer = WordPieceTokenizer.train(LINES, 150)
    for line in LINES:
        assert tokenizer.unk_token_id not in tokenizer.encode(line).input_ids


def test_a_vocabulary_below_the_alphabet_is_refused_with_the_numbers() -> None:
    with pytest.raises(BertError, match="vocab_size=20") as caught:
        WordPieceTokenizer.train(LINES, 20)
    assert "--min-char-count" in str(caught.value.hint)


@pytest.mark.parametrize("lines", [[], [""], [" \t\n"], ["\u200b"]])
def test_text_without_characters_is_refused(lines: list[str]) -> None:
    with pytest.raises(BertError, match="no characters"):
        WordPieceTokenizer.train(lines, 100)


def test_paths_and_lines_cannot_be_mixed(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("text")
    with pytest.raises(TypeError, match="not both"):
        WordPieceTokenizer.train(["a line", path], 100)


def test_progress_is_told_of_every_stage() -> None:
    stages: list[str] = []
    WordPieceTokenizer.train(
        LINES, 200, progress=lambda stage, *_: stages.append(stage)
    )
    assert list(dict.fromkeys(stages)) == [
        "counting characters",
        "counting words",
        "merging pieces",
    ]
