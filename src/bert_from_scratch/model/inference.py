"""The form of a model that only predicts: its layout and its precision."""

from typing import Literal, TypeVar, cast

import torch
from torch import Tensor, nn

from bert_from_scratch.errors import BertError
from bert_from_scratch.kernels.dense import onednn_is_faster

Model = TypeVar("Model", bound=nn.Module)
Precision = Literal["fp32", "bf16"]
PRECISIONS = ("auto", "fp32", "bf16")

CPU_BATCH_TOKENS = 8192
GPU_BATCH_TOKENS = 65536


def choose_precision(name: str, device: torch.device) -> Precision:
    """Returns what to compute in.

    Args:
        name: "auto", "fp32" or "bf16"; "auto" is bf16 on a GPU that has it,
            and fp32 elsewhere.
        device: Where to compute.
    """
    if name not in PRECISIONS:
        raise BertError(
            f"Unknown precision {name!r}.",
            hint=f"use one of {', '.join(PRECISIONS)}",
        )
    if name != "auto":
        return cast("Precision", name)
    # 旧的 GPU 只能模拟 bf16，也没有变长注意力的内核：那里 fp32 更稳也不慢
    has_bf16 = device.type == "cuda" and torch.cuda.is_bf16_supported(
        including_emulation=False
    )
    return "bf16" if has_bf16 else "fp32"


def choose_batch_tokens(given: int | None, device: torch.device) -> int:
    """Returns how many tokens go through at once; None: by the device."""
    if given is not None and given < 1:
        raise BertError(f"--batch-tokens must be at least 1: {given}.")
    if given is not None:
        return given
    # GPU 要大批才喂得饱；CPU 上更大的批只会离开缓存
    return GPU_BATCH_TOKENS if device.type == "cuda" else CPU_BATCH_TOKENS


def for_inference(model: Model, precision: Precision = "fp32") -> Model:
    """Puts a model that will not be trained on into its fastest form.

    In fp32 the numbers of its weights stay as they are; on a CPU their order
    in memory changes.

    Args:
        model: On its device.
        precision: Of its weights, and so of all that it computes.

    Returns:
        The same model, in evaluation mode.
    """
    if precision == "bf16":
        # 权重也换成半精度，不靠 autocast：它会把每个 LayerNorm 的输入先抄成
        # fp32 再抄回来，白白多读写几趟显存
        model.to(torch.bfloat16)
    for module in model.modules():
        if isinstance(module, nn.Linear) and _wants_columns(module.weight):
            module.weight.data = module.weight.data.t().contiguous().t()
    return model.eval()


def _wants_columns(weight: Tensor) -> bool:
    # 按列存放：MKL 顺序读权重，CPU 上单条文本快一到五个百分点；训练时不这样
    # 做，因为梯度仍是按行的；oneDNN 则要按行的
    return weight.device.type == "cpu" and not onednn_is_faster()
