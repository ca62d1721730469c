"""A larger vocabulary for a trained model: new words from their old pieces."""

from collections.abc import Sequence
from dataclasses import replace

import torch

from bert_from_scratch.objectives.pretraining import BertForPreTraining

_BY_WORD = ("bert.embedding.token.weight", "mlm_head.bias")


def grow_vocabulary(
    model: BertForPreTraining, pieces: Sequence[Sequence[int]]
) -> BertForPreTraining:
    """Returns the same model with more WordPieces.

    Args:
        model: A trained model; it stays as it is.
        pieces: For every new word, in the order of the new ids, the ids that
            the model has read it as so far; at least one each.
    """
    vocab_size = model.config.vocab_size + len(pieces)
    grown = BertForPreTraining(replace(model.config, vocab_size=vocab_size))
    weights = model.state_dict()
    for name in _BY_WORD:
        old = weights[name]
        # 新词从旧词片的平均起步：比随机初始化更接近它的意思
        new = [old[torch.tensor(ids)].mean(dim=0) for ids in pieces]
        weights[name] = torch.cat([old, torch.stack(new)])
    grown.load_state_dict(weights)
    return grown.eval()
