"""AdamW with BERT's decay groups; Google's variant as an option."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from bert_from_scratch.train.settings import TrainingSettings


def build_optimizer(
    model: nn.Module,
    settings: TrainingSettings,
    rate_scales: Mapping[str, float] | None = None,
) -> torch.optim.Optimizer:
    """Builds the optimiser; biases and LayerNorm are not decayed.

    Args:
        model: Whose parameters.
        settings: Of the run.
        rate_scales: What the learning rate is multiplied by, by name of the
            parameter; 1 for those that are not named.
    """
    groups = _group(model, settings.weight_decay, rate_scales or {})
    parameters = [p for p in model.parameters() if p.requires_grad]
    if not settings.corrects_bias:
        return GoogleAdamW(
            groups, settings.learning_rate, settings.betas, settings.epsilon
        )
    return torch.optim.AdamW(
        groups,
        lr=settings.learning_rate,
        betas=settings.betas,
        eps=settings.epsilon,
        fused=parameters[0].device.type in ("cpu", "cuda"),
    )


def _group(
    model: nn.Module, weight_decay: float, rate_scales: Mapping[str, float]
) -> list[dict[str, Any]]:
    """Groups parameters by decay and by scale of the learning rate."""
    groups: dict[tuple[float, bool], dict[str, Any]] = {}
    for scale in sorted({1.0, *rate_scales.values()}, reverse=True):
        # 偏置与 LayerNorm 都是一维：只有矩阵做权重衰减
        for is_matrix, decay in ((True, weight_decay), (False, 0.0)):
            groups[scale, is_matrix] = {
                "params": [],
                "weight_decay": decay,
                "rate_scale": scale,
            }
    for name, parameter in model.named_parameters():
        if parameter.requires_grad:
            key = rate_scales.get(name, 1.0), parameter.dim() >= 2
            groups[key]["params"].append(parameter)
    return list(groups.values())


class GoogleAdamW(torch.optim.Optimizer):
    """Adam with decoupled decay and without bias correction.

    As in BERT's first code: the averages start at 0 and stay too small for the
    first steps, which acts as one more warm-up.
    """

    def __init__(
        self,
        params: Iterable[dict[str, Any]],
        lr: float,
        betas: tuple[float, float],
        eps: float,
    ) -> None:
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps})

    @torch.no_grad()
    def step(  # type: ignore[override]
        self, closure: Callable[[], float] | None = None
    ) -> None:
        """Updates all parameters once."""
        assert closure is None
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    self._update(parameter, parameter.grad, group)

    def _update(
        self, parameter: Tensor, gradient: Tensor, group: dict[str, Any]
    ) -> None:
        state = self.state[parameter]
        if not state:
            state["exp_avg"] = torch.zeros_like(parameter)
            state["exp_avg_sq"] = torch.zeros_like(parameter)
        beta1, beta2 = group["betas"]
        mean, square = state["exp_avg"], state["exp_avg_sq"]
        mean.lerp_(gradient, 1 - beta1)
        square.mul_(beta2).addcmul_(gradient, gradient, value=1 - beta2)
        update = mean / (square.sqrt() + group["eps"])
        update += group["weight_decay"] * parameter
        parameter.sub_(update * group["lr"])
