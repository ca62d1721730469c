"""Linear layers that are fast on every processor."""

import logging
from collections.abc import Callable

from torch import Tensor, nn

from bert_from_scratch.kernels import fp8
from bert_from_scratch.kernels.dense import dense

logger = logging.getLogger(__name__)


class Linear(nn.Linear):
    """x W' + b; on a CPU by whichever library is the faster one there.

    Attributes:
        dense: What computes it, of x, W and b.
    """

    dense: Callable[..., Tensor] = staticmethod(dense)

    def forward(self, x: Tensor) -> Tensor:
        """Maps float [..., K] to [..., N]."""
        return self.dense(x, self.weight, self.bias)


def train_in_fp8(module: nn.Module) -> None:
    """Lets the linear layers of a module multiply in fp8 while they learn."""
    layers = [layer for layer in module.modules() if isinstance(layer, Linear)]
    suited = [layer for layer in layers if fp8.suits(layer.weight)]
    for layer in suited:
        layer.dense = fp8.dense
    if len(suited) < len(layers):
        logger.warning(
            "fp8 has no effect on %d of %d layers: their widths are no "
            "multiples of %d.",
            len(layers) - len(suited),
            len(layers),
            fp8.ALIGNMENT,
        )
