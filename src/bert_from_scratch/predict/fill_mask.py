"""The best words for each [MASK] of a text."""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import torch

from bert_from_scratch.data.batch import pack
from bert_from_scratch.errors import BertError
from bert_from_scratch.model.device import choose_device
from bert_from_scratch.model.directory import find
from bert_from_scratch.model.inference import for_inference
from bert_from_scratch.objectives.pretraining import BertForPreTraining
from bert_from_scratch.tokenizer import WordPieceTokenizer


@dataclass(frozen=True)
class Candidate:
    """One proposal for a [MASK].

    Attributes:
        token: The WordPiece.
        token_id: Its id.
        probability: The model's probability for it.
        text: The text with this [MASK] filled; other masks stay.
    """

    token: str
    token_id: int
    probability: float
    text: str


@dataclass(frozen=True)
class FilledMask:
    """The proposals for one [MASK], best first.

    Attributes:
        position: The token position of the mask; [CLS] is at 0.
        candidates: At least one proposal.
    """

    position: int
    candidates: list[Candidate]


class MaskFiller:
    """A model with an MLM head, ready to fill masks."""

    def __init__(
        self,
        model: BertForPreTraining,
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
        model = BertForPreTraining.from_pretrained(
            directory, required_parts=("mlm_head",)
        )
        tokenizer = WordPieceTokenizer.load(directory)
        return cls(model, tokenizer, choose_device(device))

    @torch.inference_mode()
    def fill(
        self, text: str, pair: str | None = None, top: int = 5
    ) -> list[FilledMask]:
        """Proposes words for every [MASK], each with the others still masked.

        Args:
            text: Text with one or more [MASK].
            pair: A second segment, or None.
            top: Number of proposals a mask.
        """
        if top < 1:
            raise BertError(f"--top must be at least 1, got {top}.")
        limit = self.model.config.max_position_embeddings
        encoding = self.tokenizer.encode(text, pair, max_length=sys.maxsize)
        if len(encoding) > limit:
            raise BertError(
                f"The text has {len(encoding)} tokens, over the maximum of "
                f"{limit}.",
                hint="shorten it around the [MASK]",
            )
        ids = encoding.input_ids
        mask_id = self.tokenizer.mask_token_id
        positions = [place for place, i in enumerate(ids) if i == mask_id]
        if not positions:
            raise BertError(
                "There is no [MASK] in the text.",
                hint='for example "the man [MASK] the book"',
            )
        batch = pack([encoding]).to(self.device)
        hidden_state = self.model.bert(**batch.inputs()).hidden_state
        places = torch.tensor(positions, device=self.device)
        logits = self.model.mlm_logits(hidden_state, places)
        # 有些检查点把词表补齐到整数倍，多出的行没有对应的词
        logits = logits[:, : len(self.tokenizer)]
        best = logits.float().softmax(-1).topk(min(top, logits.shape[-1]))
        return [
            FilledMask(
                position,
                [
                    self._candidate(ids, position, token_id, probability)
                    for token_id, probability in zip(
                        token_ids, probabilities, strict=True
                    )
                ],
            )
            for position, token_ids, probabilities in zip(
                positions,
                best.indices.tolist(),
                best.values.tolist(),
                strict=True,
            )
        ]

    def _candidate(
        self, ids: list[int], position: int, token_id: int, probability: float
    ) -> Candidate:
        filled = [*ids[:position], token_id, *ids[position + 1 :]]
        # 去掉首尾的 [CLS]、[SEP]，其余仍未填的 [MASK] 保留在文本里
        return Candidate(
            token=self.tokenizer.id_to_token(token_id),
            token_id=token_id,
            probability=probability,
            text=self.tokenizer.decode(filled[1:-1], skip_special_tokens=False),
        )
