"""Batch: the tensors of one step, and the two ways to lay sequences out.

Letters: B sequences, S positions of a padded row, T tokens in all, P positions
to predict.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Protocol, Self, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

# PyTorch 与 Hugging Face 共用的约定：标签为此值的位置不计入损失
IGNORE_INDEX = -100


Ints: TypeAlias = Sequence[int] | NDArray[np.integer[Any]]


class TokenSequence(Protocol):
    """One encoded text or pair, as the tokenizer returns it."""

    @property
    def input_ids(self) -> Ints:
        """WordPiece ids, special tokens included."""

    @property
    def token_type_ids(self) -> Ints:
        """0 in segment A, 1 in segment B."""


@dataclass(frozen=True)
class Batch:
    """The input of a model, padded [B, S] or packed [T]; never changed.

    Attributes:
        input_ids: WordPiece ids, long [B, S] or [T].
        token_type_ids: Segments, long, shaped like `input_ids`.
        position_ids: Places, long, shaped like `input_ids`.
        attention_mask: True at real tokens, bool [B, S]; None when packed
            or when nothing is padding.
        cu_seqlens: Starts of packed sequences and the end, int32 [B + 1];
            None when padded.
        max_seqlen: Length of the longest sequence, or an upper bound.
        mlm_positions: Where to predict, as places in the flattened batch,
            long [P].
        mlm_labels: The original ids there, IGNORE_INDEX in unused places,
            long [P].
        nsp_labels: 0 where B follows A, 1 where it is random, IGNORE_INDEX
            for filler sequences, long [B].
        sequence_keys: What makes the masks of each sequence its own, long
            [B].
        word_starts: Where words start, bool [T]; to hide whole words, or
            to tag them.
        labels: What a fine-tuning task asks for; IGNORE_INDEX, or NaN among
            numbers, where nothing is asked. Classes, long [B]; several
            classes at once, float [B, C]; a number, float [B]; the right
            choice, long [B / C]; tags, long [T].
        start_positions: First token of the answer in its own sequence, long
            [B].
        end_positions: Its last token, long [B].
    """

    input_ids: Tensor
    token_type_ids: Tensor
    position_ids: Tensor
    attention_mask: Tensor | None = None
    cu_seqlens: Tensor | None = None
    max_seqlen: int = 0
    mlm_positions: Tensor | None = None
    mlm_labels: Tensor | None = None
    nsp_labels: Tensor | None = None
    sequence_keys: Tensor | None = None
    word_starts: Tensor | None = None
    labels: Tensor | None = None
    start_positions: Tensor | None = None
    end_positions: Tensor | None = None

    def token_owners(self) -> Tensor:
        """Returns which packed sequence each token belongs to, long [T]."""
        assert self.cu_seqlens is not None
        lengths = self.cu_seqlens.diff()
        numbers = torch.arange(len(lengths), device=lengths.device)
        # 给出总长，GPU 上就不必为求和而同步
        return torch.repeat_interleave(
            numbers, lengths, output_size=len(self.input_ids)
        )

    def inputs(self) -> dict[str, Any]:
        """Returns the arguments of `BertModel.forward`."""
        return {
            "input_ids": self.input_ids,
            "token_type_ids": self.token_type_ids,
            "position_ids": self.position_ids,
            "attention_mask": self.attention_mask,
            "cu_seqlens": self.cu_seqlens,
            "max_seqlen": None if self.cu_seqlens is None else self.max_seqlen,
        }

    def to(self, device: torch.device | str) -> Self:
        """Returns the same batch on another device."""
        # 往 CPU 搬要等搬完：不等就会读到还没到的数
        return self._map(
            lambda tensor: tensor.to(device, non_blocking=tensor.is_cpu)
        )

    def pin_memory(self) -> Self:
        """Returns the same batch where a GPU can fetch it by itself."""
        return self._map(Tensor.pin_memory)

    def clone(self) -> Self:
        """Returns a copy with memory of its own."""
        return self._map(Tensor.clone)

    def record_stream(self, stream: torch.Stream) -> None:
        """Says that another stream of the GPU uses this memory too."""
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, Tensor):
                value.record_stream(stream)

    def _map(self, change: Callable[[Tensor], Tensor]) -> Self:
        changed: dict[str, Any] = {
            field.name: change(value)
            for field in fields(self)
            if isinstance(value := getattr(self, field.name), Tensor)
        }
        return replace(self, **changed)


def pack(sequences: Sequence[TokenSequence]) -> Batch:
    """Lays sequences end to end, without any padding.

    Args:
        sequences: At least one encoded text; their labels are set later.
    """
    lengths = [len(sequence.input_ids) for sequence in sequences]
    starts = torch.zeros(len(lengths) + 1, dtype=torch.int32)
    starts[1:] = torch.tensor(lengths).cumsum(0)
    # 每条序列的位置都从 0 重新数，拼接不能泄漏到位置编码里
    positions = [np.arange(length) for length in lengths]
    return Batch(
        input_ids=_join([s.input_ids for s in sequences]),
        token_type_ids=_join([s.token_type_ids for s in sequences]),
        position_ids=_join(positions),
        cu_seqlens=starts,
        max_seqlen=max(lengths),
    )


def _join(parts: Sequence[Ints]) -> Tensor:
    arrays = [np.asarray(part, np.int64) for part in parts]
    return torch.from_numpy(np.concatenate(arrays))


def pad(sequences: Sequence[TokenSequence], pad_token_id: int = 0) -> Batch:
    """Lays sequences out as rows of equal length, padded on the right.

    Args:
        sequences: At least one encoded text; their labels are set later.
        pad_token_id: What fills the rows.
    """
    lengths = torch.tensor([len(s.input_ids) for s in sequences])
    longest = int(lengths.max())
    shape = (len(sequences), longest)
    input_ids = torch.full(shape, pad_token_id)
    token_type_ids = torch.zeros(shape, dtype=torch.long)
    for row, sequence in enumerate(sequences):
        length = len(sequence.input_ids)
        input_ids[row, :length] = torch.as_tensor(sequence.input_ids)
        token_type_ids[row, :length] = torch.as_tensor(sequence.token_type_ids)
    columns = torch.arange(longest)
    return Batch(
        input_ids=input_ids,
        token_type_ids=token_type_ids,
        position_ids=columns.expand(shape),
        # 没有填充时不给掩码，注意力可走更快的内核
        attention_mask=(
            None
            if bool((lengths == longest).all())
            else columns < lengths[:, None]
        ),
        max_seqlen=longest,
    )
