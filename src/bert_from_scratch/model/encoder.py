"""The stack of Transformer blocks."""

from typing import cast

from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from bert_from_scratch.config import BertConfig
from bert_from_scratch.model.block import TransformerBlock
from bert_from_scratch.model.layout import Layout, reorder


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

    def forward(
        self, x: Tensor, layout: Layout, places: Tensor | None = None
    ) -> Tensor:
        """Maps embeddings, float [..., H], to the last hidden states.

        Args:
            x: Embeddings, float [B, S, H] or packed [T, H].
            layout: Where the sequences lie in `x`.
            places: Which of the last hidden states are wanted, as places in
                the flattened batch, long [P]; the result is [P, H] then.
        """
        *earlier, last = self.blocks
        for block in earlier:
            x = self._run(block, x, layout)
        if places is None:
            return self._run(last, x, layout)
        # 最后一块之后没有人再看别的位置：只算损失要用的那些；先按位置排好，
        # 同一序列的便相邻，算完再换回原来的次序
        ordered, order = places.sort()
        x = self._run(last, x, layout, ordered)
        return reorder(x, order.argsort(), order)

    def _run(
        self,
        block: nn.Module,
        x: Tensor,
        layout: Layout,
        places: Tensor | None = None,
    ) -> Tensor:
        if self.recomputes and self.training:
            # 反向时重算会恢复随机状态，dropout 与前向完全一致
            return cast(
                "Tensor",
                checkpoint(block, x, layout, places, use_reentrant=False),
            )
        return cast("Tensor", block(x, layout, places))

    def hidden_states(self, x: Tensor, layout: Layout) -> list[Tensor]:
        """Returns the embeddings and the output of every block, L + 1 in all.

        The last one is what `forward` returns.
        """
        states = [x]
        for block in self.blocks:
            states.append(block(states[-1], layout))
        return states
