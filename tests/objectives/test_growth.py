"""New words begin as the mean of what they were read as."""

import torch

from bert_from_scratch import BertConfig, BertForPreTraining
from bert_from_scratch.objectives.growth import grow_vocabulary

CONFIG = BertConfig(
    vocab_size=20,
    hidden_size=8,
    num_hidden_layers=1,
    num_attention_heads=2,
    intermediate_size=16,
)


def test_old_rows_stay_and_new_ones_are_means() -> None:
    torch.manual_seed(0)
    model = BertForPreTraining(CONFIG)
    torch.nn.init.normal_(model.mlm_head.bias)
    grown = grow_vocabulary(model, [[5, 7], [9]])
    assert grown.config.vocab_size == 22
    old, new = (m.bert.embedding.token.weight for m in (model, grown))
    assert torch.equal(new[:20], old)
    torch.testing.assert_close(new[20], (old[5] + old[7]) / 2)
    assert torch.equal(new[21], old[9])
    torch.testing.assert_close(
        grown.mlm_head.bias[20:],
        torch.stack(
            [model.mlm_head.bias[[5, 7]].mean(), model.mlm_head.bias[9]]
        ),
    )


def test_everything_else_is_untouched() -> None:
    model = BertForPreTraining(CONFIG)
    grown = grow_vocabulary(model, [[3]]).state_dict()
    for name, tensor in model.state_dict().items():
        assert torch.equal(grown[name][: len(tensor)], tensor), name
