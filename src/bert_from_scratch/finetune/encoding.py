"""Texts to sequences: short arrays, and what was cut off is counted."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bert_from_scratch.errors import BertError
from bert_from_scratch.finetune.baselines.words import (
    WordSequence,
    WordTokenizer,
)
from bert_from_scratch.tokenizer import Encoding, WordPieceTokenizer

logger = logging.getLogger(__name__)

TEXTS_AT_A_TIME = 4096
TextTokenizer = WordPieceTokenizer | WordTokenizer


@dataclass(frozen=True)
class TextSequence:
    """One encoded text or pair, small in memory.

    Attributes:
        input_ids: WordPiece ids, int32 [S].
        token_type_ids: Segments, uint8 [S].
    """

    input_ids: NDArray[np.int32]
    token_type_ids: NDArray[np.uint8]


def to_sequence(encoding: Encoding) -> TextSequence:
    """Keeps of an encoding what a model reads."""
    return TextSequence(
        np.asarray(encoding.input_ids, np.int32),
        np.asarray(encoding.token_type_ids, np.uint8),
    )


def _of_words(sequence: WordSequence) -> TextSequence:
    types = sequence.token_type_ids.astype(np.uint8)
    return TextSequence(sequence.input_ids, types)


def encode_texts(
    tokenizer: TextTokenizer,
    texts: Sequence[str],
    pairs: Sequence[str] | None,
    max_length: int,
) -> list[TextSequence]:
    """Encodes texts or pairs; the longer segment is cut first.

    A log line counts those that were cut. A "[SEP]" in a text is text.
    """
    sequences: list[TextSequence] = []
    for start in range(0, len(texts), TEXTS_AT_A_TIME):
        part = slice(start, start + TEXTS_AT_A_TIME)
        some = texts[part], None if pairs is None else pairs[part], max_length
        if isinstance(tokenizer, WordTokenizer):
            sequences.extend(map(_of_words, tokenizer.encode_batch(*some)))
        else:
            encodings = tokenizer.encode_batch(*some, specials_are_text=True)
            sequences.extend(map(to_sequence, encodings))
    num_cut = sum(len(s.input_ids) == max_length for s in sequences)
    if num_cut:
        # 恰好等长的也算在内：多报几条好过另编码一遍
        logger.warning(
            "%d of %d texts fill or exceed %d tokens (--max-length); what is "
            "beyond is not read.",
            num_cut,
            len(texts),
            max_length,
        )
    return sequences


def check_max_length(max_length: int, longest: int) -> None:
    """Refuses a length that the model has no positions for."""
    if not 8 <= max_length <= longest:
        raise BertError(
            f"--max-length must lie in 8 ... {longest}, got {max_length}.",
            hint=f"the model's max_position_embeddings is {longest}",
        )
