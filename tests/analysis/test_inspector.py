"""One inspection holds what its parts say, and keeps to its limits."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from bert_from_scratch import (
    BertError,
    BertForPreTraining,
    BertModel,
    SequenceClassifier,
    WordPieceTokenizer,
)
from bert_from_scratch.analysis import inspect_text
from bert_from_scratch.analysis.attention import Trace
from bert_from_scratch.analysis.heads import summarise_heads
from bert_from_scratch.analysis.inspector import Inspector
from bert_from_scratch.analysis.subject import Model

Build = Callable[[Model], Inspector]


def test_short_texts_are_exact_in_all_layers(
    encoder: BertModel, inspector_of: Build, tokenizer: WordPieceTokenizer
) -> None:
    text = "man " * 126
    found = inspector_of(encoder).inspect(text)
    trace = Trace.run(encoder, tokenizer.encode(text))
    assert len(found.tokens) == 128
    for layer, one in enumerate(found.maps):
        assert one.is_exact
        assert np.array_equal(one.weights, trace.weights(layer).numpy())


def test_long_texts_are_exact_in_the_chosen_layer(
    encoder: BertModel, inspector_of: Build, tokenizer: WordPieceTokenizer
) -> None:
    text = "the old man fed " * 32
    found = inspector_of(encoder).inspect(text, layer=2)
    trace = Trace.run(encoder, tokenizer.encode(text))
    assert len(found.tokens) == 130
    assert [one.is_exact for one in found.maps] == [False, True, False]
    for layer, one in enumerate(found.maps):
        expected = trace.weights(layer)
        bound = 0 if one.is_exact else 1 / 509
        assert np.abs(one.weights - expected.numpy()).max() <= bound
        # 各头的统计不受取整影响
        rows = [head for head in found.heads if head.layer == layer + 1]
        tokens = [token.token for token in found.tokens]
        assert rows == summarise_heads(expected, layer + 1, tokens)


def test_tokens_have_ids_segments_and_positions(
    encoder: BertModel, inspector_of: Build, tokenizer: WordPieceTokenizer
) -> None:
    found = inspector_of(encoder).inspect("我喜欢 学习", "the book")
    encoding = tokenizer.encode("我喜欢 学习", "the book")
    assert [t.token for t in found.tokens] == encoding.tokens
    assert [t.input_id for t in found.tokens] == encoding.input_ids
    assert [t.segment for t in found.tokens] == encoding.token_type_ids
    assert [t.position for t in found.tokens] == list(range(len(encoding)))
    assert len({t.token_norm for t in found.tokens}) > 5


def test_masks_are_filled_only_by_an_mlm_head(
    encoder: BertModel, pretrained: BertForPreTraining, inspector_of: Build
) -> None:
    text = "the [MASK] fed [MASK]"
    found = inspector_of(pretrained).inspect(text, top=3)
    assert [mask.position for mask in found.masks] == [2, 4]
    assert {len(row) for mask in found.masks for row in mask.layers} == {3}
    assert inspector_of(encoder).inspect(text).masks == ()
    assert inspector_of(pretrained).inspect("the man").masks == ()


def test_an_empty_text_is_refused(
    encoder: BertModel, inspector_of: Build
) -> None:
    for text in ("", "  \n"):
        with pytest.raises(BertError, match=r"The text is empty\."):
            inspector_of(encoder).inspect(text)
        with pytest.raises(BertError, match=r"The second text is empty\."):
            inspector_of(encoder).inspect("man", text)


def test_layers_and_heads_out_of_range_are_refused(
    encoder: BertModel, inspector_of: Build
) -> None:
    inspector = inspector_of(encoder)
    for number in (0, 4, -1):
        with pytest.raises(BertError, match=f"--layer {number} .* has 3"):
            inspector.inspect("man", layer=number)
    for number in (0, 5):
        with pytest.raises(BertError, match=f"--head {number} .* has 4"):
            inspector.inspect("man", head=number)
    with pytest.raises(BertError, match="--top"):
        inspector.inspect("man", top=0)


def test_a_label_needs_a_classifier(
    encoder: BertModel, classifier: SequenceClassifier, inspector_of: Build
) -> None:
    with pytest.raises(BertError, match="--label needs a classifier"):
        inspector_of(encoder).inspect("man", label="good")
    with pytest.raises(BertError, match="no class 'ugly'"):
        inspector_of(classifier).inspect("man", label="ugly")


def test_inspect_text_does_it_in_one_call(
    pretrained: BertForPreTraining, save: Callable[[Model], Path]
) -> None:
    directory = save(pretrained)
    found = inspect_text(directory, "the [MASK]", "he", layer=1, head=2, top=2)
    assert (found.layer, found.head) == (1, 2)
    assert found.model.num_parameters == sum(
        p.numel() for p in pretrained.parameters()
    )
    assert len(found.masks[0].layers[0]) == 2
