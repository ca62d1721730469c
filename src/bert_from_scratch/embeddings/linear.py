"""Linear layers that are fast on every processor."""

from collections.abc import Callable

from torch import Tensor, nn

from bert_from_scratch.kernels import fp8
from bert_from_scratch.kernels.dense import dense


class Linear(nn.Linear):
    """x W' + b; on a CPU by whichever library is the faster one there.

    Attributes:
        multiply: What computes it, of x, W and b.
    """

    multiply: Callable[..., Tensor] = staticmethod(dense)

    def forward(self, x: Tensor) -> Tensor:
        """Maps float [..., K] to [..., N]."""
        return self.multiply(x, self.weight, self.bias)


def train_in_fp8(module: nn.Module) -> None:
    """Lets the linear layers of a module multiply in fp8 while they learn."""
    for layer in module.modules():
        if isinstance(layer, Linear) and fp8.suits(layer.weight):
            layer.multiply = fp8.dense
