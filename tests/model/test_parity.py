"""Our numbers are Hugging Face's: every output, loss and gradient."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from bert_from_scratch import BertConfig, BertForPreTraining, BertModel
from bert_from_scratch.data.batch import IGNORE_INDEX, Batch
from bert_from_scratch.model import names

TOLERANCE = {torch.float32: 1e-5, torch.float64: 1e-10}


@dataclass(frozen=True)
class Example:
    """A padded batch with labels, and the keyword arguments of its peer."""

    batch: Batch
    real: Tensor
    theirs: dict[str, Tensor]


def make_example(
    config: BertConfig, num_rows: int, length: int, pair: bool, seed: int
) -> Example:
    """Draws a batch with padding anywhere and its original positions."""
    generator = torch.Generator().manual_seed(seed)
    shape = (num_rows, length)
    input_ids = torch.randint(config.vocab_size, shape, generator=generator)
    types = torch.zeros(shape, dtype=torch.long)
    if pair:
        types[:, length // 2 :] = 1
    real = torch.rand(shape, generator=generator) < 0.8
    real[:, 0] = True
    hidden = (torch.rand(shape, generator=generator) < 0.3) & real
    hidden[0, 0] = True
    nsp_labels = torch.randint(2, (num_rows,), generator=generator)
    batch = Batch(
        input_ids=input_ids,
        token_type_ids=types,
        position_ids=torch.arange(length).expand(shape),
        attention_mask=real,
        max_seqlen=length,
        mlm_positions=hidden.flatten().nonzero().flatten(),
        mlm_labels=input_ids[hidden],
        nsp_labels=nsp_labels,
    )
    labels = torch.where(hidden, input_ids, IGNORE_INDEX)
    theirs = {
        "input_ids": input_ids,
        "token_type_ids": types,
        "attention_mask": real.long(),
        "labels": labels,
        "next_sentence_label": nsp_labels,
    }
    return Example(batch, real, theirs)


def make_peer(config: BertConfig, ours: BertForPreTraining) -> Any:
    """Builds Hugging Face's model with our weights."""
    peer = transformers.BertForPreTraining(
        transformers.BertConfig(**asdict(config))
    ).to(next(ours.parameters()).dtype)
    missing, unexpected = peer.load_state_dict(
        names.to_hugging_face(ours.state_dict()), strict=False
    )
    assert not unexpected
    assert set(missing) <= {
        "cls.predictions.decoder.weight",
        "cls.predictions.decoder.bias",
    }
    return peer


def assert_close(ours: Tensor, theirs: Tensor, what: str) -> None:
    ours, theirs = ours.detach(), theirs.detach()
    bound = TOLERANCE[ours.dtype] * max(1.0, float(theirs.abs().max()))
    difference = float((ours - theirs).abs().max())
    assert difference <= bound, f"{what}: {difference:.3g} > {bound:.3g}"


def roughen(model: torch.nn.Module) -> None:
    """Moves biases and LayerNorms off their neutral starting values."""
    generator = torch.Generator().manual_seed(7)
    with torch.no_grad():
        for parameter in model.parameters():
            noise = torch.randn(parameter.shape, generator=generator)
            parameter.add_(noise * 0.05)


configs = st.builds(
    lambda width, heads, **rest: BertConfig(
        hidden_size=width * heads, num_attention_heads=heads, **rest
    ),
    width=st.sampled_from([4, 8, 16]),
    heads=st.integers(1, 5),
    vocab_size=st.integers(30, 200),
    num_hidden_layers=st.integers(1, 4),
    intermediate_size=st.integers(3, 90),
    hidden_act=st.sampled_from(
        ["gelu", "gelu_new", "gelu_pytorch_tanh", "gelu_fast", "relu"]
    ),
    max_position_embeddings=st.integers(24, 40),
    hidden_dropout_prob=st.just(0.0),
    attention_probs_dropout_prob=st.just(0.0),
)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@settings(max_examples=25, deadline=None)
@given(
    config=configs,
    num_rows=st.integers(1, 4),
    length=st.integers(1, 24),
    pair=st.booleans(),
    seed=st.integers(0, 10**6),
)
def test_every_output_loss_and_gradient_is_hugging_faces(
    dtype: torch.dtype,
    config: BertConfig,
    num_rows: int,
    length: int,
    pair: bool,
    seed: int,
) -> None:
    torch.manual_seed(seed)
    ours = BertForPreTraining(config).to(dtype)
    roughen(ours)
    peer = make_peer(config, ours)
    example = make_example(config, num_rows, length, pair, seed)
    real = example.real

    theirs = peer(**example.theirs, output_hidden_states=True)
    x, layout = ours.bert.embed(**example.batch.inputs())
    states = ours.bert.encoder.hidden_states(x, layout)
    for layer, (a, b) in enumerate(
        zip(states, theirs.hidden_states, strict=True)
    ):
        assert_close(a[real], b[real], f"hidden state {layer}")
    output = ours.bert(**example.batch.inputs())
    assert torch.equal(output.hidden_state, states[-1])
    assert_close(
        output.pooled,
        peer.bert(
            **{k: example.theirs[k] for k in list(example.theirs)[:3]}
        ).pooler_output,
        "pooled",
    )
    everywhere = real.flatten().nonzero().flatten()
    logits = ours.mlm_logits(output.hidden_state, everywhere)
    assert_close(logits, theirs.prediction_logits[real], "MLM logits")
    assert_close(
        ours.nsp_head(output.pooled),
        theirs.seq_relationship_logits,
        "NSP logits",
    )
    step = ours(example.batch)
    assert_close(step.loss, theirs.loss, "loss")
    assert_close(
        step.parts["mlm"].mean,
        torch.nn.functional.cross_entropy(
            theirs.prediction_logits.flatten(0, 1),
            example.theirs["labels"].flatten(),
        ),
        "MLM loss",
    )

    step.loss.backward()
    theirs.loss.backward()
    gradients = names.to_hugging_face(
        {n: p.grad for n, p in ours.named_parameters() if p.grad is not None}
    )
    reference = {n: p.grad for n, p in peer.named_parameters()}
    assert gradients.keys() == reference.keys()
    for name, gradient in gradients.items():
        assert_close(gradient, reference[name], f"gradient of {name}")


def test_rows_of_padding_alone_stay_finite() -> None:
    model = BertModel(BertConfig.preset("tiny", vocab_size=50))
    mask = torch.tensor([[1, 1, 0], [0, 0, 0]])
    output = model(torch.ones(2, 3, dtype=torch.long), attention_mask=mask)
    output.hidden_state.sum().backward()
    assert output.hidden_state.isfinite().all()
    gradients = [p.grad for p in model.parameters() if p.grad is not None]
    assert all(g.isfinite().all() for g in gradients)


@pytest.mark.slow
def test_real_sentence_encoder_gives_hugging_faces_numbers(
    minilm_dir: Path,
) -> None:
    ours = BertModel.from_pretrained(minilm_dir)
    peer = transformers.BertModel.from_pretrained(minilm_dir)
    example = make_example(ours.config, 6, 100, pair=True, seed=3)
    inputs = {k: example.theirs[k] for k in list(example.theirs)[:3]}
    with torch.no_grad():
        theirs = peer(**inputs, output_hidden_states=True)
        x, layout = ours.embed(**example.batch.inputs())
        states = ours.encoder.hidden_states(x, layout)
        pooled = ours(**example.batch.inputs()).pooled
    for layer, (a, b) in enumerate(
        zip(states, theirs.hidden_states, strict=True)
    ):
        assert_close(a[example.real], b[example.real], f"state {layer}")
    assert_close(pooled, theirs.pooler_output, "pooled")


@pytest.mark.slow
def test_real_masked_lm_head_gives_hugging_faces_numbers(
    antiberty_dir: Path,
) -> None:
    ours = BertForPreTraining.from_pretrained(
        antiberty_dir, required_parts=("mlm_head",)
    )
    peer = transformers.BertForMaskedLM.from_pretrained(antiberty_dir)
    example = make_example(ours.config, 4, 120, pair=False, seed=4)
    inputs = {k: example.theirs[k] for k in list(example.theirs)[:3]}
    theirs = peer(**inputs, labels=example.theirs["labels"])
    hidden_state = ours.bert(**example.batch.inputs()).hidden_state
    everywhere = example.real.flatten().nonzero().flatten()
    logits = ours.mlm_logits(hidden_state, everywhere)
    assert_close(logits, theirs.logits[example.real], "MLM logits")
    step = ours(example.batch)
    assert_close(step.parts["mlm"].mean, theirs.loss, "MLM loss")
