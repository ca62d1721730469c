"""Masked language modelling: guess the hidden WordPieces (paper, 3.1).

Letters: P positions asked for, V WordPieces, H width of a hidden state.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from bert_from_scratch import kernels
from bert_from_scratch.config import BertConfig
from bert_from_scratch.data.batch import IGNORE_INDEX
from bert_from_scratch.embeddings.layer_norm import LayerNorm
from bert_from_scratch.embeddings.linear import Linear
from bert_from_scratch.kernels import word_loss
from bert_from_scratch.kernels.dense import dense
from bert_from_scratch.model.block import ACTIVATION_FUNCTIONS
from bert_from_scratch.objectives.output import Part, count_labels

if kernels.EXIST:
    from bert_from_scratch.kernels.cross_entropy import cross_entropy

ALIGNMENT = 64


class MaskedLMHead(nn.Module):
    """A dense layer, then scores against the token embeddings themselves."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        width = config.hidden_size
        self.dense = Linear(width, width)
        self.norm = LayerNorm(width, eps=config.layer_norm_eps)
        self.activation = ACTIVATION_FUNCTIONS[config.hidden_act]
        self.bias = nn.Parameter(torch.zeros(config.vocab_size))

    def forward(self, hidden_state: Tensor, token_embedding: Tensor) -> Tensor:
        """Scores every WordPiece at the positions asked for.

        Args:
            hidden_state: The vectors to decode, float [..., H].
            token_embedding: The token embedding matrix, float [V, H].

        Returns:
            Logits, float [..., V].
        """
        # 输出权重与词嵌入是同一个矩阵：参数更少，且两处一起学习
        logits = self._score(self.transform(hidden_state), token_embedding)
        return logits[..., : len(token_embedding)]

    def transform(self, hidden_state: Tensor) -> Tensor:
        """Returns what is compared with the embeddings, float [..., H]."""
        return self.norm(self.activation(self.dense(hidden_state)))

    def loss(
        self,
        hidden_state: Tensor,
        token_embedding: Tensor,
        mlm_labels: Tensor,
        criterion: "MaskedLMLoss",
    ) -> Part:
        """Sums the loss of guesses; as `criterion` says of `forward`.

        Args:
            hidden_state: The vectors to decode, float [P, H].
            token_embedding: The token embedding matrix, float [V, H].
            mlm_labels: Original id where a token was hidden, IGNORE_INDEX
                elsewhere, long [P].
            criterion: What judges scores.
        """
        x = self.transform(hidden_state)
        if word_loss.usable(x):
            total, correct = word_loss.word_loss(
                x, token_embedding, self.bias, mlm_labels
            )
            return Part(total, count_labels(mlm_labels), correct)
        logits = self._score(x, token_embedding)
        return criterion(logits, mlm_labels, len(token_embedding))

    def _score(self, x: Tensor, token_embedding: Tensor) -> Tensor:
        """Scores every WordPiece; on a GPU with a few columns more.

        They stand for no WordPiece: whoever takes them leaves them out.
        """
        if not x.is_cuda:
            return dense(x, token_embedding, self.bias)
        # 词表补到 64 的倍数再乘：GPU 的矩阵单元要求对齐，否则慢几倍
        extra = -len(token_embedding) % ALIGNMENT
        weight = F.pad(token_embedding, (0, 0, 0, extra))
        return F.linear(x, weight, F.pad(self.bias, (0, extra)))


class MaskedLMLoss(nn.Module):
    """The cross-entropy at the hidden positions, and nowhere else."""

    def forward(
        self, logits: Tensor, mlm_labels: Tensor, num_words: int | None = None
    ) -> Part:
        """Sums the loss over the hidden positions.

        Args:
            logits: Vocabulary scores, float [..., V].
            mlm_labels: Original id where a token was hidden, IGNORE_INDEX
                elsewhere, long [...].
            num_words: V, where the logits have more columns.
        """
        if num_words is None:
            num_words = logits.shape[-1]
        if logits.dim() == 2 and kernels.usable(logits):
            total, correct = cross_entropy(logits, mlm_labels, num_words)
            return Part(total, count_labels(mlm_labels), correct)
        logits = logits[..., :num_words]
        total = F.cross_entropy(
            logits.flatten(0, -2),
            mlm_labels.flatten(),
            ignore_index=IGNORE_INDEX,
            reduction="sum",
        )
        correct = (logits.argmax(-1) == mlm_labels).sum()
        return Part(total, count_labels(mlm_labels), correct)
