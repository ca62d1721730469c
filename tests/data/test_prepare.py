"""Files become shards: every sentence once, documents kept apart."""

import resource
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from bert_from_scratch import BertError, WordPieceTokenizer
from bert_from_scratch.corpus.documents import ReadingOptions
from bert_from_scratch.data.prepare import prepare
from bert_from_scratch.data.shards import TokenShards

TEXT = """The first document begins. It has two sentences on this line.
And a third one on the next line.

The second document is short. It ends here.
"""


@pytest.fixture(scope="module")
def tokenizer_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("tokenizer")
    lines = [TEXT, "第一句话。第二句话！第三句。", "a [SEP] b"] * 3
    WordPieceTokenizer.train(lines, 300).save(directory)
    return directory


def read_back(directory: Path) -> list[list[str]]:
    """Decodes shards to sentences by document."""
    shards = TokenShards.open(directory)
    tokenizer = WordPieceTokenizer.load(shards.tokenizer_dir)
    sentences = [
        tokenizer.decode(shards.tokens[start:end].tolist())
        for start, end in zip(
            shards.sentence_ends, shards.sentence_ends[1:], strict=False
        )
    ]
    return [
        sentences[first:last]
        for first, last in zip(
            shards.document_ends, shards.document_ends[1:], strict=False
        )
    ]


def test_documents_and_sentences_are_found(
    tmp_path: Path, tokenizer_dir: Path
) -> None:
    path = tmp_path / "a.txt"
    path.write_text(TEXT * 3, encoding="utf-8")
    options = ReadingOptions(unit="paragraph", boundary="blank")
    prepare([path], tokenizer_dir, tmp_path / "out", options=options)
    documents = read_back(tmp_path / "out")
    assert documents[0] == [
        "the first document begins.",
        "it has two sentences on this line.",
        "and a third one on the next line.",
    ]
    assert documents[1][1] == "it ends here."
    assert [len(document) for document in documents] == [3, 5, 5, 2]


def test_workers_and_chunks_do_not_change_a_byte(
    tmp_path: Path, tokenizer_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.txt"
    path.write_text((TEXT + "\n") * 200, encoding="utf-8")
    prepare([path], tokenizer_dir, tmp_path / "one", num_workers=1)
    monkeypatch.setattr(
        "bert_from_scratch.corpus.documents.CHUNK_CHARACTERS", 500
    )
    prepare([path], tokenizer_dir, tmp_path / "two", num_workers=2)
    for name in ("tokens.bin", "sentences.bin", "documents.bin", "meta.json"):
        one, two = (tmp_path / d / name for d in ("one", "two"))
        assert one.read_bytes() == two.read_bytes(), name


def test_duplicate_lines_are_counted_and_dropped_if_asked(
    tmp_path: Path, tokenizer_dir: Path
) -> None:
    path = tmp_path / "a.txt"
    path.write_text("one line\nother line\n\none line\n\nlast line\n")
    options = ReadingOptions("sentence", "blank")
    counts = prepare([path], tokenizer_dir, tmp_path / "all", options=options)
    assert (counts.num_lines, counts.num_duplicates) == (4, 1)
    assert len(read_back(tmp_path / "all")) == 3
    prepare(
        [path],
        tokenizer_dir,
        tmp_path / "less",
        options=options,
        drops_duplicates=True,
    )
    kept = read_back(tmp_path / "less")
    assert [len(document) for document in kept] == [2, 1]


def test_chinese_is_split_into_sentences_and_words(
    tmp_path: Path, tokenizer_dir: Path
) -> None:
    path = tmp_path / "a.txt"
    path.write_text("第一句话。第二句话！第三句。\n" * 3, encoding="utf-8")
    options = ReadingOptions("paragraph", "line")
    prepare(
        [path],
        tokenizer_dir,
        tmp_path / "out",
        options=options,
        marks_words=True,
    )
    shards = TokenShards.open(tmp_path / "out")
    assert shards.meta.num_sentences == 9
    assert shards.word_starts is not None
    bits = np.unpackbits(shards.word_starts)[: shards.meta.num_tokens]
    # “第一”“句话”是词：词内第二个字不是词首
    assert bits[0] == 1
    assert 0 < bits.mean() < 1


def test_a_literal_separator_is_text_and_is_reported(
    tmp_path: Path, tokenizer_dir: Path
) -> None:
    path = tmp_path / "a.txt"
    path.write_text("a [SEP] b\n")
    counts = prepare([path], tokenizer_dir, tmp_path / "out")
    assert counts.num_special == 1
    shards = TokenShards.open(tmp_path / "out")
    tokenizer = WordPieceTokenizer.load(tokenizer_dir)
    assert tokenizer.sep_token_id not in shards.tokens


def test_blank_files_and_existing_directories_are_refused(
    tmp_path: Path, tokenizer_dir: Path
) -> None:
    path = tmp_path / "a.txt"
    path.write_text(" \n\n")
    with pytest.raises(BertError, match="no text"):
        prepare([path], tokenizer_dir, tmp_path / "out")
    assert not (tmp_path / "out").exists()
    (tmp_path / "there").mkdir()
    with pytest.raises(BertError, match="exists already"):
        prepare([path], tokenizer_dir, tmp_path / "there")


def test_a_full_disk_leaves_nothing_half_made(
    tmp_path: Path, tokenizer_dir: Path
) -> None:
    path = tmp_path / "a.txt"
    path.write_text(TEXT * 3000, encoding="utf-8")
    # 以文件大小上限代替写满的磁盘：同样是写到一半出错
    limit = 20_000
    done = subprocess.run(
        [
            *(Path(sys.executable).with_name("bert"), "prepare", path),
            *("--tokenizer", tokenizer_dir, "--out", tmp_path / "data"),
        ],
        capture_output=True,
        text=True,
        preexec_fn=lambda: resource.setrlimit(
            resource.RLIMIT_FSIZE, (limit, limit)
        ),
    )
    assert done.returncode == 2
    assert "error: File too large" in done.stderr
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.txt"]
