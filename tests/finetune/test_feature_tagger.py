"""A frozen encoder, chosen layers, and a BiLSTM that learns."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from bert_from_scratch import BertConfig, BertError, BertModel
from bert_from_scratch.data.batch import IGNORE_INDEX, Batch, pack
from bert_from_scratch.finetune.encoding import TextSequence
from bert_from_scratch.finetune.feature_tagger import LAYERS, FeatureTagger

from .outputs import outputs_of

CONFIG = BertConfig(
    vocab_size=30,
    hidden_size=16,
    num_hidden_layers=5,
    num_attention_heads=2,
    intermediate_size=32,
    max_position_embeddings=32,
    hidden_dropout_prob=0.3,
)
LABELS = ("A", "B", "O")


def make_tagger(
    layers: str = "last", config: BertConfig = CONFIG
) -> FeatureTagger:
    torch.manual_seed(0)
    return FeatureTagger(BertModel(config), LABELS, layers)


def make_batch(lengths: tuple[int, ...] = (6, 9, 4)) -> Batch:
    random = np.random.default_rng(2)
    sequences = [
        TextSequence(
            random.integers(5, 30, n).astype(np.int32), np.zeros(n, np.uint8)
        )
        for n in lengths
    ]
    batch = pack(sequences)
    # 首尾是特殊符号，其余隔一个算一个词的开头
    starts = (batch.position_ids % 2 == 1).clone()
    assert batch.cu_seqlens is not None
    starts[batch.cu_seqlens[1:].long() - 1] = False
    labels = torch.where(starts, batch.input_ids % 3, IGNORE_INDEX)
    return replace(batch, word_starts=starts, labels=labels)


def test_features_are_the_layers_of_their_name() -> None:
    batch = make_batch()
    tagger = make_tagger()
    x, layout = tagger.bert.embed(**batch.inputs())
    states = tagger.bert.encoder.hidden_states(x, layout)
    expected = {
        "embeddings": states[0],
        "last": states[5],
        "second-to-last": states[4],
        "sum-last4": states[2] + states[3] + states[4] + states[5],
        "concat-last4": torch.cat(states[2:], -1),
        "sum-all": sum(states[2:], states[1]),
        "weighted-sum": sum(states[2:], states[1]) / 5,
    }
    assert expected.keys() == set(LAYERS)
    for layers, features in expected.items():
        found = make_tagger(layers).features(batch)
        torch.testing.assert_close(found, features, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("layers", LAYERS)
def test_all_but_the_encoder_learns(layers: str) -> None:
    tagger = make_tagger(layers)
    tagger(make_batch()).loss.backward()
    for name, parameter in tagger.named_parameters():
        if name.startswith("bert."):
            assert not parameter.requires_grad
            assert parameter.grad is None
        else:
            assert parameter.grad is not None
            assert parameter.grad.abs().sum() > 0


def test_the_encoder_drops_nothing_out_in_training() -> None:
    tagger = make_tagger().train()
    assert tagger.training
    assert tagger.lstm.training
    assert not any(module.training for module in tagger.bert.modules())
    batch = make_batch()
    assert torch.equal(tagger.features(batch), tagger.features(batch))


def test_the_bilstm_is_as_wide_as_the_encoder_by_default() -> None:
    tagger = make_tagger("concat-last4")
    assert tagger.lstm.num_layers == 2
    assert tagger.lstm.bidirectional
    assert tagger.lstm.hidden_size == CONFIG.hidden_size
    assert tagger.lstm.input_size == 4 * CONFIG.hidden_size


def test_neighbours_in_a_batch_do_not_matter() -> None:
    tagger = make_tagger().eval()
    together = outputs_of(tagger, make_batch((6, 9, 4)))
    assert [scores.shape for scores in together] == [(6, 3), (9, 3), (4, 3)]
    (alone,) = outputs_of(tagger, make_batch((6,)))
    np.testing.assert_allclose(together[0], alone, atol=1e-6)
    assert not together[0][0].any()
    assert together[0][1].any()


def test_sequences_without_words_are_passed_over() -> None:
    tagger = make_tagger().eval()
    some = outputs_of(tagger, make_batch((6, 2, 4)))
    assert not some[1].any()
    np.testing.assert_allclose(
        some[0], outputs_of(tagger, make_batch((6,)))[0], atol=1e-6
    )
    assert not outputs_of(tagger, make_batch((2, 2)))[0].any()
    assert tagger(make_batch((2,))).loss.item() == 0


def test_a_saved_tagger_says_the_same_and_its_folder_is_a_bert(
    tmp_path: Path,
) -> None:
    torch.manual_seed(0)
    tagger = FeatureTagger(
        BertModel(CONFIG), LABELS, "weighted-sum", hidden_size=7
    )
    with torch.no_grad():
        tagger.layer_weights.copy_(torch.arange(5.0))
    tagger.eval().save_pretrained(tmp_path)
    loaded = FeatureTagger.from_pretrained(tmp_path, LABELS, "weighted-sum")
    assert not loaded.training
    batch = make_batch()
    for ours, theirs in zip(
        outputs_of(tagger, batch), outputs_of(loaded, batch), strict=True
    ):
        np.testing.assert_array_equal(ours, theirs)
    plain = BertModel.from_pretrained(tmp_path, ("pooler",))
    encoder = tagger.bert.state_dict()
    for name, tensor in plain.state_dict().items():
        assert torch.equal(encoder[name], tensor)


def test_a_folder_that_does_not_fit_is_refused(tmp_path: Path) -> None:
    tagger = make_tagger()
    tagger.bert.save_pretrained(tmp_path)
    with pytest.raises(BertError, match=r"no .*tagger.safetensors"):
        FeatureTagger.from_pretrained(tmp_path, LABELS, "last")
    tagger.save_pretrained(tmp_path)
    with pytest.raises(BertError, match="does not fit 2 tags"):
        FeatureTagger.from_pretrained(tmp_path, LABELS[:2], "last")
    with pytest.raises(BertError, match="does not fit 3 tags"):
        FeatureTagger.from_pretrained(tmp_path, LABELS, "concat-last4")
    path = tmp_path / "tagger.safetensors"
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(BertError, match="truncated or damaged"):
        FeatureTagger.from_pretrained(tmp_path, LABELS, "last")


def test_unknown_or_missing_layers_are_refused() -> None:
    with pytest.raises(BertError, match="'first'") as caught:
        make_tagger("first")
    assert "concat-last4" in str(caught.value.hint)
    shallow = replace(CONFIG, num_hidden_layers=3)
    with pytest.raises(BertError, match="need 4 layers; this model has 3"):
        make_tagger("sum-last4", shallow)


def test_weights_of_classes_are_those_of_pytorch() -> None:
    weights = [0.5, 2.0, 1.5]
    torch.manual_seed(0)
    tagger = FeatureTagger(BertModel(CONFIG), LABELS, "last", weights).eval()
    batch = make_batch()
    assert batch.labels is not None
    expected = torch.nn.functional.cross_entropy(
        tagger.logits(batch), batch.labels, torch.tensor(weights)
    )
    assert tagger(batch).loss.item() == pytest.approx(expected.item(), abs=1e-5)
    assert tagger.count_labels(batch)["task"].item() == pytest.approx(
        tagger(batch).parts["task"].count.item()
    )
