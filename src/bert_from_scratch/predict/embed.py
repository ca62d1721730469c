"""Texts to vectors: [CLS], mean, or the last four layers."""

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bert_from_scratch.data.batch import Batch, pack
from bert_from_scratch.data.token_budget import cut_by_tokens, longest_first
from bert_from_scratch.errors import BertError
from bert_from_scratch.finetune.encoding import TextSequence
from bert_from_scratch.finetune.inference import run_batches
from bert_from_scratch.model.bert import BertModel
from bert_from_scratch.model.device import choose_device
from bert_from_scratch.model.directory import find
from bert_from_scratch.model.inference import (
    choose_batch_tokens,
    choose_precision,
    for_inference,
)
from bert_from_scratch.model.layout import Packed
from bert_from_scratch.predict.pooling import POOLINGS, Pooling
from bert_from_scratch.tokenizer import WordPieceTokenizer

logger = logging.getLogger(__name__)

TEXTS_AT_A_TIME = 4096
# GPU 不必凑等长的句子，块小一些，第一批就早些开始算
GPU_TEXTS_AT_A_TIME = 1024


class Embedder:
    """A BERT ready to turn texts into vectors."""

    def __init__(
        self,
        model: BertModel,
        tokenizer: WordPieceTokenizer,
        device: torch.device | str = "cpu",
        precision: str = "auto",
    ) -> None:
        """Takes a model over: it is moved, and laid out for prediction.

        Args:
            model: Any BERT; in bf16 its own weights become so.
            tokenizer: Of this model.
            device: Where to compute.
            precision: "auto", "fp32" or "bf16", see `choose_precision`;
                vectors are float32 in any case.
        """
        self.device = torch.device(device)
        self.precision = choose_precision(precision, self.device)
        self.model = for_inference(model.to(self.device), self.precision)
        self.tokenizer = tokenizer

    @classmethod
    def load(
        cls,
        directory: str | Path,
        device: str = "auto",
        precision: str = "auto",
    ) -> Self:
        """Loads model and tokenizer from one directory."""
        directory = find(Path(directory))
        return cls(
            BertModel.from_pretrained(directory, required_parts=()),
            WordPieceTokenizer.load(directory),
            choose_device(device),
            precision,
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
        batch_tokens: int | None = None,
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
            batch_tokens: About how many tokens go through at once; None:
                65,536 on a GPU, else 8,192.
            out: Where to put the result, float32 [len(texts), width].
            progress: Told the number of texts done since the last call.

        Returns:
            `out`, or a new array of that shape.
        """
        limit = self._choose_limit(max_length)
        if out is None:
            out = np.empty((len(texts), self.width(pooling)), np.float32)
        too_long: list[int] = []
        batches = self._batches(
            texts,
            limit,
            choose_batch_tokens(batch_tokens, self.device),
            too_long,
            strict=strict,
        )
        pool = partial(self.pool, pooling=pooling, normalize=normalize)
        with closing(run_batches(batches, pool, self.device)) as results:
            for rows, vectors in results:
                out[rows] = vectors
                if progress:
                    progress(len(rows))
        if too_long:
            logger.warning(
                "%d of %d texts were truncated to %d tokens.",
                len(too_long),
                len(texts),
                limit,
            )
        return out

    def _batches(
        self,
        texts: Sequence[str],
        limit: int,
        batch_tokens: int,
        too_long: list[int],
        *,
        strict: bool,
    ) -> Iterator[tuple[list[int], Batch]]:
        """Yields packed batches, each with the numbers of its texts.

        Those that are longer than `limit` are noted in `too_long`.
        """
        is_gpu = self.device.type == "cuda"
        size = GPU_TEXTS_AT_A_TIME if is_gpu else TEXTS_AT_A_TIME
        for start in range(0, len(texts), size):
            encoded = self._encode(texts[start : start + size])
            for row, ids in enumerate(encoded):
                if len(ids) > limit:
                    _refuse_if(strict, start + row, limit)
                    too_long.append(start + row)
                    # 截断后仍以 [SEP] 结尾，与分词器自己截断的一样
                    encoded[row] = [*ids[: limit - 1], ids[-1]]
            lengths = [len(ids) for ids in encoded]
            order = longest_first(lengths)
            for rows in cut_by_tokens(order, lengths, batch_tokens):
                # 一批之内由短到长，与预训练的一样：注意力的内核从后面开工
                rows.reverse()
                sequences = [_to_sequence(encoded[row]) for row in rows]
                yield [start + row for row in rows], pack(sequences)

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

    def _encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Returns the ids of texts, [CLS] and [SEP] included, uncut."""
        try:
            # 只要编号：不记偏移，也不为每个词建 Python 对象
            encodings = self.tokenizer.literal_engine.encode_batch_fast(
                list(texts)
            )
        except TypeError:
            # 引擎只说类型不对；这里说得出是哪个字符
            self.tokenizer.encode_batch(texts, max_length=2)
            raise
        return [encoding.ids for encoding in encodings]

    @torch.inference_mode()
    def pool(
        self,
        batch: Batch,
        pooling: Pooling = "mean",
        normalize: bool = False,
    ) -> Tensor:
        """Computes the vectors of a packed batch that is on the device.

        Returns:
            Float32 [B, width], on the device.
        """
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
        vectors = vectors.float()
        if normalize:
            vectors = torch.nn.functional.normalize(vectors, dim=-1)
        return vectors


def _to_sequence(ids: list[int]) -> TextSequence:
    return TextSequence(np.asarray(ids, np.int32), np.zeros(len(ids), np.uint8))


def _mean_of_sequences(hidden: Tensor, layout: Packed) -> Tensor:
    """Averages packed [T, H] over each sequence, float32 [B, H]."""
    # 先转 float32：半精度里加几百个数，后面的就加不进去了。长度一定相符，
    # 免去检查，GPU 上就不必同步
    return torch.segment_reduce(
        hidden.float(), "mean", lengths=layout.lengths, unsafe=True
    )


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
