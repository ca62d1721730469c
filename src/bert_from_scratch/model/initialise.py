"""The weights before training: Google's truncated normal."""

from torch import nn


def initialise(module: nn.Module, standard_deviation: float) -> None:
    """Draws fresh weights in place for `module` and all below it.

    Dense layers and embeddings get a normal distribution cut at two standard
    deviations, biases 0, LayerNorm the identity. It draws from torch's global
    generator, so `torch.manual_seed` decides.
    """
    for part in module.modules():
        if isinstance(part, nn.Linear | nn.Embedding):
            bound = 2 * standard_deviation
            nn.init.trunc_normal_(
                part.weight, std=standard_deviation, a=-bound, b=bound
            )
        if isinstance(part, nn.LayerNorm):
            nn.init.ones_(part.weight)
        bias = getattr(part, "bias", None)
        if isinstance(bias, nn.Parameter):
            nn.init.zeros_(bias)
