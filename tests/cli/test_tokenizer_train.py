"""`bert tokenizer train`: the same text, the same bytes; bad text, an error."""

import gzip
import json
import lzma
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pytest
import zstandard

from bert_from_scratch import WordPieceTokenizer
from bert_from_scratch.corpus.files import BLOCK_BYTES

Bert = Callable[..., CompletedProcess[str]]

FILES = ["tokenizer.json", "tokenizer_config.json", "vocab.txt"]
SPECIALS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]


def contents(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir()}


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


def test_training_writes_three_files_and_keeps_stdout_clean(
    bert: Bert, corpus_path: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    result = bert("tokenizer", "train", corpus_path, "--out", out)
    assert result.returncode == 0
    assert result.stdout == ""
    assert str(out) in result.stderr.replace("\n", "")
    assert sorted(contents(out)) == FILES
    assert len(WordPieceTokenizer.load(out)) > 80


def test_training_reports_json(
    bert: Bert, corpus_path: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    result = bert(
        *("tokenizer", "train", corpus_path, "--out", out),
        *("--vocab-size", 90, "--json"),
    )
    assert json.loads(result.stdout) == {"vocab_size": 90, "out": str(out)}
    vocabulary = (out / "vocab.txt").read_text().split("\n")
    assert vocabulary[:5] == SPECIALS
    assert len(vocabulary[:-1]) == 90


def test_training_warns_when_the_text_gives_fewer_pieces(
    bert: Bert,
    corpus_path: Path,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    result = bert(
        *("tokenizer", "train", corpus_path, "--out", tmp_path / "out"),
        *("--vocab-size", 5000, "--json"),
    )
    vocab_size = json.loads(result.stdout)["vocab_size"]
    assert vocab_size < 5000
    assert f"has {vocab_size} entries instead of 5000" in caplog.text


def test_five_fresh_processes_learn_the_same_bytes(
    program: Bert, tmp_path: Path
) -> None:
    # 大量同频的词：合并的先后若随哈希次序变，结果就会不同
    words = [
        a + b + c + d
        for a in ("qu", "st", "br")
        for b in ("ae", "io", "ua")
        for c in ("nk", "lm", "rv")
        for d in ("y", "ez", "ox")
    ]
    lines = [
        " ".join(words),
        " ".join(reversed(words)),
        "看灯人点亮了灯，",
        "Café",
    ]
    path = tmp_path / "corpus.txt"
    path.write_text("\n".join(lines * 2), encoding="utf-8")
    results = []
    for seed in ("0", "1", "2", "3", "random"):
        out = tmp_path / f"out-{seed}"
        result = program(
            *("tokenizer", "train", path, "--out", out, "--vocab-size", 110),
            PYTHONHASHSEED=seed,
        )
        assert result.returncode == 0, result.stderr
        results.append(contents(out))
    assert sorted(results[0]) == FILES
    assert len(results[0]["vocab.txt"].decode().split("\n")[:-1]) == 110
    assert all(result == results[0] for result in results)


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("corpus.txt.gz", gzip.compress),
        ("corpus.txt.xz", lzma.compress),
        ("corpus.txt.zst", zstandard.compress),
        ("crlf.txt", lambda data: data.replace(b"\n", b"\r\n")),
        ("bom.txt", lambda data: b"\xef\xbb\xbf" + data),
    ],
)
def test_the_form_of_a_file_does_not_change_the_vocabulary(
    bert: Bert,
    corpus_path: Path,
    tmp_path: Path,
    name: str,
    change: Callable[[bytes], bytes],
) -> None:
    path = tmp_path / "other" / name
    path.parent.mkdir()
    path.write_bytes(change(corpus_path.read_bytes()))
    outs = [tmp_path / "one", tmp_path / "two"]
    for source, out in zip((corpus_path, path.parent), outs, strict=True):
        result = bert(
            *("tokenizer", "train", source, "--out", out),
            *("--vocab-size", 90),
        )
        assert result.returncode == 0
    assert contents(outs[0]) == contents(outs[1])


def test_cased_keeps_capitals_and_accents(bert: Bert, tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("Café Café\n")
    for option, expected in (("--cased", "Café"), (None, "cafe")):
        out = tmp_path / str(option)
        options = [option] if option else []
        bert("tokenizer", "train", path, "--out", out, *options)
        assert expected in (out / "vocab.txt").read_text().split("\n")
        tokens = bert("tokenizer", "encode", out, "Café", "--json")
        assert json.loads(tokens.stdout)["tokens"][1] == expected


def test_a_line_over_a_megabyte_is_learned_from(
    bert: Bert, tmp_path: Path
) -> None:
    path = tmp_path / "a.txt"
    path.write_text("看灯人 lamps " * 80_000)
    assert path.stat().st_size > BLOCK_BYTES
    out = tmp_path / "out"
    result = bert("tokenizer", "train", path, "--out", out)
    assert result.returncode == 0
    vocabulary = (out / "vocab.txt").read_text().split("\n")
    assert {"看", "灯", "人", "lamps"} <= set(vocabulary)


def test_a_vocabulary_smaller_than_the_alphabet_is_refused(
    bert: Bert, tmp_path: Path
) -> None:
    path = tmp_path / "a.txt"
    path.write_text("ab ba。\n" * 3)
    out = tmp_path / "out"
    command = ("tokenizer", "train", path, "--out", out, "--vocab-size")
    # 手算：a b 。三个字，##a ##b 两个，加五个特殊词，共十个
    assert_refused(
        bert(*command, 9),
        "vocab_size=9",
        "3 characters + 2 ## forms + 5 specials = 10",
        hint="--vocab-size",
    )
    assert not out.exists()
    assert bert(*command, 10).returncode == 0
    assert bert(*command, -1).returncode == 2


def test_rare_characters_can_be_dropped(bert: Bert, tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("ab ba\n" * 3 + "z\n")
    command = ("tokenizer", "train", path, "--out", tmp_path / "out")
    options = ("--vocab-size", 9, "--min-char-count", 2)
    assert_refused(bert(*command, "--vocab-size", 9), "= 11")
    assert bert(*command, *options).returncode == 0


def test_dropping_every_character_is_not_blamed_on_the_file(
    bert: Bert, corpus_path: Path, tmp_path: Path
) -> None:
    result = bert(
        *("tokenizer", "train", corpus_path, "--out", tmp_path / "out"),
        *("--min-char-count", 10**9),
    )
    assert_refused(result, hint="--min-char-count")


@pytest.mark.parametrize("text", [b"", b"\n\n", b" \r\n\t\n", b"\xef\xbb\xbf"])
def test_an_empty_file_is_refused(
    bert: Bert, tmp_path: Path, text: bytes
) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(text)
    out = tmp_path / "out"
    result = bert("tokenizer", "train", path, "--out", out)
    assert_refused(result, "no characters", hint="empty")
    assert not out.exists()


def test_a_missing_file_is_refused(bert: Bert, tmp_path: Path) -> None:
    path = tmp_path / "gone.txt"
    result = bert("tokenizer", "train", path, "--out", tmp_path / "out")
    assert_refused(result, "no file or folder", str(path))


def test_a_folder_without_text_is_refused(bert: Bert, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    folder = tmp_path / "empty"
    result = bert("tokenizer", "train", folder, "--out", tmp_path / "out")
    assert_refused(result, "holds no text files", str(folder), hint=".txt.gz")


def test_bytes_that_are_not_utf_8_stop_training_or_are_replaced(
    bert: Bert, corpus_path: Path, tmp_path: Path
) -> None:
    size = corpus_path.stat().st_size
    corpus_path.write_bytes(corpus_path.read_bytes() + b"caf\xe9 caf\xe9\n")
    out = tmp_path / "out"
    command = ("tokenizer", "train", corpus_path, "--out", out)
    result = bert(*command)
    assert_refused(
        result, str(corpus_path), f"byte {size + 3} ", hint="--errors replace"
    )
    assert not out.exists()
    assert bert(*command, "--errors", "replace").returncode == 0
    assert sorted(contents(out)) == FILES


def test_a_failed_training_leaves_the_old_vocabulary_whole(
    bert: Bert, corpus_path: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    assert bert("tokenizer", "train", corpus_path, "--out", out).returncode == 0
    before = contents(out)
    corpus_path.write_bytes(b"\xff")
    assert bert("tokenizer", "train", corpus_path, "--out", out).returncode == 2
    assert contents(out) == before
    assert {path.name for path in tmp_path.iterdir()} == {"corpus.txt", "out"}


def test_a_file_as_out_is_refused_and_kept(
    bert: Bert, corpus_path: Path
) -> None:
    before = corpus_path.read_bytes()
    result = bert("tokenizer", "train", corpus_path, "--out", corpus_path)
    assert_refused(result, f"{corpus_path} is a file")
    assert corpus_path.read_bytes() == before


def test_a_file_as_out_is_refused_before_the_training(
    bert: Bert, corpus_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def train(*args: object, **kwargs: object) -> None:
        pytest.fail("trained first")

    monkeypatch.setattr(WordPieceTokenizer, "train", train)
    result = bert("tokenizer", "train", corpus_path, "--out", corpus_path)
    assert_refused(result, "is a file")


def test_an_out_that_cannot_be_made_is_refused(
    bert: Bert, corpus_path: Path
) -> None:
    out = corpus_path / "below"
    result = bert("tokenizer", "train", corpus_path, "--out", out)
    assert_refused(result, str(corpus_path))


@pytest.mark.parametrize("min_count", [-1, 10**30])
def test_a_count_that_makes_no_sense_is_refused(
    bert: Bert, corpus_path: Path, tmp_path: Path, min_count: int
) -> None:
    result = bert(
        *("tokenizer", "train", corpus_path, "--out", tmp_path / "out"),
        f"--min-count={min_count}",
    )
    assert result.returncode == 2
    assert "min" in result.stderr


def test_training_again_does_not_read_its_own_vocabulary(
    bert: Bert, corpus_path: Path
) -> None:
    folder = corpus_path.parent
    command = ("tokenizer", "train", folder, "--out", folder / "out")
    assert bert(*command).returncode == 0
    before = contents(folder / "out")
    assert bert(*command).returncode == 0
    assert contents(folder / "out") == before
