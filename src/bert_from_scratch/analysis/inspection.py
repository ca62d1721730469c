"""Everything that the page shows of one text, as plain values."""

import html
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from bert_from_scratch import atomic
from bert_from_scratch.analysis.attention_maps import AttentionMap
from bert_from_scratch.analysis.classification import Classification
from bert_from_scratch.analysis.heads import HeadSummary
from bert_from_scratch.analysis.mask_formation import MaskFormation
from bert_from_scratch.analysis.next_sentence import NextSentence
from bert_from_scratch.analysis.page import build_page

NOTEBOOK_HEIGHT = 900


@dataclass(frozen=True)
class ModelFacts:
    """What is told of the model itself.

    Attributes:
        name: What people call it.
        architecture: Hugging Face's name of its class.
        num_hidden_layers: L.
        num_attention_heads: N.
        hidden_size: H.
        vocab_size: V.
        num_parameters: All of them, heads included.
    """

    name: str
    architecture: str
    num_hidden_layers: int
    num_attention_heads: int
    hidden_size: int
    vocab_size: int
    num_parameters: int


@dataclass(frozen=True)
class TokenFacts:
    """One token of the text.

    Attributes:
        token: The WordPiece.
        input_id: Its number in the vocabulary.
        segment: 0 or 1.
        position: Its place; [CLS] is at 0.
        token_norm: Euclidean length of its token embedding.
        segment_norm: Of its segment embedding.
        position_norm: Of its position embedding.
    """

    token: str
    input_id: int
    segment: int
    position: int
    token_norm: float
    segment_norm: float
    position_norm: float


@dataclass(frozen=True)
class Inspection:
    """One text seen from inside a BERT.

    In a notebook it shows itself; `save` writes the same page as a file.

    Attributes:
        model: Facts of the model.
        text: Segment A, as given.
        pair: Segment B, or None.
        tokens: What BERT reads.
        layer: The layer that is shown first, counted from 1.
        head: The head that is shown first, counted from 1; None: all.
        maps: The attention of every layer.
        heads: Every head in numbers, layer by layer.
        masks: How each [MASK] is filled; empty without masks or MLM head.
        next_sentence: Whether segment B follows; None without a pair or a
            trained NSP head.
        classification: What a classifier says; None without one.
    """

    model: ModelFacts
    text: str
    pair: str | None
    tokens: tuple[TokenFacts, ...]
    layer: int
    head: int | None
    maps: tuple[AttentionMap, ...]
    heads: tuple[HeadSummary, ...]
    masks: tuple[MaskFormation, ...]
    next_sentence: NextSentence | None
    classification: Classification | None

    def to_dict(self) -> dict[str, Any]:
        """Returns all but the attention maps, ready for JSON."""
        classification = self.classification
        told = None if classification is None else asdict(classification)
        if classification is not None and told is not None:
            told["attribution"]["gap"] = classification.attribution.gap
        pair = self.next_sentence
        judged = None if pair is None else asdict(pair)
        return {
            "model": asdict(self.model),
            "text": self.text,
            "pair": self.pair,
            "tokens": [asdict(token) for token in self.tokens],
            "layer": self.layer,
            "head": self.head,
            "exact_layers": [
                number
                for number, one in enumerate(self.maps, 1)
                if one.is_exact
            ],
            "heads": [asdict(head) for head in self.heads],
            "masks": [asdict(mask) for mask in self.masks],
            "next_sentence": judged,
            "classification": told,
        }

    def to_page(self) -> str:
        """Returns the page: one HTML file that needs nothing else."""
        packed = [one.pack() for one in self.maps]
        title = f"{self.model.name}: {self.text}"
        return build_page(title, {**self.to_dict(), "maps": packed})

    def save(self, path: str | Path) -> None:
        """Writes the page, whole or not at all."""
        atomic.write_text(Path(path), self.to_page())

    def _repr_html_(self) -> str:
        """Shows the page in a notebook, in a frame of its own."""
        # 页面放进沙盒框架：脚本能运行，但碰不到笔记本
        return (
            f'<iframe srcdoc="{html.escape(self.to_page())}" '
            'sandbox="allow-scripts" title="bert inspect" '
            f'style="width:100%;height:{NOTEBOOK_HEIGHT}px;border:0"></iframe>'
        )
