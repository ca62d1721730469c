"""A subject holds what its directory holds, and nothing drawn afresh."""

import json
import logging
import shutil
from pathlib import Path

import pytest

from bert_from_scratch import (
    BertConfig,
    BertError,
    BertForPreTraining,
    SequenceClassifier,
    TokenClassifier,
    WordPieceTokenizer,
)
from bert_from_scratch.analysis.verify.subject import DEFAULT_TEXTS, Subject

from .conftest import MakeDir

ENGLISH, CHINESE = DEFAULT_TEXTS


def save_with(directory: Path, lines: list[str]) -> Path:
    """Writes a small model whose vocabulary comes from these lines."""
    tokenizer = WordPieceTokenizer.train(lines * 4, 80)
    config = BertConfig.preset("tiny", vocab_size=len(tokenizer))
    BertForPreTraining(config).save_pretrained(directory)
    tokenizer.save(directory)
    return directory


@pytest.mark.parametrize(
    ("line", "texts"),
    [
        ("the man reads the book.", (ENGLISH,)),
        ("我喜欢学习人工智能", (CHINESE,)),
        ("QVQLVESGGG", (ENGLISH,)),
    ],
)
def test_the_default_texts_are_those_that_the_vocabulary_knows(
    tmp_path: Path, line: str, texts: tuple[str, ...]
) -> None:
    subject = Subject.load(save_with(tmp_path, [line]))
    assert subject.texts == texts


def test_a_vocabulary_of_both_languages_gets_both_texts(
    subject: Subject,
) -> None:
    assert subject.texts == DEFAULT_TEXTS
    assert subject.encodings[1].tokens == [
        *("[CLS]", *"我喜欢学习人工", "[MASK]", "[SEP]")
    ]


def test_the_model_is_ready_to_be_measured(subject: Subject) -> None:
    assert not subject.bert.training
    assert subject.pretraining is not None
    assert subject.pretraining.bert is subject.bert
    assert subject.has_pooler
    assert subject.has_nsp_head


def test_a_run_directory_is_as_good_as_its_model(
    make_dir: MakeDir, tmp_path: Path
) -> None:
    (tmp_path / "model").symlink_to(make_dir("tiny"))
    assert Subject.load(tmp_path).pretraining is not None


def test_heads_of_tasks_are_passed_over(
    tokenizer: WordPieceTokenizer,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    config = BertConfig.preset("tiny", vocab_size=len(tokenizer))
    models = {
        "texts": SequenceClassifier(config, ["bad", "good"]),
        "tags": TokenClassifier(config, ["O", "B-PER"]),
    }
    for name, model in models.items():
        model.save_pretrained(tmp_path / name)
        tokenizer.save(tmp_path / name)
    with caplog.at_level(logging.WARNING):
        texts = Subject.load(tmp_path / "texts")
        tags = Subject.load(tmp_path / "tags")
    assert texts.pretraining is None
    assert (texts.has_pooler, tags.has_pooler) == (True, False)
    # 没有的部分换成恒等映射，也就没有“随机初始化”的警告
    assert not caplog.records


@pytest.mark.parametrize("text", ["", " \n "])
def test_an_empty_text_is_refused(make_dir: MakeDir, text: str) -> None:
    with pytest.raises(BertError, match="empty"):
        Subject.load(make_dir("tiny"), [text])


def test_a_text_that_is_too_long_is_refused_with_its_length(
    make_dir: MakeDir,
) -> None:
    with pytest.raises(BertError, match="513 tokens, over the maximum of 512"):
        Subject.load(make_dir("tiny"), ["man " * 511])


def test_made_sequences_are_words_between_cls_and_sep(
    subject: Subject,
) -> None:
    cls, sep = subject.tokenizer.cls_token_id, subject.tokenizer.sep_token_id
    assert subject.sequence(1).input_ids == [cls]
    assert subject.sequence(2).input_ids == [cls, sep]
    ids = subject.sequence(50).input_ids
    assert len(ids) == 50
    assert (ids[0], ids[-1]) == (cls, sep)
    assert set(ids[1:-1]) & subject.special_ids == {sep}


def test_made_sequences_are_pairs_where_the_model_knows_pairs(
    subject: Subject,
) -> None:
    made = subject.sequence(9)
    sep = subject.tokenizer.sep_token_id
    assert made.token_type_ids == [0] * 5 + [1] * 4
    assert [place for place, i in enumerate(made.input_ids) if i == sep] == [
        4,
        8,
    ]
    assert subject.sequence(4).token_type_ids == [0] * 4
    longest = subject.longest()
    assert len(longest.input_ids) == subject.config.max_position_embeddings


def test_a_model_of_two_positions_is_refused(
    make_dir: MakeDir, tmp_path: Path
) -> None:
    directory = shutil.copytree(make_dir("tiny"), tmp_path / "model")
    values = json.loads((directory / "config.json").read_text())
    values["max_position_embeddings"] = 2
    (directory / "config.json").write_text(json.dumps(values))
    with pytest.raises(BertError, match="has 2 positions; 3 are the fewest"):
        Subject.load(directory)


def test_one_token_is_hidden_where_the_text_hides_none(
    make_dir: MakeDir,
) -> None:
    subject = Subject.load(make_dir("tiny"), ["the man reads", "the [MASK]"])
    mask_id = subject.tokenizer.mask_token_id
    ids, place = subject.hide_one(subject.encodings[0])
    assert ids[place] == mask_id
    assert subject.encodings[0].input_ids[place] != mask_id
    ids, place = subject.hide_one(subject.encodings[1])
    assert (ids, place) == (subject.encodings[1].input_ids, 2)
