"""How much arithmetic a token costs, and how much a device can do."""

import torch

from bert_from_scratch.config import BertConfig

# 各型号张量核心的 bf16 稠密峰值（厂商规格），单位 FLOP/s
PEAK_FLOPS = {
    "H200": 989e12,
    "H100": 989e12,
    "A100": 312e12,
    "L40S": 362e12,
    "L4": 121e12,
    "4090": 165e12,
    "V100": 125e12,
    "T4": 65e12,
}


def flops_per_token(
    config: BertConfig, max_length: int, mask_rate: float = 0.15
) -> float:
    """Counts the floating-point operations of training on one token.

    Forward and backward: six for every weight of a product, attention's two
    products over `max_length` positions, and the MLM head at hidden positions.
    """
    width, inner = config.hidden_size, config.intermediate_size
    layers = config.num_hidden_layers
    products = 6 * layers * (4 * width**2 + 2 * width * inner)
    attention = 12 * layers * width * max_length
    head = 6 * mask_rate * (width**2 + width * config.vocab_size)
    return products + attention + head


def peak_flops(device: torch.device) -> float | None:
    """Returns what the device can do at the best in bf16; None: unknown."""
    if device.type != "cuda":
        return None
    name = torch.cuda.get_device_name(device)
    for model, peak in PEAK_FLOPS.items():
        if model in name:
            return peak
    return None
