"""The ways in which token vectors become one vector a text."""

from typing import Literal, get_args

Pooling = Literal["cls", "mean", "last4"]
POOLINGS: tuple[Pooling, ...] = get_args(Pooling)
