"""The page and the Rust engine must give the same pieces."""

import doctest
import unicodedata
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, normalizers, pre_tokenizers
from tokenizers.models import WordPiece
from tokenizers.trainers import WordPieceTrainer

from bert_from_scratch.learn import wordpiece
from bert_from_scratch.learn.wordpiece import (
    IDEOGRAPH,
    SPECIAL_TOKENS,
    encode,
    encode_word,
    is_punctuation,
    normalise,
    split_words,
    train,
)

CORPUS = [
    "The old lighthouse keeper kept keeping lights, night after night.",
    "Lighter boats and lighter winds: the keeper's lightest nights!",
    "Banana, bananas, ananas; a banana-boat at 10:30 costs $3.50 + tax.",
    "Café, CAFÉ and cafe are one word; naïve façades are not.",
    "灯塔里的老人每天晚上点灯，灯光照着海上的船。",
    "我们在 lighthouse 里学习 BERT 模型，模型学习 keeping 这样的词。",
    "aaaa aaaaa aaaaaa aaaaaaa mississippi mississippi missing sips",
    "Ὀδυσσεύς ΟΔΟΣ, Ελλάς; 서울의 밤 밤 밤; Straße İstanbul",
    "   ",
    "",
]
SAMPLE_LINES = [
    *CORPUS,
    "Unseen words: xylophone, keepers' lightnings & bananaboats",
    "a\tb\nc\rd\x0be\x0cf\x00g\ufffdh\u200bi\u00adj\u00a0k\u3000l\u2028m",
    "中文abc中文，「引號」…—～￥㐀\U00020000\U0002b820\U0002b920豈",
    "e\u0301te\u0301 Ǆ ŒUVRE ﬁne ½ x² ΣΑΣ ΌΣΟΣ. ①②③ 👩‍👩‍👧 ١٢٣ हिन्दी",
    "[CLS] [MASK] ##ing [unused1] a##b",
    "a" * 100 + " " + "a" * 101,
]
IDEOGRAPH_BLOCKS = {
    0x3400: 0x4DBF,
    0x4E00: 0x9FFF,
    0xF900: 0xFAFF,
    0x20000: 0x2A6DF,
    0x2A700: 0x2B81F,
    0x2B920: 0x2CEAF,
    0x2F800: 0x2FA1F,
}
ALPHABET = ["a", "b", "é", "Σ", "#", ",", " ", "的", "가"]


@cache
def stable_characters() -> str:
    """Characters that Unicode 3.2 and this Python classify alike.

    The engine's character classes are those of Unicode 8, Python's are newer:
    what was assigned or reclassified in between is left out.
    """
    old = unicodedata.ucd_3_2_0
    chars = map(chr, [*range(0xD800), *range(0xE000, 0x110000)])
    return "".join(
        c for c in chars if old.category(c) == unicodedata.category(c) != "Cn"
    )


def engine(vocab: list[str], lowercase: bool = True) -> Tokenizer:
    ids = {piece: i for i, piece in enumerate(vocab)}
    tokenizer = Tokenizer(WordPiece(ids, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=lowercase)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    return tokenizer


def engine_words(text: str) -> list[str]:
    splits = pre_tokenizers.BertPreTokenizer().pre_tokenize_str(text)
    return [word for word, _ in splits]


def train_engine(
    lines: list[str], vocab_size: int, lowercase: bool, min_count: int
) -> list[str]:
    """Trains the engine, ids fixed beforehand, and reorders its vocabulary."""
    tokenizer = engine([], lowercase)
    clean = normalizers.BertNormalizer(lowercase=lowercase).normalize_str
    words = [word for line in lines for word in engine_words(clean(line))]
    chars = sorted(set("".join(words)))
    inner = [
        f"##{c}" for c in chars if not (is_punctuation(c) or IDEOGRAPH.match(c))
    ]
    trainer = WordPieceTrainer(
        vocab_size=vocab_size,
        min_frequency=min_count,
        special_tokens=SPECIAL_TOKENS + inner,
        initial_alphabet=chars,
        limit_alphabet=len(chars),
        show_progress=False,
    )
    tokenizer.train_from_iterator(lines, trainer)
    ids = tokenizer.get_vocab()
    pieces = sorted(ids, key=ids.__getitem__)
    first = SPECIAL_TOKENS + inner + chars
    assert pieces[: len(first)] == first
    return SPECIAL_TOKENS + chars + inner + pieces[len(first) :]


def test_lowercase_drops_accents_and_case_one_character_at_a_time() -> None:
    assert normalise("Été ΟΔΟΣ") == "ete οδοσ"


def test_cased_text_keeps_accents_and_case() -> None:
    assert normalise("Été ΟΔΟΣ", lowercase=False) == "Été ΟΔΟΣ"


def test_invisible_characters_vanish_and_whitespace_becomes_a_space() -> None:
    assert normalise("a\x00b\x0bc\u200bd\ufffde\tf\u3000g") == "abcde f g"


def test_every_ideograph_and_punctuation_mark_is_a_word() -> None:
    words = split_words(normalise("我爱BERT，it costs $5."))
    assert words == ["我", "爱", "bert", "，", "it", "costs", "$", "5", "."]


def test_the_longest_known_piece_wins_even_if_the_rest_is_then_unknown() -> (
    None
):
    assert encode_word("abc", {"a", "ab", "##c", "##bc"}) == ["ab", "##c"]
    assert encode_word("abc", {"a", "ab", "##bc"}) == ["[UNK]"]


def test_a_word_of_more_than_100_characters_is_unknown() -> None:
    assert encode_word("a" * 100, {"a", "##a"}) == ["a"] + ["##a"] * 99
    assert encode_word("a" * 101, {"a", "##a"}) == ["[UNK]"]


def test_the_vocabulary_lists_specials_characters_inner_forms_merges() -> None:
    # 汉字和逗号没有 ## 形式；he 出现两次，合并一次即止
    assert train(["he, he 他"], vocab_size=100) == [
        *SPECIAL_TOKENS,
        *(",", "e", "h", "他"),
        *("##e", "##h"),
        "he",
    ]


def test_pairs_seen_less_than_min_count_are_not_merged() -> None:
    assert train(["ab ab cd"], 100)[-1] == "ab"
    assert train(["ab ab cd"], 100, min_count=1)[-2:] == ["ab", "cd"]
    assert train(["ab ab cd"], 100, min_count=3)[-1] == "##d"


def test_ties_go_to_inner_pairs_and_then_to_smaller_characters() -> None:
    # 词内的一对编号更小，所以先得 ##bc；随后 abc 与 xy 平局，a 在 x 之前
    assert train(["xy abc xy abc"], 100)[-3:] == ["##bc", "abc", "xy"]


def test_a_merged_piece_ranks_behind_every_character_in_a_tie() -> None:
    # ca 出现四次先合并；之后 (ca, ##b) 与 (d, ##e) 同为两次，字符在前
    lines = ["ca ca cab cab de de"]
    assert train(lines, 100)[-3:] == ["ca", "de", "cab"]


def test_runs_of_one_letter_are_merged_from_left_to_right() -> None:
    # a ##a ##a ##a 中左边两个先合并，得 a ##aa ##a；若从右边起会得到 ##aaa
    assert train(["aaaa aaaa"], 100)[-3:] == ["##aa", "aaa", "aaaa"]


def test_merging_stops_at_the_vocabulary_size() -> None:
    assert len(train(CORPUS, 150)) == 150


def test_characters_are_kept_when_the_vocabulary_is_too_small() -> None:
    assert train(["ab ab"], 3) == [*SPECIAL_TOKENS, "a", "b", "##a", "##b"]


def test_the_worked_example_is_true() -> None:
    result = doctest.testmod(wordpiece)
    assert result.attempted >= 3
    assert result.failed == 0


@pytest.mark.parametrize("lowercase", [True, False])
def test_every_stable_character_is_treated_as_in_the_engine(
    lowercase: bool,
) -> None:
    # 用字母隔开，字符之间互不影响；一次比较全部字符
    text = "x".join(stable_characters())
    normaliser = normalizers.BertNormalizer(lowercase=lowercase)
    expected = normaliser.normalize_str(text)
    assert normalise(text, lowercase) == expected
    assert split_words(expected) == engine_words(expected)


@pytest.mark.parametrize("first", IDEOGRAPH_BLOCKS)
def test_blocks_of_ideographs_begin_and_end_as_in_the_engine(
    first: int,
) -> None:
    normaliser = normalizers.BertNormalizer(lowercase=False)
    for edge in (first, IDEOGRAPH_BLOCKS[first]):
        text = "x".join(map(chr, range(edge - 2, edge + 3)))
        assert normalise(text, False) == normaliser.normalize_str(text)
    assert normalise(chr(first), False) == f" {chr(first)} "


def test_an_unassigned_code_point_stays_as_in_the_engine() -> None:
    text = "a\u0378b"
    assert unicodedata.category("\u0378") == "Cn"
    assert normalizers.BertNormalizer().normalize_str(text) == text
    assert normalise(text) == text


@pytest.mark.parametrize("lowercase", [True, False])
@pytest.mark.parametrize("vocab_size", [0, 150, 200, 10_000])
def test_sample_lines_are_encoded_as_in_the_engine(
    vocab_size: int, lowercase: bool
) -> None:
    vocab = train(CORPUS, vocab_size, lowercase)
    tokenizer = engine(vocab, lowercase)
    known = frozenset(vocab)
    for line in SAMPLE_LINES:
        assert encode(line, known, lowercase) == tokenizer.encode(line).tokens


@settings(deadline=None)
@given(
    text=st.lists(
        st.sampled_from(stable_characters()) | st.sampled_from(ALPHABET)
    ).map("".join),
    lowercase=st.booleans(),
)
def test_any_unicode_text_is_normalised_split_and_encoded_as_in_the_engine(
    text: str, lowercase: bool
) -> None:
    normaliser = normalizers.BertNormalizer(lowercase=lowercase)
    assert normalise(text, lowercase) == normaliser.normalize_str(text)
    # 词表只认得前半段的片段：后半段会走到贪心回退和 [UNK]
    vocab = train([text[: len(text) // 2]] * 2, 1000, lowercase)
    tokens = engine(vocab, lowercase).encode(text).tokens
    assert encode(text, vocab, lowercase) == tokens


@settings(deadline=None)
@given(
    learned=st.lists(st.text([*ALPHABET[:3], " "])),
    text=st.text(ALPHABET),
    vocab_size=st.integers(0, 60),
)
def test_words_of_few_letters_are_encoded_as_in_the_engine(
    learned: list[str], text: str, vocab_size: int
) -> None:
    vocab = train(learned, vocab_size, min_count=1)
    assert encode(text, vocab) == engine(vocab).encode(text).tokens


@pytest.mark.parametrize("lowercase", [True, False])
@pytest.mark.parametrize("min_count", [0, 1, 2, 3])
@pytest.mark.parametrize("vocab_size", [0, 150, 175, 10_000])
def test_the_corpus_gives_the_vocabulary_of_the_engine(
    vocab_size: int, min_count: int, lowercase: bool
) -> None:
    expected = train_engine(CORPUS, vocab_size, lowercase, min_count)
    ours = train(CORPUS, vocab_size, lowercase, min_count=min_count)
    assert ours == expected


@settings(deadline=None, max_examples=200)
@given(
    lines=st.lists(
        st.text(st.sampled_from("aab c,的"), max_size=40), max_size=8
    ),
    vocab_size=st.integers(0, 60),
    min_count=st.integers(0, 4),
)
def test_any_corpus_gives_the_vocabulary_of_the_engine(
    lines: list[str], vocab_size: int, min_count: int
) -> None:
    expected = train_engine(lines, vocab_size, True, min_count)
    assert train(lines, vocab_size, min_count=min_count) == expected
