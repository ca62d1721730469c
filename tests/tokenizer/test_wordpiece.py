"""Encoding, decoding, saving and loading."""

import json
from pathlib import Path

import pytest
import transformers
from hypothesis import given
from hypothesis import strategies as st

from bert_from_scratch import BertError, WordPieceTokenizer
from bert_from_scratch.tokenizer.engine import TextRules, find_rules
from bert_from_scratch.tokenizer.truncation import lengths_to_keep

TOKENS = [
    *("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"),
    *("the", "cat", "sat", "##s", ".", "[", "]", "mask", "猫", "É"),
]


@pytest.fixture
def tokenizer() -> WordPieceTokenizer:
    return WordPieceTokenizer(TOKENS)


def test_a_text_is_wrapped_in_cls_and_sep(
    tokenizer: WordPieceTokenizer,
) -> None:
    encoding = tokenizer.encode("The cats sat.")
    assert encoding.tokens == [
        *("[CLS]", "the", "cat", "##s", "sat", ".", "[SEP]")
    ]
    assert encoding.input_ids == [2, 5, 6, 8, 7, 9, 3]
    assert encoding.token_type_ids == [0] * 7
    assert encoding.attention_mask == [1] * 7
    assert encoding.offsets[1:6] == [(0, 3), (4, 7), (7, 8), (9, 12), (12, 13)]
    assert encoding.word_ids == [None, 0, 1, 1, 2, 3, None]


def test_a_pair_has_segments_0_and_1(tokenizer: WordPieceTokenizer) -> None:
    encoding = tokenizer.encode("cat", "猫 sat")
    assert encoding.tokens == ["[CLS]", "cat", "[SEP]", "猫", "sat", "[SEP]"]
    assert encoding.token_type_ids == [0, 0, 0, 1, 1, 1]


def test_a_written_mask_is_special_unless_text_is_asked_for(
    tokenizer: WordPieceTokenizer,
) -> None:
    special = tokenizer.encode("the [MASK]", add_special_tokens=False)
    literal = tokenizer.encode(
        "the [MASK]", add_special_tokens=False, specials_are_text=True
    )
    assert special.tokens == ["the", "[MASK]"]
    assert literal.tokens == ["the", "[", "mask", "]"]


def test_decoding_joins_pieces_and_leaves_special_tokens_out(
    tokenizer: WordPieceTokenizer,
) -> None:
    ids = tokenizer.encode("The cats sat.").input_ids
    assert tokenizer.decode(ids) == "the cats sat."
    assert "[CLS]" in tokenizer.decode(ids, skip_special_tokens=False)


@pytest.mark.parametrize("bad", [-1, len(TOKENS), 10**9])
def test_an_id_out_of_range_is_named(
    tokenizer: WordPieceTokenizer, bad: int
) -> None:
    with pytest.raises(BertError, match=str(bad)):
        tokenizer.decode([5, bad])


def test_a_text_over_the_maximum_is_an_error_unless_truncated(
    tokenizer: WordPieceTokenizer,
) -> None:
    text = "cat " * 600
    with pytest.raises(BertError, match="602 tokens, over the maximum of 512"):
        tokenizer.encode(text)
    assert len(tokenizer.encode(text, max_length=512)) == 512
    assert tokenizer.encode(text, max_length=5).tokens[-1] == "[SEP]"


def test_a_maximum_without_room_for_special_tokens_is_refused(
    tokenizer: WordPieceTokenizer,
) -> None:
    with pytest.raises(BertError, match="3 special tokens"):
        tokenizer.encode("cat", "cat", max_length=2)
    assert tokenizer.encode("cat", "cat", max_length=3).input_ids == [2, 3, 3]


def test_a_lone_surrogate_is_named_with_its_place(
    tokenizer: WordPieceTokenizer,
) -> None:
    with pytest.raises(BertError, match="surrogate at character 3"):
        tokenizer.encode("cat\ud800")


@given(a=st.integers(0, 50), b=st.integers(0, 50), budget=st.integers(0, 110))
def test_truncation_is_what_removing_one_by_one_gives(
    a: int, b: int, budget: int
) -> None:
    first, second = lengths_to_keep(a, b, budget)
    expected_first, expected_second = a, b
    while expected_first + expected_second > budget:
        # 一次去掉一个，总是从较长的一段去；一样长时从第一段去
        if expected_first > expected_second or (
            expected_first == expected_second and a <= b
        ):
            expected_first -= 1
        else:
            expected_second -= 1
    assert (first, second) == (expected_first, expected_second)


@pytest.mark.parametrize("lowercase", [True, False])
def test_what_is_saved_is_loaded_here_and_by_transformers(
    tmp_path: Path, lowercase: bool
) -> None:
    tokenizer = WordPieceTokenizer(TOKENS, TextRules(lowercase))
    tokenizer.save(tmp_path / "ours")
    text = "The Cats [MASK] 猫É."
    expected = tokenizer.encode(text).input_ids
    again = WordPieceTokenizer.load(tmp_path / "ours")
    assert again.encode(text).input_ids == expected
    assert find_rules(again.engine) == TextRules(lowercase)
    peer = transformers.AutoTokenizer.from_pretrained(tmp_path / "ours")
    assert peer(text)["input_ids"] == expected
    assert peer.model_max_length == 512
    peer.save_pretrained(tmp_path / "theirs")
    back = WordPieceTokenizer.load(tmp_path / "theirs")
    assert back.encode(text).input_ids == expected


def test_saving_twice_gives_the_same_bytes(
    tmp_path: Path, tokenizer: WordPieceTokenizer
) -> None:
    tokenizer.save(tmp_path / "a")
    WordPieceTokenizer.load(tmp_path / "a").save(tmp_path / "b")
    for path in (tmp_path / "a").iterdir():
        assert path.read_bytes() == (tmp_path / "b" / path.name).read_bytes()


def test_vocab_txt_alone_is_enough(tmp_path: Path) -> None:
    (tmp_path / "vocab.txt").write_text("\n".join(TOKENS) + "\n")
    tokenizer = WordPieceTokenizer.load(tmp_path)
    assert tokenizer.encode("CAT").input_ids == [2, 6, 3]
    (tmp_path / "tokenizer_config.json").write_text('{"do_lower_case": false}')
    tokenizer = WordPieceTokenizer.load(tmp_path)
    assert tokenizer.encode("CAT").input_ids == [2, 1, 3]


def test_a_line_separator_can_be_a_token(tmp_path: Path) -> None:
    tokens = [*TOKENS, "\u2028", "last"]
    (tmp_path / "vocab.txt").write_bytes(("\n".join(tokens) + "\n").encode())
    tokenizer = WordPieceTokenizer.load(tmp_path)
    assert tokenizer.token_to_id("last") == len(tokens) - 1


def test_a_fixed_padding_in_tokenizer_json_is_ignored(
    tmp_path: Path, tokenizer: WordPieceTokenizer
) -> None:
    tokenizer.engine.enable_padding(length=64)
    tokenizer.engine.enable_truncation(4)
    tokenizer.save(tmp_path)
    loaded = WordPieceTokenizer.load(tmp_path)
    assert len(loaded.encode("the cat sat.")) == 6


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda tokens: tokens[:1] + tokens[2:], r"lacks .* \[UNK\]"),
        (lambda tokens: [*tokens, "cat"], "'cat' 2 times, in lines 7, 16"),
    ],
)
@pytest.mark.parametrize("with_json", [True, False])
def test_a_spoiled_vocabulary_is_refused(
    tmp_path: Path,
    tokenizer: WordPieceTokenizer,
    spoil: "object",
    message: str,
    with_json: bool,
) -> None:
    assert callable(spoil)
    tokenizer.save(tmp_path)
    if not with_json:
        (tmp_path / "tokenizer.json").unlink()
    (tmp_path / "vocab.txt").write_text("\n".join(spoil(TOKENS)) + "\n")
    with pytest.raises(BertError, match=message):
        WordPieceTokenizer.load(tmp_path)


def test_files_of_two_vocabularies_are_refused(
    tmp_path: Path, tokenizer: WordPieceTokenizer
) -> None:
    tokenizer.save(tmp_path)
    swapped = [*TOKENS[:5], TOKENS[6], TOKENS[5], *TOKENS[7:]]
    (tmp_path / "vocab.txt").write_text("\n".join(swapped) + "\n")
    with pytest.raises(BertError, match="disagree"):
        WordPieceTokenizer.load(tmp_path)


def test_a_tokenizer_of_another_kind_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    path.write_text(json.dumps({"model": {"type": "BPE"}}))
    with pytest.raises(BertError, match="BPE tokenizer"):
        WordPieceTokenizer.load(tmp_path)


def test_a_folder_without_a_tokenizer_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BertError, match="holds no tokenizer"):
        WordPieceTokenizer.load(tmp_path)
    with pytest.raises(BertError, match="no tokenizer directory"):
        WordPieceTokenizer.load(tmp_path / "nowhere")
