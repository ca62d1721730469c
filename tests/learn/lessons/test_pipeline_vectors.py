"""The vectors shown are those that the model computes."""

import numpy as np
import pytest
import torch

from bert_from_scratch.data.batch import pad
from bert_from_scratch.learn.language import LANGUAGES, Language
from bert_from_scratch.learn.lesson import Matrix, Paragraph, Transcript
from bert_from_scratch.learn.lessons.pipeline import pipeline
from bert_from_scratch.learn.lessons.pipeline_vectors import (
    align,
    show_encoder,
)
from bert_from_scratch.learn.materials import Materials
from bert_from_scratch.learn.sample_model import SampleModel


def test_layer_norm_makes_every_vector_as_long_as_its_width_asks() -> None:
    lesson = pipeline("en", Materials())
    (lengths,) = [b for b in lesson.blocks if isinstance(b, Matrix)]
    assert lengths.values[:, -1] == pytest.approx(
        np.full(len(lengths.rows), np.sqrt(128)), rel=1e-4
    )


def test_the_cls_vector_shown_is_the_models_output() -> None:
    sample = SampleModel.make()
    encoding = sample.tokenizer.encode("the cat", "the man")
    *_, last = show_encoder("en", sample, encoding)
    assert isinstance(last, Transcript)
    with torch.inference_mode():
        output = sample.model(**pad([encoding]).inputs())
    numbers = output.hidden_state[0, 0, :2].tolist()
    assert f"{numbers[0]:+.3f}, {numbers[1]:+.3f}" in last.lines[0]
    assert last.lines[1].startswith("the ")


def test_numbers_stand_below_each_other_where_characters_are_wide() -> None:
    # 终端里一个汉字占两格：我 + 3 个空格与 [CLS] 同宽
    assert align(["[CLS]", "我"], ["x", "y"]) == ("[CLS]  x", "我     y")
    assert align(["a", "猫##"], ["x", "y"]) == ("a     x", "猫##  y")


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_length_after_layer_norm_is_explained(language: Language) -> None:
    texts = [
        block.text
        for block in pipeline(language, Materials()).blocks
        if isinstance(block, Paragraph)
    ]
    (text,) = [text for text in texts if "√128 = 11.31" in text]
    assert "LayerNorm" in text
    assert (", S" in text) == (language == "en")
