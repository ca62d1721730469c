"""Attention is recomputed exactly, from what the fast kernel was given."""

from dataclasses import asdict
from pathlib import Path

import pytest
import torch
import transformers

from bert_from_scratch import (
    BertConfig,
    BertError,
    BertModel,
    WordPieceTokenizer,
)
from bert_from_scratch.analysis.attention import Trace, embedding_norms
from bert_from_scratch.model import names
from bert_from_scratch.tokenizer import Encoding

TEXT, PAIR = "the old man fed the birds .", "he was lonely 我喜欢学习"


def eager_attentions(peer: object, encoding: Encoding) -> list[torch.Tensor]:
    """Runs transformers' own explicit attention."""
    with torch.no_grad():
        output = peer(  # type: ignore[operator]
            input_ids=torch.tensor([encoding.input_ids]),
            token_type_ids=torch.tensor([encoding.token_type_ids]),
            output_attentions=True,
        )
    return [attention[0] for attention in output.attentions]


def test_weights_of_a_random_model_are_transformers_eager_ones(
    config: BertConfig, encoder: BertModel, tokenizer: WordPieceTokenizer
) -> None:
    peer = transformers.BertModel(
        transformers.BertConfig(**asdict(config), attn_implementation="eager")
    )
    tensors = {f"bert.{k}": v for k, v in encoder.state_dict().items()}
    peer.load_state_dict(
        {
            name.removeprefix("bert."): tensor
            for name, tensor in names.to_hugging_face(tensors).items()
        }
    )
    encoding = tokenizer.encode(TEXT, PAIR)
    trace = Trace.run(encoder, encoding)
    theirs = eager_attentions(peer.eval(), encoding)
    assert len(theirs) == len(trace.states) - 1 == 3
    for layer, expected in enumerate(theirs):
        torch.testing.assert_close(
            trace.weights(layer), expected, atol=1e-5, rtol=0
        )


@pytest.mark.slow
def test_weights_of_a_real_model_are_transformers_eager_ones(
    minilm_dir: Path,
) -> None:
    model = BertModel.from_pretrained(minilm_dir, required_parts=())
    tokenizer = WordPieceTokenizer.load(minilm_dir)
    peer = transformers.BertModel.from_pretrained(
        minilm_dir, attn_implementation="eager"
    )
    for text in ("The old man fed the birds.", "我喜欢学习。 " * 40):
        encoding = tokenizer.encode(text, "He was lonely.")
        trace = Trace.run(model, encoding)
        for layer, expected in enumerate(eager_attentions(peer, encoding)):
            weights = trace.weights(layer)
            torch.testing.assert_close(weights, expected, atol=1e-5, rtol=0)


def test_every_row_sums_to_one(
    encoder: BertModel, tokenizer: WordPieceTokenizer
) -> None:
    trace = Trace.run(encoder, tokenizer.encode(TEXT, PAIR))
    for layer in range(3):
        sums = trace.weights(layer).sum(-1)
        torch.testing.assert_close(sums, torch.ones_like(sums))


def test_the_last_state_is_what_the_model_says(
    encoder: BertModel, tokenizer: WordPieceTokenizer
) -> None:
    encoding = tokenizer.encode(TEXT)
    with torch.inference_mode():
        output = encoder(torch.tensor([encoding.input_ids]))
    trace = Trace.run(encoder, encoding)
    assert torch.equal(trace.states[-1], output.hidden_state)


def test_queries_and_keys_give_the_same_weights(
    encoder: BertModel, tokenizer: WordPieceTokenizer
) -> None:
    trace = Trace.run(encoder, tokenizer.encode(TEXT, PAIR))
    queries, keys = trace.queries_keys(1)
    scores = queries @ keys.transpose(1, 2) / queries.shape[-1] ** 0.5
    torch.testing.assert_close(scores.softmax(-1), trace.weights(1))


def test_norms_are_lengths_of_the_three_embeddings(
    encoder: BertModel, tokenizer: WordPieceTokenizer
) -> None:
    encoding = tokenizer.encode("man", "book")
    norms = embedding_norms(encoder, encoding)
    book = encoding.tokens.index("book")
    tables = encoder.embedding
    expected = [
        tables.token.weight[tokenizer.token_to_id("book")],
        tables.segment.weight[1],
        tables.position.weight[book],
    ]
    assert norms[book] == pytest.approx(
        [row.square().sum().sqrt().item() for row in expected]
    )
    assert len(norms) == len(encoding)


def test_numbers_that_are_not_finite_are_refused(
    config: BertConfig, tokenizer: WordPieceTokenizer
) -> None:
    broken = BertModel(config).eval()
    with torch.no_grad():
        broken.embedding.token.weight[0:] = float("nan")
    with pytest.raises(BertError, match="not finite") as caught:
        Trace.run(broken, tokenizer.encode("man"))
    assert caught.value.hint
