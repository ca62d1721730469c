"""The stack of Transformer blocks."""

from torch import Tensor, nn

from bert_from_scratch.config import BertConfig
from bert_from_scratch.model.block import TransformerBlock
from bert_from_scratch.model.layout import Layout


class BertEncoder(nn.Module):
    """L Transformer blocks, one after the other."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(
            TransformerBlock(config) for _ in range(config.num_hidden_layers)
        )

    def forward(self, x: Tensor, layout: Layout) -> Tensor:
        """Maps embeddings, float [..., H], to the last hidden states."""
        for block in self.blocks:
            x = block(x, layout)
        return x

    def hidden_states(self, x: Tensor, layout: Layout) -> list[Tensor]:
        """Returns the embeddings and the output of every block, L + 1 in all.

        The last one is what `forward` returns.
        """
        states = [x]
        for block in self.blocks:
            states.append(block(states[-1], layout))
        return states
