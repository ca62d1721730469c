"""How a guess for [MASK] forms, layer by layer, through the MLM head.

Letters: L layers, P masks, V WordPieces, H width of a hidden state.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from bert_from_scratch.objectives.pretraining import BertForPreTraining
from bert_from_scratch.tokenizer import WordPieceTokenizer


@dataclass(frozen=True)
class Guess:
    """One WordPiece for a [MASK].

    Attributes:
        token: The WordPiece.
        token_id: Its number.
        probability: What the MLM head gives it.
    """

    token: str
    token_id: int
    probability: float


@dataclass(frozen=True)
class Course:
    """How likely one WordPiece was after every layer.

    Attributes:
        token: The WordPiece.
        probabilities: L + 1 numbers; the first is of the embeddings.
    """

    token: str
    probabilities: tuple[float, ...]


@dataclass(frozen=True)
class MaskFormation:
    """The guesses for one [MASK].

    Attributes:
        position: Place among the tokens; [CLS] is at 0.
        layers: The best guesses after every layer, best first; L + 1 rows,
            the first is of the embeddings, the last is the answer.
        courses: The words of the answer, followed through the layers.
    """

    position: int
    layers: tuple[tuple[Guess, ...], ...]
    courses: tuple[Course, ...]


@torch.inference_mode()
def form_masks(
    model: BertForPreTraining,
    tokenizer: WordPieceTokenizer,
    states: Sequence[Tensor],
    positions: Sequence[int],
    top: int = 5,
) -> list[MaskFormation]:
    """Reads every layer through the MLM head.

    The head was trained on the last layer only. What it says of an earlier
    one is how that state would read if BERT ended there.

    Args:
        model: With a trained MLM head.
        tokenizer: Of the model.
        states: L + 1 hidden states of one text, float [1, S, H].
        positions: Where the masks are; P places.
        top: Guesses a layer.
    """
    if not positions:
        return []
    places = torch.tensor(positions, device=states[0].device)
    # 逐层过头而不是一次全过：词表很大，层数乘词表会占满内存
    layers = [_read(model, tokenizer, state, places) for state in states]
    best = [p.topk(min(top, p.shape[-1])) for p in layers]
    answers = best[-1].indices
    courses = torch.stack([p.gather(-1, answers) for p in layers], -1)
    return [
        MaskFormation(
            position=position,
            layers=tuple(
                _guesses(tokenizer, found.indices[row], found.values[row])
                for found in best
            ),
            courses=tuple(
                Course(tokenizer.id_to_token(token_id), tuple(course))
                for token_id, course in zip(
                    answers[row].tolist(), courses[row].tolist(), strict=True
                )
            ),
        )
        for row, position in enumerate(positions)
    ]


def _read(
    model: BertForPreTraining,
    tokenizer: WordPieceTokenizer,
    state: Tensor,
    places: Tensor,
) -> Tensor:
    """Returns the probabilities at the masks, float32 [P, V]."""
    logits = model.mlm_logits(state, places)
    # 有些检查点把词表补齐到整数倍，多出的行没有对应的词
    return logits[:, : len(tokenizer)].float().softmax(-1)


def _guesses(
    tokenizer: WordPieceTokenizer, token_ids: Tensor, probabilities: Tensor
) -> tuple[Guess, ...]:
    return tuple(
        Guess(tokenizer.id_to_token(token_id), token_id, probability)
        for token_id, probability in zip(
            token_ids.tolist(), probabilities.tolist(), strict=True
        )
    )
