"""The last layer says what fill-mask says; earlier ones are read alike."""

import pytest
import torch

from bert_from_scratch import BertForPreTraining, WordPieceTokenizer
from bert_from_scratch.analysis.attention import Trace
from bert_from_scratch.analysis.mask_formation import (
    MaskFormation,
    form_masks,
)
from bert_from_scratch.predict.fill_mask import MaskFiller

TEXT = "the [MASK] fed the [MASK] ."


@pytest.fixture(scope="module")
def trace(
    pretrained: BertForPreTraining, tokenizer: WordPieceTokenizer
) -> Trace:
    return Trace.run(pretrained.bert, tokenizer.encode(TEXT))


@pytest.fixture(scope="module")
def masks(
    pretrained: BertForPreTraining, tokenizer: WordPieceTokenizer, trace: Trace
) -> list[MaskFormation]:
    return form_masks(pretrained, tokenizer, trace.states, [2, 5], top=4)


def test_the_last_layer_is_what_fill_mask_answers(
    pretrained: BertForPreTraining,
    tokenizer: WordPieceTokenizer,
    masks: list[MaskFormation],
) -> None:
    filled = MaskFiller(pretrained, tokenizer).fill(TEXT, top=4)
    assert [mask.position for mask in masks] == [2, 5]
    for mask, expected in zip(masks, filled, strict=True):
        assert mask.position == expected.position
        for guess, candidate in zip(
            mask.layers[-1], expected.candidates, strict=True
        ):
            assert guess.token == candidate.token
            assert guess.token_id == candidate.token_id
            assert guess.probability == pytest.approx(candidate.probability)


def test_every_layer_is_read_through_the_head(
    pretrained: BertForPreTraining,
    tokenizer: WordPieceTokenizer,
    trace: Trace,
    masks: list[MaskFormation],
) -> None:
    embedding = pretrained.bert.embedding.token.weight
    for layer, state in enumerate(trace.states):
        with torch.no_grad():
            logits = pretrained.mlm_head(state[0, 5], embedding)
        expected = logits.softmax(-1)
        guesses = masks[1].layers[layer]
        assert guesses[0].token_id == int(expected.argmax())
        for guess in guesses:
            assert guess.probability == pytest.approx(
                expected[guess.token_id].item(), rel=1e-4
            )
        assert tokenizer.id_to_token(guesses[0].token_id) == guesses[0].token


def test_courses_follow_the_words_of_the_answer(
    masks: list[MaskFormation],
) -> None:
    for mask in masks:
        assert len(mask.layers) == 4
        answer = mask.layers[-1]
        assert [c.token for c in mask.courses] == [g.token for g in answer]
        for course, guess in zip(mask.courses, answer, strict=True):
            assert len(course.probabilities) == 4
            assert course.probabilities[-1] == guess.probability
        for layer, guesses in enumerate(mask.layers):
            chances = {g.token: g.probability for g in guesses}
            for course in mask.courses:
                if course.token in chances:
                    found = course.probabilities[layer]
                    assert found == chances[course.token]


def test_padded_rows_of_the_vocabulary_are_never_guessed(
    pretrained: BertForPreTraining, trace: Trace
) -> None:
    specials = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    short = WordPieceTokenizer([*specials, *(f"w{n}" for n in range(15))])
    (mask,) = form_masks(pretrained, short, trace.states, [2], top=99)
    for guesses in mask.layers:
        assert len(guesses) == 20
        assert sum(g.probability for g in guesses) == pytest.approx(1)


def test_no_mask_gives_nothing(
    pretrained: BertForPreTraining, tokenizer: WordPieceTokenizer, trace: Trace
) -> None:
    assert form_masks(pretrained, tokenizer, trace.states, []) == []
