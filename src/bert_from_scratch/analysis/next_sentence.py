"""What the next-sentence head says of a pair, where it was trained.

Letters: S tokens, H width of a hidden state.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from bert_from_scratch.model.bert import Pooler
from bert_from_scratch.objectives.pretraining import BertForPreTraining


@dataclass(frozen=True)
class NextSentence:
    """The answer on one pair.

    Attributes:
        follows: Probability that segment B follows segment A.
        random: Probability that it was taken at random.
    """

    follows: float
    random: float


def has_trained_head(model: BertForPreTraining) -> bool:
    """Says whether pooler and NSP head are more than freshly drawn.

    A checkpoint may lack them, and a run without pairs saves them as they
    were drawn: both leave their biases at exactly 0, and training does not.
    """
    pooler = model.bert.pooler
    if not isinstance(pooler, Pooler):
        return False
    # 新抽的层偏置全为零，训练一步就会离开零：不必看文件里有什么
    biases = (pooler.dense.bias, model.nsp_head.bias)
    return all(bool(bias.any()) for bias in biases)


@torch.inference_mode()
def judge_pair(
    model: BertForPreTraining, hidden_state: Tensor
) -> NextSentence | None:
    """Asks the NSP head; None where it was not trained.

    Args:
        model: In evaluation mode.
        hidden_state: Of the last layer, float [1, S, H].
    """
    if not has_trained_head(model):
        return None
    logits = model.nsp_head(model.bert.pooler(hidden_state[:, 0]))
    follows, random = logits[0].float().softmax(-1).tolist()
    return NextSentence(follows, random)
