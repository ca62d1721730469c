"""The other side of `embedding.py`: padded batches, as others make them."""

import importlib
import importlib.util
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
import transformers
from numpy.typing import NDArray
from torch import Tensor

Vectors = NDArray[np.float32]
Inputs = dict[str, Tensor]

MAX_LENGTH = 512
# 编译按形状进行：长度取整到它的倍数，形状就只有几种
LENGTH_STEP = 64


class Peer(Protocol):
    """Someone who turns texts into vectors, mean over all tokens.

    Attributes:
        batches: Numbers of the texts that go through together.
        step: Their lengths are rounded up to a multiple of it, or None.
    """

    batches: list[list[int]]
    step: int | None

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Computes float32 [len(texts), H], tokenising included."""


class HuggingFace:
    """`transformers` with sdpa: padded batches, one after the other."""

    def __init__(
        self,
        model_dir: Path,
        texts: Sequence[str],
        device: torch.device,
        *,
        batch_size: int,
        is_sorted: bool,
        is_compiled: bool,
    ) -> None:
        """Loads the model; in bf16 on a GPU.

        Args:
            model_dir: Model and tokenizer.
            texts: That it will see; decides the batches.
            device: Where to compute.
            batch_size: Texts that are padded to one length.
            is_sorted: Whether texts of like length go together.
            is_compiled: Whether to use torch.compile.
        """
        self.is_gpu = device.type == "cuda"
        self.device = device
        self.tokenizer = transformers.AutoTokenizer.from_pretrained(model_dir)
        model = transformers.AutoModel.from_pretrained(
            model_dir, attn_implementation="sdpa"
        ).eval()
        model.to(device, torch.bfloat16 if self.is_gpu else torch.float32)
        self.model = model
        self.step = LENGTH_STEP if self.is_gpu and is_compiled else None
        if is_compiled:
            # GPU 上每种形状各编译一份，最快；CPU 上编译一份形状可变的
            torch._dynamo.config.recompile_limit = 64
            self.model = torch.compile(model, dynamic=not self.is_gpu)
        self.batches = cut(texts, batch_size, is_sorted)

    def encode(self, texts: Sequence[str]) -> Inputs:
        """Returns padded `input_ids` and `attention_mask`, long [B, S].

        For a GPU the mask is left out where nothing is padding.
        """
        encoded = self.tokenizer(
            list(texts),
            padding=True,
            truncation=True,
            max_length=MAX_LENGTH,
            pad_to_multiple_of=self.step,
            return_tensors="pt",
        )
        names = ["input_ids", "attention_mask"]
        if self.is_gpu and bool(encoded["attention_mask"].all()):
            # 编译后的模型不会去看掩码是否全一：白带着它，就用不上最快的注意力
            names.pop()
        return {name: encoded[name] for name in names}

    @torch.inference_mode()
    def pool(self, inputs: Inputs) -> Tensor:
        """Computes float32 [B, H] of inputs that are on the device."""
        hidden = self.model(**inputs).last_hidden_state
        return mean_of_rows(hidden, inputs.get("attention_mask"))

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Computes float32 [len(texts), H], tokenising included."""
        found = np.empty((len(texts), self.model.config.hidden_size), "f4")
        for numbers in self.batches:
            inputs = self.encode([texts[number] for number in numbers])
            moved = {k: v.to(self.device) for k, v in inputs.items()}
            found[numbers] = self.pool(moved).cpu().numpy()
        return found


class SentenceTransformers:
    """`sentence-transformers`, which sorts by length itself."""

    def __init__(
        self,
        model_dir: Path,
        texts: Sequence[str],
        device: torch.device,
        batch_size: int,
    ) -> None:
        """Loads the model; a plain BERT gets mean pooling."""
        from sentence_transformers import SentenceTransformer

        self.model = SentenceTransformer(str(model_dir), device=str(device))
        self.model.max_seq_length = MAX_LENGTH
        if device.type == "cuda":
            self.model.bfloat16()
        self.batch_size = batch_size
        self.step: int | None = None
        self.batches = cut(texts, batch_size, is_sorted=True)

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Computes float32 [len(texts), H], tokenising included."""
        found = self.model.encode(
            list(texts), batch_size=self.batch_size, show_progress_bar=False
        )
        return np.asarray(found, np.float32)


class OnnxRuntime(HuggingFace):
    """Hugging Face's model, exported once and run by onnxruntime."""

    def __init__(
        self,
        model_dir: Path,
        texts: Sequence[str],
        batch_size: int,
        *,
        is_sorted: bool,
    ) -> None:
        """Exports the model beside its weights, and loads it, for a CPU."""
        super().__init__(
            model_dir,
            texts,
            torch.device("cpu"),
            batch_size=batch_size,
            is_sorted=is_sorted,
            is_compiled=False,
        )
        path = model_dir / "model.onnx"
        if not path.exists():
            export(self, texts, path)
        engine = importlib.import_module("onnxruntime")
        options = engine.SessionOptions()
        # 线程数与 PyTorch 的相同，否则比的是核数
        options.intra_op_num_threads = torch.get_num_threads()
        self.session = engine.InferenceSession(str(path), options)

    def pool(self, inputs: Inputs) -> Tensor:
        """Computes float32 [B, H] of padded inputs."""
        arrays = {name: ids.numpy() for name, ids in inputs.items()}
        hidden = torch.from_numpy(self.session.run(None, arrays)[0])
        return mean_of_rows(hidden, inputs["attention_mask"])


def export(peer: HuggingFace, texts: Sequence[str], path: Path) -> None:
    """Writes the model with free numbers of rows and columns."""

    class LastHiddenState(torch.nn.Module):
        def __init__(self, model: Any) -> None:
            super().__init__()
            self.model = model

        def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
            return self.model(input_ids, attention_mask).last_hidden_state

    shape = {0: torch.export.Dim("rows"), 1: torch.export.Dim("columns")}
    inputs = peer.encode(texts[:2])
    torch.onnx.export(
        LastHiddenState(peer.model).eval(),
        tuple(inputs.values()),
        path,
        input_names=list(inputs),
        dynamic_shapes=dict.fromkeys(inputs, shape),
        dynamo=True,
        verbose=False,
    )


def mean_of_rows(hidden: Tensor, attention_mask: Tensor | None) -> Tensor:
    """Averages [B, S, H] over the real tokens of each row, float32 [B, H]."""
    if attention_mask is None:
        return hidden.float().mean(1)
    weights = attention_mask[..., None].float()
    return (hidden.float() * weights).sum(1) / weights.sum(1)


def cut(
    texts: Sequence[str], batch_size: int, is_sorted: bool
) -> list[list[int]]:
    """Cuts the numbers of texts into batches, by characters if sorted."""
    order = list(range(len(texts)))
    if is_sorted:
        order.sort(key=lambda number: -len(texts[number]))
    return [
        order[start : start + batch_size]
        for start in range(0, len(order), batch_size)
    ]


def share_of_padding(peer: Peer, lengths: Sequence[int]) -> float:
    """Returns which part of what a peer computes is padding.

    Args:
        peer: Its batches are counted.
        lengths: Tokens of every text.
    """
    step = peer.step or 1
    num_slots = 0
    for numbers in peer.batches:
        longest = max(lengths[number] for number in numbers)
        num_slots += len(numbers) * -(-longest // step) * step
    return 1 - sum(lengths) / num_slots


def is_installed(*names: str) -> bool:
    """Whether all of these packages can be imported."""
    return all(importlib.util.find_spec(name) is not None for name in names)
