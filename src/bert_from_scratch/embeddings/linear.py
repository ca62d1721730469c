"""Linear layers that are fast on every processor."""

from torch import Tensor, nn

from bert_from_scratch.kernels.dense import dense


class Linear(nn.Linear):
    """x W' + b; on a CPU by whichever library is the faster one there."""

    def forward(self, x: Tensor) -> Tensor:
        """Maps float [..., K] to [..., N]."""
        return dense(x, self.weight, self.bias)
