"""Google's Adam against a step worked out by hand."""

import math

import pytest
import torch
from torch import nn

from bert_from_scratch.train.optimizer import GoogleAdamW


def test_two_steps_are_those_worked_out_by_hand() -> None:
    weight = nn.Parameter(torch.tensor([2.0]))
    group = {"params": [weight], "weight_decay": 0.1}
    optimizer = GoogleAdamW([group], 0.01, (0.9, 0.99), 1e-3)
    mean = square = 0.0
    expected = 2.0
    for gradient in (0.5, -1.0):
        weight.grad = torch.tensor([gradient])
        optimizer.step()
        # 没有偏差修正：两个均值从 0 开始，头几步偏小
        mean = 0.9 * mean + 0.1 * gradient
        square = 0.99 * square + 0.01 * gradient**2
        update = mean / (math.sqrt(square) + 1e-3)
        expected -= 0.01 * (update + 0.1 * expected)
        assert weight.item() == pytest.approx(expected, rel=1e-6)
