"""Choosing the device to compute on."""

import torch

from bert_from_scratch.errors import BertError

DEVICES = ("auto", "cpu", "cuda", "mps")


def choose_device(name: str = "auto") -> torch.device:
    """Returns the device of that name; "auto" is the fastest one here."""
    available = {
        "cuda": torch.cuda.is_available(),
        "mps": torch.backends.mps.is_available(),
        "cpu": True,
    }
    if name == "auto":
        return torch.device(next(n for n, there in available.items() if there))
    if name not in available:
        raise BertError(
            f"Unknown device {name!r}.", hint=f"use one of {', '.join(DEVICES)}"
        )
    if not available[name]:
        raise BertError(
            f"The device {name!r} is not available on this machine.",
            hint="use --device auto",
        )
    return torch.device(name)
