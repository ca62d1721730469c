"""`bert tokenizer encode | decode`, and vocabularies good and bad."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest
from tokenizers import Tokenizer, models

from bert_from_scratch import WordPieceTokenizer

Bert = Callable[..., CompletedProcess[str]]

SPECIALS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
PIECES = ["the", "lamp", "##s", "lit", "灯", "亮", ".", "new", "\u2028"]
VOCABULARY = [*SPECIALS, *PIECES]


def write_vocabulary(
    directory: Path, tokens: list[str], **settings: object
) -> Path:
    directory.mkdir(exist_ok=True)
    text = "".join(f"{token}\n" for token in tokens)
    (directory / "vocab.txt").write_bytes(text.encode())
    (directory / "tokenizer_config.json").write_text(json.dumps(settings))
    return directory


@pytest.fixture
def tokenizer_dir(tmp_path: Path) -> Path:
    """A vocabulary small enough to work ids out by hand."""
    return write_vocabulary(
        tmp_path / "tokenizer", VOCABULARY, model_max_length=8
    )


@pytest.fixture
def json_dir(tokenizer_dir: Path) -> Path:
    """The same vocabulary, with all three files."""
    WordPieceTokenizer.load(tokenizer_dir).save(tokenizer_dir)
    return tokenizer_dir


def assert_refused(
    result: CompletedProcess[str], *parts: str, hint: str | None = None
) -> None:
    """Checks status, a clean stdout, and the last lines of stderr."""
    assert result.returncode == 2
    assert result.stdout == ""
    lines = [
        line
        for line in result.stderr.splitlines()
        if line.startswith(("error: ", "hint: "))
    ]
    assert lines[0].startswith("error: ")
    for part in parts:
        assert part in lines[0]
    if hint is not None:
        assert lines[1].startswith("hint: ")
        assert hint in lines[1]


# 编码


def test_encoding_prints_json_in_both_forms(
    bert: Bert, tokenizer_dir: Path
) -> None:
    command = ("tokenizer", "encode", tokenizer_dir, "The lamps 灯亮!")
    line, many = bert(*command, "--json"), bert(*command)
    assert line.returncode == many.returncode == 0
    assert line.stdout.count("\n") == 1
    assert many.stdout.count("\n") == 8
    assert line.stderr == many.stderr == ""
    expected = {
        "tokens": ["[CLS]", "the", "lamp", "##s", "灯", "亮", "[UNK]", "[SEP]"],
        "input_ids": [2, 5, 6, 7, 9, 10, 1, 3],
        "token_type_ids": [0] * 8,
        "attention_mask": [1] * 8,
        "offsets": [
            *([0, 0], [0, 3], [4, 8], [8, 9]),
            *([10, 11], [11, 12], [12, 13], [0, 0]),
        ],
        "word_ids": [None, 0, 1, 1, 2, 3, 4, None],
    }
    assert json.loads(line.stdout) == json.loads(many.stdout) == expected


def encode(bert: Bert, *args: object) -> dict[str, Any]:
    result = bert("tokenizer", "encode", *args, "--json")
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


def test_a_pair_has_two_segments(bert: Bert, tokenizer_dir: Path) -> None:
    encoding = encode(bert, tokenizer_dir, "the lamp", "--pair", "lit.")
    assert encoding["input_ids"] == [2, 5, 6, 3, 8, 11, 3]
    assert encoding["token_type_ids"] == [0, 0, 0, 0, 1, 1, 1]


def test_an_empty_text_has_two_tokens(bert: Bert, tokenizer_dir: Path) -> None:
    assert encode(bert, tokenizer_dir, "")["input_ids"] == [2, 3]


def test_a_text_over_the_maximum_is_refused_unless_told_to_truncate(
    bert: Bert, tokenizer_dir: Path
) -> None:
    fits, long = " ".join(["lamp"] * 6), " ".join(["lamp"] * 7)
    assert len(encode(bert, tokenizer_dir, fits)["input_ids"]) == 8
    result = bert("tokenizer", "encode", tokenizer_dir, long)
    assert_refused(result, "9 tokens", "maximum of 8", hint="--max-length 8")
    short = encode(bert, tokenizer_dir, long, "--max-length", 4)
    assert short["input_ids"] == [2, 6, 6, 3]


def test_the_longer_of_a_pair_is_truncated_first(
    bert: Bert, tokenizer_dir: Path
) -> None:
    pair = ("--pair", "lit", "--max-length", 6)
    encoding = encode(bert, tokenizer_dir, "the lamp the lamp", *pair)
    assert encoding["input_ids"] == [2, 5, 6, 3, 8, 3]


@pytest.mark.parametrize("max_length", [1, 0, -3])
def test_a_maximum_without_room_for_special_tokens_is_refused(
    bert: Bert, tokenizer_dir: Path, max_length: int
) -> None:
    result = bert(
        "tokenizer", "encode", tokenizer_dir, "a", f"--max-length={max_length}"
    )
    assert_refused(result, f"max_length={max_length}", "2 special tokens")


def test_a_text_that_is_not_unicode_is_refused(
    bert: Bert, tokenizer_dir: Path
) -> None:
    # shell 传来的非 UTF-8 字节在 Python 里是孤立代理
    result = bert("tokenizer", "encode", tokenizer_dir, "ab\udcff")
    assert_refused(result, "surrogate at character 2")


# 解码


def test_decoding_joins_pieces(bert: Bert, tokenizer_dir: Path) -> None:
    command = ("tokenizer", "decode", tokenizer_dir, 2, 5, 6, 7, 8, 11, 3)
    assert bert(*command).stdout == "the lamps lit.\n"
    assert bert(*command, "--special").stdout == "[CLS] the lamps lit. [SEP]\n"
    assert json.loads(bert(*command, "--json").stdout) == {
        "text": "the lamps lit.",
        "tokens": ["[CLS]", "the", "lamp", "##s", "lit", ".", "[SEP]"],
    }


@pytest.mark.parametrize("token_id", [14, 5000, -1, -14])
def test_an_id_out_of_range_is_refused(
    bert: Bert, tokenizer_dir: Path, token_id: int
) -> None:
    result = bert("tokenizer", "decode", tokenizer_dir, "--", 5, token_id)
    assert_refused(result, f"Token id {token_id} ", "0 ... 13")


@pytest.mark.parametrize("token_id", [2**32, 10**20])
def test_an_id_beyond_32_bits_is_refused_too(
    bert: Bert, tokenizer_dir: Path, token_id: int
) -> None:
    result = bert("tokenizer", "decode", tokenizer_dir, token_id)
    assert_refused(result, f"Token id {token_id} ", "0 ... 13")


@pytest.mark.parametrize("args", [("x",), ("1.5",), ()])
def test_ids_must_be_whole_numbers(
    bert: Bert, tokenizer_dir: Path, args: tuple[str, ...]
) -> None:
    result = bert("tokenizer", "decode", tokenizer_dir, *args)
    assert result.returncode == 2
    assert result.stdout == ""


# 词表文件


@pytest.mark.parametrize("token", SPECIALS)
def test_a_vocabulary_without_a_special_token_is_refused(
    bert: Bert, tmp_path: Path, token: str
) -> None:
    tokens = [t for t in VOCABULARY if t != token]
    directory = write_vocabulary(tmp_path / "tokenizer", tokens)
    for command in (("encode", directory, "a"), ("decode", directory, 1)):
        assert_refused(
            bert("tokenizer", *command),
            str(directory / "vocab.txt"),
            f"lacks the special tokens {token}.",
            hint="[PAD] [UNK] [CLS] [SEP] [MASK]",
        )


def test_a_vocabulary_with_duplicates_is_refused_with_their_lines(
    bert: Bert, tmp_path: Path
) -> None:
    tokens = [*VOCABULARY, "lamp", "more", "lamp"]
    directory = write_vocabulary(tmp_path / "tokenizer", tokens)
    assert_refused(
        bert("tokenizer", "encode", directory, "lamp"),
        str(directory / "vocab.txt"),
        "'lamp' 3 times, in lines 7, 15, 17.",
        hint="once",
    )


def test_a_vocabulary_may_have_other_line_ends_and_odd_tokens(
    bert: Bert, tokenizer_dir: Path
) -> None:
    path = tokenizer_dir / "vocab.txt"
    path.write_bytes(
        b"\xef\xbb\xbf" + path.read_bytes().replace(b"\n", b"\r\n")
    )
    encoding = encode(bert, tokenizer_dir, "new lamps")
    assert encoding["input_ids"] == [2, 12, 6, 7, 3]
    assert bert("tokenizer", "decode", tokenizer_dir, 13).returncode == 0


def test_a_vocabulary_is_read_by_its_own_settings(
    bert: Bert, tmp_path: Path
) -> None:
    directory = tmp_path / "tokenizer"
    write_vocabulary(directory, VOCABULARY, do_lower_case=False)
    assert encode(bert, directory, "The lamp")["input_ids"] == [2, 1, 6, 3]
    write_vocabulary(directory, VOCABULARY)
    assert encode(bert, directory, "The lamp")["input_ids"] == [2, 5, 6, 3]


@pytest.mark.parametrize("data", [b"", b"[PAD]\n[UNK]\xff\n"])
def test_a_damaged_vocabulary_is_refused_by_name(
    bert: Bert, tokenizer_dir: Path, data: bytes
) -> None:
    path = tokenizer_dir / "vocab.txt"
    path.write_bytes(data)
    assert_refused(bert("tokenizer", "encode", tokenizer_dir, "a"), str(path))


def test_a_folder_without_a_tokenizer_is_refused(
    bert: Bert, tmp_path: Path
) -> None:
    assert_refused(
        bert("tokenizer", "encode", tmp_path, "a"), str(tmp_path), "vocab.txt"
    )
    assert_refused(
        bert("tokenizer", "decode", tmp_path / "gone", 1),
        "no tokenizer directory",
    )


def test_two_files_that_disagree_are_refused(
    bert: Bert, json_dir: Path
) -> None:
    tokens = VOCABULARY.copy()
    tokens[5], tokens[6] = tokens[6], tokens[5]
    (json_dir / "vocab.txt").write_text("\n".join(tokens), encoding="utf-8")
    assert_refused(
        bert("tokenizer", "encode", json_dir, "a"), "'lamp' is line 6, but id 6"
    )


def test_a_tokenizer_of_another_kind_is_refused_by_name(
    bert: Bert, tmp_path: Path
) -> None:
    Tokenizer(models.BPE()).save(str(tmp_path / "tokenizer.json"))
    result = bert("tokenizer", "encode", tmp_path, "a")
    assert_refused(result, str(tmp_path / "tokenizer.json"), "BPE", "WordPiece")


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[]",
        '{"model": {"type": "WordPiece"}}',
        '{"model": null}',
        '{"model": "WordPiece"}',
    ],
)
def test_a_damaged_tokenizer_json_is_refused_by_name(
    bert: Bert, json_dir: Path, content: str
) -> None:
    path = json_dir / "tokenizer.json"
    path.write_text(content)
    assert_refused(bert("tokenizer", "encode", json_dir, "a"), str(path))


def test_a_truncated_tokenizer_json_is_refused_by_name(
    bert: Bert, json_dir: Path
) -> None:
    path = json_dir / "tokenizer.json"
    path.write_text(path.read_text()[:-200])
    assert_refused(bert("tokenizer", "encode", json_dir, "a"), str(path))


def test_the_older_tokenizer_json_without_a_type_is_read(
    bert: Bert, json_dir: Path
) -> None:
    path = json_dir / "tokenizer.json"
    values = json.loads(path.read_text())
    del values["model"]["type"]
    path.write_text(json.dumps(values))
    assert encode(bert, json_dir, "the lamps")["input_ids"] == [2, 5, 6, 7, 3]


def test_a_run_directory_serves_as_its_tokenizer(
    bert: Bert, tokenizer_dir: Path, tmp_path: Path
) -> None:
    shutil.copytree(tokenizer_dir, tmp_path / "run" / "model")
    assert encode(bert, tmp_path / "run", "lit")["input_ids"] == [2, 8, 3]
