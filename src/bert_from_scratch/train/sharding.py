"""Weights divided among processes (FSDP2): cut, and put together again."""

from typing import Any, cast

from torch import Tensor, nn

# torch.distributed.tensor 与 fsdp 只有切分训练才用得上，导入要一秒，所以晚导入


def shard(model: nn.Module) -> nn.Module:
    """Divides weights among the processes, layer by layer."""
    from torch.distributed.fsdp import fully_shard

    stacks = [m for m in model.modules() if isinstance(m, nn.ModuleList)]
    for layer in (layer for stack in stacks for layer in stack):
        # 逐层切分：任何时候只有一层的权重是完整的
        fully_shard(layer)
    fully_shard(model)
    return model


def whole(tensor: Tensor) -> Tensor:
    """Returns a tensor put together, where processes share it."""
    if hasattr(tensor, "full_tensor"):
        return cast("Any", tensor).full_tensor()
    return tensor


def cut(tensor: Tensor, like: Tensor) -> Tensor:
    """Returns this process's part of a whole tensor, as `like` is cut."""
    mesh, placements = (
        getattr(like, name, None) for name in ("device_mesh", "placements")
    )
    if mesh is None:
        return tensor
    from torch.distributed.tensor import distribute_tensor

    return distribute_tensor(tensor.to(mesh.device_type), mesh, placements)
