"""Muon: steps of one size in all directions of a matrix.

Adam looks at each weight alone. A matrix of a block maps vectors to vectors,
and its gradient mostly points in a few directions; Muon takes its momentum,
makes all singular values about 1, and so moves along the rare ones too.

Letters: M matrices of one shape, R rows, C columns, R at most C.
"""

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

from bert_from_scratch.train.sharding import cut, whole

MOMENTUM = 0.95
# 五次多项式迭代的系数：把奇异值很快推到 0.7 到 1.2 之间，不必恰好是 1
COEFFICIENTS = (3.4445, -4.7750, 2.0315)
NUM_ITERATIONS = 5
EPSILON = 1e-7
# 让每步的大小与 AdamW 相当，两者就可以共用一个学习率
RMS_OF_ADAMW = 0.2


class Muon(torch.optim.Optimizer):
    """Muon for groups with `num_parts`, fused AdamW for the others.

    Attributes:
        found_inf: Float scalar on the device; where it is 1, a step changes
            nothing. None: every step is taken.
    """

    def __init__(
        self,
        params: Iterable[dict[str, Any]],
        lr: float,
        betas: tuple[float, float],
        eps: float,
    ) -> None:
        """Divides the groups.

        Args:
            params: Groups; `num_parts` says how many matrices lie on top of
                each other in every parameter, 0 that they are AdamW's.
            lr: Learning rate of both.
            betas: Of AdamW.
            eps: Of AdamW.
        """
        groups = list(params)
        super().__init__(groups, {"lr": lr})
        rest = [group for group in groups if not group["num_parts"]]
        is_fused = rest[0]["params"][0].device.type in ("cpu", "cuda")
        self._adamw = torch.optim.AdamW(
            rest, lr=lr, betas=betas, eps=eps, fused=is_fused
        )
        # 两者共用组与状态：检查点只看见一个优化器
        self._adamw.param_groups = rest
        self._adamw.state = self.state
        self.found_inf: Tensor | None = None

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        """Updates all parameters once."""
        assert closure is None
        adamw: Any = self._adamw
        adamw.found_inf = self.found_inf
        adamw.step()
        for group in self.param_groups:
            if group["num_parts"]:
                self._step_matrices(group)

    def _step_matrices(self, group: dict[str, Any]) -> None:
        parameters = [p for p in group["params"] if p.grad is not None]
        by_shape: dict[torch.Size, list[tuple[int, Tensor]]] = defaultdict(list)
        directions = self._add_momentum(parameters)
        for number, direction in enumerate(directions):
            # 正交化要看整个矩阵：切分的先拼完整，各进程算同样的一遍
            for part in whole(direction).chunk(group["num_parts"]):
                by_shape[part.shape].append((number, part))
        is_taken = 1.0 if self.found_inf is None else 1.0 - self.found_inf
        decay = is_taken * group["lr"] * group["weight_decay"]
        updates: dict[int, list[Tensor]] = defaultdict(list)
        for shape, pairs in by_shape.items():
            rate = is_taken * group["lr"] * RMS_OF_ADAMW * max(shape) ** 0.5
            # 同形的矩阵叠成一批：几十个小乘法变成几个大的
            found = orthogonalise(torch.stack([part for _, part in pairs]))
            found = found.to(parameters[0].dtype) * rate
            for (number, _), update in zip(pairs, found, strict=True):
                updates[number].append(update)
        torch._foreach_mul_(parameters, 1 - decay)
        torch._foreach_sub_(
            parameters,
            [
                cut(torch.cat(updates[number]), parameter)
                for number, parameter in enumerate(parameters)
            ],
        )

    def _add_momentum(self, parameters: list[Tensor]) -> list[Tensor]:
        """Updates the momenta; returns where to go, like the parameters."""
        for parameter in parameters:
            if not self.state[parameter]:
                self.state[parameter]["momentum"] = torch.zeros_like(parameter)
        momenta = [self.state[p]["momentum"] for p in parameters]
        gradients = [p.grad for p in parameters if p.grad is not None]
        if self.found_inf is not None:
            # 作废的一步以动量代替梯度：动量不变，也没有 NaN 流进去
            is_lost = self.found_inf > 0
            gradients = [
                torch.where(is_lost, momentum, gradient)
                for momentum, gradient in zip(momenta, gradients, strict=True)
            ]
        torch._foreach_lerp_(momenta, gradients, 1 - MOMENTUM)
        # Nesterov：先看一步再走
        return list(torch._foreach_lerp(gradients, momenta, MOMENTUM))


def orthogonalise(matrices: Tensor) -> Tensor:
    """Makes all singular values about 1, by Newton and Schulz's iteration.

    Args:
        matrices: Float [M, R, C], or with rows and columns exchanged.

    Returns:
        The same shape; in bfloat16 on a GPU, where that is enough.
    """
    x = matrices.bfloat16() if matrices.is_cuda else matrices
    is_tall = x.shape[1] > x.shape[2]
    if is_tall:
        x = x.mT
    # 先除以 Frobenius 范数：奇异值都不超过 1，迭代才收敛
    x = x / (x.norm(dim=(1, 2), keepdim=True) + EPSILON)
    a, b, c = COEFFICIENTS
    for _ in range(NUM_ITERATIONS):
        gram = x @ x.mT
        gram = torch.baddbmm(gram, gram, gram, beta=b, alpha=c)
        # a 加在小方阵的对角线上：除了舍入，与加上 a 倍的 x 是一回事，却少读
        # 写一遍大矩阵
        gram.diagonal(dim1=1, dim2=2).add_(a)
        x = gram @ x
    return x.mT if is_tall else x
