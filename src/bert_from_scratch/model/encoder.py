"""The stack of Transformer blocks."""

from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from bert_from_scratch.config import BertConfig
from bert_from_scratch.model.block import TransformerBlock
from bert_from_scratch.model.layout import Layout


class BertEncoder(nn.Module):
    """L Transformer blocks, one after the other.

    Attributes:
        recomputes: Whether training forgets what happens inside a block and
            computes it again on the way back: less memory, more time.
    """

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.recomputes = False
        self.blocks = nn.ModuleList(
            TransformerBlock(config) for _ in range(config.num_hidden_layers)
        )

    def forward(self, x: Tensor, layout: Layout) -> Tensor:
        """Maps embeddings, float [..., H], to the last hidden states."""
        for block in self.blocks:
            if self.recomputes and self.training:
                # 反向时重算会恢复随机状态，dropout 与前向完全一致
                x = checkpoint(block, x, layout, use_reentrant=False)
            else:
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
