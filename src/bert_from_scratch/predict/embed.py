"""Texts to vectors: [CLS], mean, or the last four layers."""

import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bert_from_scratch.data.batch import Batch, pack
from bert_from_scratch.data.token_budget import cut_by_tokens, longest_first
from bert_from_scratch.errors import BertError
from bert_from_scratch.model.bert import BertModel
from bert_from_scratch.model.device import choose_device
from bert_from_scratch.model.directory import find
from bert_from_scratch.model.inference import for_inference
from bert_from_scratch.model.layout import Packed
from bert_from_scratch.predict.pooling import POOLINGS, Pooling
from bert_from_scratch.tokenizer import Encoding, WordPieceTokenizer

logger = logging.getLogger(__name__)

TEXTS_AT_A_TIME = 4096


class Embedder:
    """A BERT ready to turn texts into vectors."""

    def __init__(
        self,
        model: BertModel,
        tokenizer: WordPieceTokenizer,
        device: torch.device | str = "cpu",
    ) -> None:
        self.model = for_inference(model.to(device))
        self.tokenizer = tokenizer
        self.device = torch.device(device)

    @classmethod
    def load(cls, directory: str | Path, device: str = "auto") -> Self:
        """Loads model and tokenizer from one directory."""
        directory = find(Path(directory))
        return cls(
            BertModel.from_pretrained(directory, required_parts=()),
            WordPieceTokenizer.load(directory),
            choose_device(device),
        )

    def width(self, pooling: Pooling) -> int:
        """Returns how many numbers a vector has."""
        _check_pooling(pooling, self.model)
        width = self.model.config.hidden_size
        return 4 * width if pooling == "last4" else width

    def embed(
        self,
        texts: Sequence[str],
        pooling: Pooling = "mean",
        *,
        normalize: bool = False,
        max_length: int | None = None,
        strict: bool = False,
        batch_tokens: int = 8192,
        out: NDArray[np.float32] | None = None,
        progress: Callable[[int], None] | None = None,
    ) -> NDArray[np.float32]:
        """Computes one vector a text, in the order of the texts.

        Args:
            texts: What to embed; an empty text has a vector too.
            pooling: "cls": the last hidden state of [CLS]; "mean": the mean
                over all tokens, [CLS] and [SEP] included; "last4": the same
                mean over the last four layers side by side.
            normalize: Whether to scale vectors to length 1.
            max_length: Longest sequence in tokens; None: the model's.
            strict: Whether a text that is too long is an error; otherwise
                it is truncated, and a warning counts such texts.
            batch_tokens: About how many tokens go through at once.
            out: Where to put the result, float32 [len(texts), width].
            progress: Told the number of texts done since the last call.

        Returns:
            `out`, or a new array of that shape.
        """
        limit = self._choose_limit(max_length)
        if out is None:
            out = np.empty((len(texts), self.width(pooling)), np.float32)
        num_truncated = 0
        for start in range(0, len(texts), TEXTS_AT_A_TIME):
            some = texts[start : start + TEXTS_AT_A_TIME]
            encodings = self._encode(some, limit + 1)
            for row, encoding in enumerate(encodings):
                if len(encoding) > limit:
                    num_truncated += 1
                    _refuse_if(strict, start + row, limit)
                    encodings[row] = self._encode([some[row]], limit)[0]
            lengths = [len(encoding) for encoding in encodings]
            order = longest_first(lengths)
            for rows in cut_by_tokens(order, lengths, batch_tokens):
                batch = pack([encodings[row] for row in rows]).to(self.device)
                vectors = self._pool(batch, pooling, normalize)
                out[[start + row for row in rows]] = vectors.cpu().numpy()
                if progress:
                    progress(len(rows))
        if num_truncated:
            logger.warning(
                "%d of %d texts were truncated to %d tokens.",
                num_truncated,
                len(texts),
                limit,
            )
        return out

    def _choose_limit(self, max_length: int | None) -> int:
        longest = self.model.config.max_position_embeddings
        if max_length is None:
            return longest
        if max_length < 2:
            raise BertError(
                f"max_length={max_length} leaves no room for [CLS] and [SEP]."
            )
        if max_length > longest:
            logger.warning(
                "max_length=%d has no effect: the model takes %d tokens.",
                max_length,
                longest,
            )
        return min(max_length, longest)

    def _encode(self, texts: Sequence[str], max_length: int) -> list[Encoding]:
        return self.tokenizer.encode_batch(
            texts, max_length=max_length, specials_are_text=True
        )

    @torch.inference_mode()
    def _pool(self, batch: Batch, pooling: Pooling, normalize: bool) -> Tensor:
        """Computes the vectors of a packed batch, float32 [B, width]."""
        x, layout = self.model.embed(**batch.inputs())
        assert isinstance(layout, Packed)
        if pooling == "last4":
            states = self.model.encoder.hidden_states(x, layout)
            hidden = torch.cat(states[-4:], dim=-1)
        else:
            hidden = self.model.encoder(x, layout)
        if pooling == "cls":
            vectors = layout.first_tokens(hidden)
        else:
            vectors = _mean_of_sequences(hidden, layout)
        if normalize:
            vectors = torch.nn.functional.normalize(vectors, dim=-1)
        return vectors.float()


def _mean_of_sequences(hidden: Tensor, layout: Packed) -> Tensor:
    """Averages packed [T, H] over each sequence, [B, H]."""
    sums = hidden.new_zeros(len(layout.cu_seqlens) - 1, hidden.shape[-1])
    sums.index_add_(0, layout.sequence_ids(len(hidden)), hidden)
    return sums / layout.lengths[:, None]


def _check_pooling(pooling: Pooling, model: BertModel) -> None:
    if pooling not in POOLINGS:
        raise BertError(
            f"Unknown pooling {pooling!r}.",
            hint=f"use one of {', '.join(POOLINGS)}",
        )
    num_layers = model.config.num_hidden_layers
    if pooling == "last4" and num_layers < 4:
        raise BertError(
            f"last4 needs at least four layers; this model has {num_layers}."
        )


def _refuse_if(strict: bool, number: int, limit: int) -> None:
    if strict:
        raise BertError(
            f"Text {number + 1} is longer than {limit} tokens.",
            hint="leave out --strict to truncate it",
        )
