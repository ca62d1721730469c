"""h = LayerNorm(E(token) + S(segment) + P(position)), then dropout."""

import torch
from torch import Tensor, nn

from bert_from_scratch.config import BertConfig
from bert_from_scratch.embeddings.dropout import Dropout
from bert_from_scratch.embeddings.layer_norm import LayerNorm


class BertEmbedding(nn.Module):
    """Sums the three embeddings of BERT and normalises them (paper, fig. 2)."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        width = config.hidden_size
        # 填充符那一行不接收梯度，与 Hugging Face 的梯度逐行一致
        self.token = nn.Embedding(
            config.vocab_size, width, padding_idx=config.pad_token_id
        )
        self.segment = nn.Embedding(config.type_vocab_size, width)
        # 位置向量是学出来的，不是正弦函数；表有多长，句子就最多多长
        self.position = nn.Embedding(config.max_position_embeddings, width)
        self.norm = LayerNorm(width, eps=config.layer_norm_eps)
        self.dropout = Dropout(config.hidden_dropout_prob)

    def forward(
        self, input_ids: Tensor, token_type_ids: Tensor, position_ids: Tensor
    ) -> Tensor:
        """Embeds tokens.

        Args:
            input_ids: WordPiece ids, long [...].
            token_type_ids: 0 in segment A, 1 in segment B, long [...].
            position_ids: Place within its own sequence, long, [...] or
                something that broadcasts to it.

        Returns:
            Hidden states, float [..., H].
        """
        x = self.token(input_ids)
        x = x + self.segment(token_type_ids) + self.position(position_ids)
        x = self.norm(x)
        if torch.is_autocast_enabled(x.device.type):
            # 残差流从这里起就是半精度：逐点运算的时间全花在读写内存上
            x = x.to(torch.get_autocast_dtype(x.device.type))
        return self.dropout(x)
