"""What a person is told: columns that cannot be right."""

import logging
from pathlib import Path

import pytest

from bert_from_scratch import WordPieceTokenizer
from bert_from_scratch.data.tasks.examples import TagExample, TextExample
from bert_from_scratch.finetune.advice import warn_of_many_labels
from bert_from_scratch.finetune.classification import ClassificationTask
from bert_from_scratch.finetune.loading import read_examples
from bert_from_scratch.finetune.pictures import draw_scatter
from bert_from_scratch.finetune.tagging import TaggingTask

TOKENIZER = WordPieceTokenizer(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"])


@pytest.mark.parametrize(("num_labels", "is_warned"), [(40, True), (10, False)])
def test_a_label_for_every_text_is_a_wrong_column(
    num_labels: int, is_warned: bool, caplog: pytest.LogCaptureFixture
) -> None:
    train = [
        TextExample("a", None, (f"text {n % num_labels}",), "")
        for n in range(60)
    ]
    task = ClassificationTask.for_data(TOKENIZER, train, [])
    with caplog.at_level(logging.WARNING):
        warn_of_many_labels(task, train)
    assert ("40 labels for 60 texts" in caplog.text) is is_warned


def test_words_that_are_taken_for_tags_are_noticed(
    caplog: pytest.LogCaptureFixture,
) -> None:
    words = tuple(f"word{n}" for n in range(30))
    train = [TagExample(words, words, 0, "")]
    task = TaggingTask(TOKENIZER, words)
    with caplog.at_level(logging.WARNING):
        warn_of_many_labels(task, train)
    assert "30 labels for 30 words" in caplog.text


def test_columns_of_a_folder_are_said_to_have_no_meaning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for label in ("pos", "neg"):
        (tmp_path / label).mkdir()
        (tmp_path / label / "1.txt").write_text("a text")
    with caplog.at_level(logging.WARNING):
        read_examples("classify", tmp_path, {"text": "text", "label": "x"})
    assert "columns have no meaning" in caplog.text
    caplog.clear()
    read_examples("classify", tmp_path, {})
    assert not caplog.text


def test_numbers_are_drawn_as_a_cloud(tmp_path: Path) -> None:
    path = tmp_path / "scatter.png"
    assert draw_scatter([0.0, 2.5, 5.0], [0.4, 2.0, 4.1], path)
    assert path.read_bytes().startswith(b"\x89PNG")
