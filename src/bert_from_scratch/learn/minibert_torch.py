"""MiniBert once more in PyTorch: the same formula, gradients by autograd.

Letters: B sentences, S positions, D width of a vector, V words.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from bert_from_scratch.learn.minibert_data import MaskedBatch, Parameters
from bert_from_scratch.learn.minibert_layers import LAYER_NORM_EPS, Floats


class TorchMiniBert(nn.Module):
    """What `minibert_numpy` writes out by hand, in a page of PyTorch."""

    def __init__(self, parameters: Parameters) -> None:
        """Starts from the same numbers as the NumPy model; copies them."""
        super().__init__()
        # 双精度：要与手写的梯度比到小数点后十位
        self.weights = nn.ParameterDict(
            {
                name: nn.Parameter(torch.tensor(values, dtype=torch.float64))
                for name, values in parameters.items()
            }
        )
        self.optimizer = torch.optim.Adam(self.weights.values(), lr=1e-3)

    def forward(self, batch: MaskedBatch) -> Tensor:
        """Scores every word at the hidden places, float64 [B, V]."""
        p = self.weights
        x = F.embedding(torch.from_numpy(batch.input_ids), p["token"])
        if "position" in p:
            x = x + p["position"][: x.shape[1]]
        query, key, value = (x @ p[name] for name in ("query", "key", "value"))
        mixed = F.scaled_dot_product_attention(query, key, value)
        # 丢弃哪些由外面给定：两条路线才能逐步比较
        mixed = mixed * torch.from_numpy(batch.dropout_scale)
        h = F.layer_norm(
            x + mixed, p["gain"].shape, p["gain"], p["shift"], LAYER_NORM_EPS
        )
        hidden = h[torch.arange(len(x)), torch.from_numpy(batch.mlm_positions)]
        decoded = F.gelu(hidden @ p["dense"] + p["dense_bias"])
        return F.linear(decoded, p["token"], p["vocabulary_bias"])

    def loss(self, batch: MaskedBatch) -> Tensor:
        """Computes the mean cross-entropy at the hidden places, a scalar."""
        return F.cross_entropy(self(batch), torch.from_numpy(batch.mlm_labels))

    def gradients(self, batch: MaskedBatch) -> Parameters:
        """Returns autograd's gradient by every parameter, by name."""
        found = torch.autograd.grad(
            self.loss(batch), list(self.weights.values())
        )
        return {
            name: gradient.numpy()
            for name, gradient in zip(self.weights, found, strict=True)
        }

    def train_batch(self, batch: MaskedBatch) -> float:
        """Takes one step of Adam; returns the loss before it."""
        self.optimizer.zero_grad()
        loss = self.loss(batch)
        loss.backward()
        self.optimizer.step()
        return loss.item()

    @torch.no_grad()
    def logits(self, batch: MaskedBatch) -> Floats:
        """Returns the scores at the hidden places, [B, V]."""
        return self(batch).numpy()
