"""A model, warm: texts in, inspections out."""

from pathlib import Path
from typing import Self

from bert_from_scratch.analysis.attention import Trace, embedding_norms
from bert_from_scratch.analysis.attention_maps import (
    MAX_EXACT_TOKENS,
    AttentionMap,
    ExactMap,
    bits_for,
    round_to_levels,
)
from bert_from_scratch.analysis.classification import (
    Classification,
    check_label,
    classify,
)
from bert_from_scratch.analysis.heads import HeadSummary, summarise_heads
from bert_from_scratch.analysis.inspection import (
    Inspection,
    ModelFacts,
    TokenFacts,
)
from bert_from_scratch.analysis.mask_formation import MaskFormation, form_masks
from bert_from_scratch.analysis.next_sentence import NextSentence, judge_pair
from bert_from_scratch.analysis.subject import Subject
from bert_from_scratch.errors import BertError
from bert_from_scratch.finetune.sequence_classifier import SequenceClassifier
from bert_from_scratch.objectives.pretraining import BertForPreTraining
from bert_from_scratch.tokenizer import Encoding


class Inspector:
    """A BERT ready to be looked into.

    >>> inspector = Inspector.load("my-bert")
    >>> inspector.inspect("the man [MASK] the book").save("page.html")
    """

    def __init__(self, subject: Subject) -> None:
        self.subject = subject

    @classmethod
    def load(cls, directory: str | Path, device: str = "auto") -> Self:
        """Loads any BERT directory, or a run."""
        return cls(Subject.load(directory, device))

    def inspect(
        self,
        text: str,
        pair: str | None = None,
        *,
        layer: int | None = None,
        head: int | None = None,
        top: int = 5,
        label: str | None = None,
    ) -> Inspection:
        """Looks at one text from inside.

        Args:
            text: Segment A; a written [MASK] is a mask, but not for a
                classifier, to which it is text.
            pair: Segment B, or None.
            layer: The layer to show first, counted from 1; None: the last.
                Of a text over 128 tokens, it is the one kept exact.
            head: The head to show first, counted from 1; None: all.
            top: Guesses for each [MASK] and layer.
            label: The class to explain; None: the likeliest.
        """
        config = self.subject.bert.config
        layer = config.num_hidden_layers if layer is None else layer
        _check_number("--layer", layer, config.num_hidden_layers)
        _check_number("--head", head, config.num_attention_heads)
        if top < 1:
            raise BertError(f"--top must be at least 1, got {top}.")
        _check_text("text", text)
        _check_text("second text", pair)
        self._check_label(label)
        encoding = self.subject.encode(text, pair)
        trace = Trace.run(self.subject.bert, encoding)
        maps, heads = _look(trace, layer, encoding.tokens)
        return Inspection(
            model=_model_facts(self.subject),
            text=text,
            pair=pair,
            tokens=_token_facts(self.subject, encoding),
            layer=layer,
            head=head,
            maps=tuple(maps),
            heads=tuple(heads),
            masks=tuple(self._fill(trace, encoding, top)),
            next_sentence=None if pair is None else self._judge(trace),
            classification=self._classify(encoding, label),
        )

    def _check_label(self, label: str | None) -> None:
        model = self.subject.model
        if isinstance(model, SequenceClassifier):
            check_label(model, label)
        elif label is not None:
            raise BertError(
                f"--label needs a classifier; {self.subject.name} is a "
                f"{self.subject.architecture}.",
                hint="train one: bert finetune classify --help",
            )

    def _fill(
        self, trace: Trace, encoding: Encoding, top: int
    ) -> list[MaskFormation]:
        model, tokenizer = self.subject.model, self.subject.tokenizer
        if not isinstance(model, BertForPreTraining):
            return []
        mask_id = tokenizer.mask_token_id
        ids = enumerate(encoding.input_ids)
        places = [place for place, input_id in ids if input_id == mask_id]
        return form_masks(model, tokenizer, trace.states, places, top)

    def _judge(self, trace: Trace) -> NextSentence | None:
        model = self.subject.model
        if not isinstance(model, BertForPreTraining):
            return None
        return judge_pair(model, trace.states[-1])

    def _classify(
        self, encoding: Encoding, label: str | None
    ) -> Classification | None:
        model = self.subject.model
        if not isinstance(model, SequenceClassifier):
            return None
        return classify(model, self.subject.tokenizer, encoding, label)


def inspect_text(
    directory: str | Path,
    text: str,
    pair: str | None = None,
    *,
    layer: int | None = None,
    head: int | None = None,
    top: int = 5,
    label: str | None = None,
    device: str = "auto",
) -> Inspection:
    """Loads a model and looks at one text; see `Inspector.inspect`."""
    return Inspector.load(directory, device).inspect(
        text, pair, layer=layer, head=head, top=top, label=label
    )


def _look(
    trace: Trace, layer: int, tokens: list[str]
) -> tuple[list[AttentionMap], list[HeadSummary]]:
    """Recomputes attention layer by layer; one layer is in memory whole."""
    num_layers = len(trace.states) - 1
    maps: list[AttentionMap] = []
    heads: list[HeadSummary] = []
    for number in range(1, num_layers + 1):
        weights = trace.weights(number - 1)
        # 统计永远用精确值；取整只影响画图
        heads.extend(summarise_heads(weights, number, tokens))
        if len(tokens) <= MAX_EXACT_TOKENS or number == layer:
            queries, keys = trace.queries_keys(number - 1)
            parts = (part.numpy() for part in (weights, queries, keys))
            maps.append(ExactMap(*parts))
        else:
            max_bits = bits_for(num_layers * weights.numel())
            maps.append(round_to_levels(weights.numpy(), max_bits))
    return maps, heads


def _model_facts(subject: Subject) -> ModelFacts:
    config = subject.bert.config
    return ModelFacts(
        name=subject.name,
        architecture=subject.architecture,
        num_hidden_layers=config.num_hidden_layers,
        num_attention_heads=config.num_attention_heads,
        hidden_size=config.hidden_size,
        vocab_size=config.vocab_size,
        num_parameters=sum(p.numel() for p in subject.model.parameters()),
    )


def _token_facts(
    subject: Subject, encoding: Encoding
) -> tuple[TokenFacts, ...]:
    columns = zip(
        encoding.tokens,
        encoding.input_ids,
        encoding.token_type_ids,
        embedding_norms(subject.bert, encoding),
        strict=True,
    )
    return tuple(
        TokenFacts(token, input_id, segment, position, *norms)
        for position, (token, input_id, segment, norms) in enumerate(columns)
    )


def _check_text(what: str, text: str | None) -> None:
    if text is not None and not text.strip():
        raise BertError(
            f"The {what} is empty.", hint='for example "the man reads a book"'
        )


def _check_number(flag: str, number: int | None, highest: int) -> None:
    if number is not None and not 1 <= number <= highest:
        raise BertError(
            f"{flag} {number} is out of range: this model has {highest}.",
            hint=f"use {flag} 1 ... {highest}",
        )
