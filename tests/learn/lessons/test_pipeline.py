"""The pipeline shows the ids of the model at hand."""

from pathlib import Path

import pytest

from bert_from_scratch.learn.lesson import Lesson, Table, Transcript
from bert_from_scratch.learn.lessons.pipeline import TRUNCATED_LENGTH, pipeline
from bert_from_scratch.learn.materials import Materials


def tables(lesson: Lesson) -> list[Table]:
    return [block for block in lesson.blocks if isinstance(block, Table)]


def transcripts(lesson: Lesson) -> list[Transcript]:
    return [block for block in lesson.blocks if isinstance(block, Transcript)]


def test_pairs_have_two_segments_and_special_tokens() -> None:
    materials = Materials(texts=("the cat", "the 猫"))
    first, *_ = tables(pipeline("en", materials))
    tokens = [row[1] for row in first.rows]
    assert tokens == [
        *("[CLS]", "the", "cat", "[SEP]", "the", "[UNK]", "[SEP]")
    ]
    assert [row[3] for row in first.rows] == list("0000111")
    vocabulary = materials.sample.tokenizer.vocabulary
    assert [int(row[2]) for row in first.rows] == [
        vocabulary[token] for token in tokens
    ]


def test_truncation_leaves_what_there_is_room_for() -> None:
    *_, cut, _ = transcripts(pipeline("en", Materials()))
    tokens = cut.lines[0].split()
    assert len(tokens) == TRUNCATED_LENGTH
    assert tokens[0] == "[CLS]"
    assert tokens.count("[SEP]") == 2


@pytest.mark.parametrize("texts", [("the cat", "the"), ("the cat", "the man")])
def test_padding_is_zero_in_the_mask(texts: tuple[str, str]) -> None:
    lesson = pipeline("zh", Materials(texts=texts))
    last = tables(lesson)[1].rows[-1]
    is_padded = len(texts[1].split()) == 1
    assert last[2] == "1"
    assert last[4] == ("0" if is_padded else "1")
    assert last[3] == ("0" if is_padded else last[1])


@pytest.mark.slow
def test_the_documents_ids_come_from_the_real_vocabulary(
    minilm_dir: Path,
) -> None:
    texts = ("Hello, how are you?", "I am fine.")
    materials = Materials(model_dir=minilm_dir, texts=texts)
    lesson = pipeline("en", materials)
    shown = transcripts(lesson)[0].lines
    assert shown[1] == "-> ['hello', ',', 'how', 'are', 'you', '?']"
    assert shown[2] == "-> [7592, 1010, 2129, 2024, 2017, 1029]"
    assert "1 × 13 × 384" in tables(lesson)[2].rows[-1]
