"""Every word is asked for once, wherever sentences are cut."""

import itertools

import numpy as np
import pytest
from numpy.typing import NDArray

from bert_from_scratch import WordPieceTokenizer as Tokenizer
from bert_from_scratch.finetune.word_windows import WordEncoder, WordSequence

LETTERS = "abcdefgh"
TOKENS = [
    *("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"),
    *LETTERS,
    *(f"##{letter}" for letter in LETTERS),
]
TOKENIZER = Tokenizer(TOKENS)
CLS, SEP = TOKENIZER.cls_token_id, TOKENIZER.sep_token_id
Document = list[tuple[str, ...]]


def encode(
    document: Document, max_length: int, context: bool = False
) -> list[list[WordSequence]]:
    encoder = WordEncoder(TOKENIZER, document, max_length)
    return encoder.encode(document, with_context=context)


def spell(ids: NDArray[np.int32]) -> str:
    return " ".join(TOKENIZER.id_to_token(int(number)) for number in ids)


def random_document(random: np.random.Generator) -> Document:
    """Sentences of words with 0 to 6 tokens; \\x00 has none."""
    return [
        tuple(
            "".join(random.choice(list(LETTERS), size)) or "\x00"
            for size in random.integers(0, 7, random.integers(0, 15))
        )
        for _ in range(random.integers(1, 7))
    ]


def test_first_tokens_stand_for_words() -> None:
    ((window,),) = encode([("ab", "\x00", "c", "[SEP]", "d")], 16)
    tokens = "[CLS] a ##b c [UNK] [UNK] [UNK] d [SEP]"
    assert spell(window.input_ids) == tokens
    assert window.words.tolist() == [0, 2, 3, 4]
    assert window.positions.tolist() == [1, 3, 4, 7]
    assert not window.token_type_ids.any()


def test_a_long_sentence_is_cut_between_words() -> None:
    (windows,) = encode([("abc", "ab", "abc", "a")], 7)
    assert [w.words.tolist() for w in windows] == [[0, 1], [2, 3]]
    first, second = (spell(w.input_ids) for w in windows)
    assert first == "[CLS] a ##b ##c a ##b [SEP]"
    # 后半句装不满，只能整词借用前文，"ab" 放不下就不借
    assert second == "[CLS] a ##b ##c a [SEP]"


def test_parts_of_a_long_sentence_lend_each_other_words() -> None:
    (windows,) = encode([("a", "b", "c", "d", "e")], 6)
    assert spell(windows[1].input_ids) == "[CLS] b c d e [SEP]"
    assert windows[1].words.tolist() == [4]
    assert windows[1].positions.tolist() == [4]


def test_context_comes_from_both_sides_in_equal_shares() -> None:
    document: Document = [("a", "b", "c"), ("d",), ("e", "f", "g")]
    (window,) = encode(document, 7, context=True)[1]
    assert spell(window.input_ids) == "[CLS] b c d e f [SEP]"
    assert window.positions.tolist() == [3]
    (first,) = encode(document, 7, context=True)[0]
    # 左边没有前文，空位全归右边
    assert spell(first.input_ids) == "[CLS] a b c d e [SEP]"
    (last,) = encode(document, 7, context=True)[2]
    assert spell(last.input_ids) == "[CLS] c d e f g [SEP]"


@pytest.mark.parametrize("context", [False, True])
def test_every_word_is_asked_for_once_and_stands_where_it_should(
    context: bool,
) -> None:
    random = np.random.default_rng(3)
    for _ in range(150):
        document = random_document(random)
        max_length = int(random.integers(8, 40))
        encoded = encode(document, max_length, context)
        assert len(encoded) == len(document)
        for sentence, windows in zip(document, encoded, strict=True):
            asked = [n for w in windows for n in w.words.tolist()]
            expected = [n for n, word in enumerate(sentence) if word != "\x00"]
            assert asked == expected
            for window in windows:
                assert len(window.input_ids) <= max_length
                assert window.input_ids[0] == CLS
                assert window.input_ids[-1] == SEP
                for n, place in zip(
                    window.words, window.positions, strict=True
                ):
                    ids = TOKENIZER.encode(
                        sentence[n], add_special_tokens=False
                    ).input_ids
                    found = window.input_ids[place : place + len(ids)]
                    assert found.tolist() == ids


def test_a_sequence_is_a_run_of_its_document_that_nothing_can_be_added_to() -> (
    None
):
    random = np.random.default_rng(4)
    for _ in range(100):
        document = random_document(random)
        words = [
            TOKENIZER.encode(word, add_special_tokens=False).input_ids
            for word in itertools.chain.from_iterable(document)
        ]
        edges = np.cumsum([0, *map(len, words)]).tolist()
        stream = list(itertools.chain.from_iterable(words))
        for windows in encode(document, 20, context=True):
            for window in windows:
                inside = window.input_ids[1:-1].tolist()
                fits = [
                    (begin, begin + len(inside))
                    for begin in edges
                    if stream[begin : begin + len(inside)] == inside
                    and begin + len(inside) in edges
                ]
                assert fits
                is_whole = len(inside) == len(stream)
                # 一侧放不下的下一个词至多占六个词元
                assert is_whole or len(inside) > 18 - 6


def test_without_context_a_sentence_stands_alone() -> None:
    document: Document = [("a", "b"), ("c",), ()]
    encoded = encode(document, 16)
    assert [spell(w.input_ids) for (w,) in encoded] == [
        "[CLS] a b [SEP]",
        "[CLS] c [SEP]",
        "[CLS] [SEP]",
    ]


def test_a_word_longer_than_a_sequence_is_cut() -> None:
    (windows,) = encode([("a", "." * 50, "b")], 10)
    assert [w.words.tolist() for w in windows] == [[0], [1], [2]]
    assert len(windows[1].input_ids) == 10


def test_documents_without_any_token_are_encoded() -> None:
    assert encode([], 8) == []
    ((window,),) = encode([()], 8, context=True)
    assert window.input_ids.tolist() == [CLS, SEP]
    ((window,),) = encode([("\x00", "\x01")], 8)
    assert window.words.tolist() == []


def test_no_room_for_words_is_refused() -> None:
    with pytest.raises(ValueError, match="max_length=2"):
        WordEncoder(TOKENIZER, [], 2)
