"""The optimisers: AdamW with BERT's decay groups, and its two rivals."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from bert_from_scratch.train.muon import Muon
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
    groups = _group(model, settings, rate_scales or {})
    rate, betas = settings.learning_rate, settings.betas
    if settings.optimizer == "google":
        return GoogleAdamW(groups, rate, betas, settings.epsilon)
    if settings.optimizer == "muon":
        return Muon(groups, rate, betas, settings.epsilon)
    return torch.optim.AdamW(
        groups,
        lr=rate,
        betas=betas,
        eps=settings.epsilon,
        fused=next(model.parameters()).device.type in ("cpu", "cuda"),
    )


def _group(
    model: nn.Module,
    settings: TrainingSettings,
    rate_scales: Mapping[str, float],
) -> list[dict[str, Any]]:
    """Groups parameters by decay, by scale of the rate, and for Muon."""
    groups: dict[tuple[float, bool, int], dict[str, Any]] = {}
    for name, parameter in model.named_parameters():
        if not parameter.requires_grad:
            continue
        scale, is_matrix = rate_scales.get(name, 1.0), parameter.dim() >= 2
        is_muon = settings.optimizer == "muon" and is_matrix
        num_parts = _count_parts(name) if is_muon else 0
        group = groups.setdefault(
            (scale, is_matrix, num_parts),
            {
                "params": [],
                # 偏置与 LayerNorm 都是一维：只有矩阵做权重衰减
                "weight_decay": settings.weight_decay if is_matrix else 0.0,
                "rate_scale": scale,
                "num_parts": num_parts,
            },
        )
        group["params"].append(parameter)
    return list(groups.values())


def _count_parts(name: str) -> int:
    """Returns how many matrices Muon finds in one; 0: it is not for Muon."""
    if ".blocks." not in name:
        # 嵌入与输出头不是线性映射的堆叠：仍用 AdamW
        return 0
    # Q、K、V 拼在一起存放，却是三个映射，要各自正交化
    return 3 if name.endswith("qkv.weight") else 1


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
