"""The pipeline shows the ids of the model at hand."""

from pathlib import Path

import pytest
import torch

from bert_from_scratch import BertConfig, BertError, BertModel
from bert_from_scratch.learn.language import LANGUAGES
from bert_from_scratch.learn.lesson import (
    Lesson,
    Paragraph,
    Table,
    Transcript,
)
from bert_from_scratch.learn.lessons import pipeline as lesson_module
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


def test_a_text_that_the_model_cannot_read_whole_is_refused() -> None:
    with pytest.raises(BertError, match=r"has 604 tokens, over .* 512"):
        pipeline("en", Materials(texts=("the " * 600, "cat")))


def test_a_model_without_pairs_is_refused(tmp_path: Path) -> None:
    sample = Materials().sample
    config = BertConfig.preset(
        "tiny", vocab_size=len(sample.tokenizer), type_vocab_size=1
    )
    BertModel(config).save_pretrained(tmp_path)
    sample.tokenizer.save(tmp_path)
    with pytest.raises(BertError, match="knows no pairs"):
        pipeline("en", Materials(model_dir=tmp_path))


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


def test_no_difference_is_written_as_plain_zero(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # 模型的输出全为零，差就恰好是零，与机器的舍入无关
    monkeypatch.setattr(
        lesson_module,
        "_run",
        lambda sample, batch: torch.zeros(*batch.input_ids.shape, 1),
    )
    for language in LANGUAGES:
        told = {"en": "alone is 0.", "zh": "最大的差是 0。"}[language]
        blocks = pipeline(language, Materials()).blocks
        texts = [b.text for b in blocks if isinstance(b, Paragraph)]
        assert any(text.endswith(told) for text in texts)


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
