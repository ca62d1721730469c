"""One text on its way through the encoder, and where it looked.

Letters: L layers, N heads, S tokens, D width of a head, H of a hidden state.
"""

from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor

from bert_from_scratch.data.batch import pad
from bert_from_scratch.errors import BertError
from bert_from_scratch.model.attention import MultiHeadSelfAttention
from bert_from_scratch.model.bert import BertModel
from bert_from_scratch.model.layout import Layout
from bert_from_scratch.tokenizer import Encoding


@dataclass(frozen=True)
class Trace:
    """The hidden states of one text, layer by layer.

    Attributes:
        bert: The encoder that was run.
        states: The embeddings and the output of every block, L + 1 tensors,
            float [1, S, H].
        layout: One row without padding.
    """

    bert: BertModel
    states: tuple[Tensor, ...]
    layout: Layout

    @classmethod
    @torch.inference_mode()
    def run(cls, bert: BertModel, encoding: Encoding) -> Self:
        """Runs the encoder once, by its fast kernel.

        Args:
            bert: In evaluation mode.
            encoding: One text or pair.
        """
        device = bert.embedding.token.weight.device
        batch = pad([encoding]).to(device)
        x, layout = bert.embed(**batch.inputs())
        states = tuple(bert.encoder.hidden_states(x, layout))
        if not bool(states[-1].isfinite().all()):
            raise BertError(
                "The model's hidden states are not finite numbers.",
                hint="its weights are damaged; did its training diverge?",
            )
        return cls(bert, states, layout)

    @torch.inference_mode()
    def weights(self, layer: int) -> Tensor:
        """Computes the attention probabilities of one layer.

        Args:
            layer: Counted from 0.

        Returns:
            Float32 [N, S, S] on the CPU; row i says how much token i looks
            at each token.
        """
        # 快内核不留下概率：用该层的输入按公式重算，模型本身不必带开关
        x = self.states[layer]
        weights = self._attention(layer).weights(x, self.layout)
        return weights[0].float().cpu()

    @torch.inference_mode()
    def queries_keys(self, layer: int) -> tuple[Tensor, Tensor]:
        """Computes what the probabilities of one layer are made of.

        Args:
            layer: Counted from 0.

        Returns:
            Queries and keys, float32 [N, S, D] each, on the CPU.
        """
        attention = self._attention(layer)
        qkv = attention.qkv(self.states[layer][0]).float().cpu()
        # [S, 3H] -> [3, N, S, D]：与注意力层内部同一种切法
        heads = qkv.unflatten(-1, (3, attention.num_heads, -1))
        queries, keys, _ = heads.permute(1, 2, 0, 3).contiguous()
        return queries, keys

    def _attention(self, layer: int) -> MultiHeadSelfAttention:
        attention = self.bert.encoder.blocks[layer].attention
        assert isinstance(attention, MultiHeadSelfAttention)
        return attention


def embedding_norms(bert: BertModel, encoding: Encoding) -> list[list[float]]:
    """Measures the three embeddings that BERT sums.

    Returns:
        For every token the Euclidean lengths of its token, segment and
        position embedding.
    """
    embedding = bert.embedding
    places = list(range(len(encoding)))
    parts = (
        (embedding.token, encoding.input_ids),
        (embedding.segment, encoding.token_type_ids),
        (embedding.position, places),
    )
    norms = [
        table.weight.detach()[torch.tensor(ids, device=table.weight.device)]
        .float()
        .norm(dim=-1)
        for table, ids in parts
    ]
    return torch.stack(norms, dim=-1).cpu().tolist()
