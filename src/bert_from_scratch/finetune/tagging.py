"""The task `tag`: a tag for every word, such as the parts of names."""

import sys
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import Any, ClassVar, Self, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from bert_from_scratch.config import BertConfig
from bert_from_scratch.data.batch import IGNORE_INDEX, Batch, pack
from bert_from_scratch.data.tasks.examples import TagExample
from bert_from_scratch.errors import BertError
from bert_from_scratch.finetune.feature_tagger import FeatureTagger
from bert_from_scratch.finetune.head import put_on_encoder
from bert_from_scratch.finetune.items import Item
from bert_from_scratch.finetune.labels import (
    check_weights,
    collect_labels,
    softmax,
    some,
)
from bert_from_scratch.finetune.metrics.entities import entity_scores
from bert_from_scratch.finetune.metrics.labels import confusion_matrix
from bert_from_scratch.finetune.tagged_text import (
    Span,
    describe_entities,
    join_words,
)
from bert_from_scratch.finetune.task import Output, Task
from bert_from_scratch.finetune.token_classifier import TokenClassifier
from bert_from_scratch.finetune.word_windows import WordEncoder, WordSequence
from bert_from_scratch.tokenizer import WordPieceTokenizer

OUTSIDE = "O"
# BIO、BIOES 以及与之等价的 BMES、BILOU 的前缀
PREFIXES = tuple(f"{letter}-" for letter in "BIESMLU")


@dataclass(frozen=True)
class TagPrediction:
    """What is said of one sentence.

    Attributes:
        tags: One a word; "O" for a word that the tokenizer makes nothing of.
        probabilities: Of these tags; 1 for such a word.
    """

    tags: tuple[str, ...]
    probabilities: tuple[float, ...]


@dataclass(frozen=True)
class TaggingTask(Task[TagExample, TagPrediction]):
    """Sentences of words, and tags.

    Attributes:
        tokenizer: Of the model.
        labels: The tags, in order.
        max_length: Longest sequence in tokens.
        document_context: Whether sequences are filled up with the
            neighbouring sentences of the document (paper, 5.3).
        features: Which layers of a frozen encoder feed a BiLSTM, one of
            `feature_tagger.LAYERS`; None: the whole model is trained.
        metric: What decides.
        class_weights: How much each tag counts in the loss, or None.
    """

    tokenizer: WordPieceTokenizer
    labels: tuple[str, ...]
    max_length: int = 128
    document_context: bool = False
    features: str | None = None
    metric: str = "entity_f1"
    class_weights: tuple[float, ...] | None = None
    name: ClassVar[str] = "tag"

    @classmethod
    def for_data(
        cls,
        tokenizer: WordPieceTokenizer,
        train: Sequence[TagExample],
        others: Sequence[TagExample],
        **settings: Any,
    ) -> Self:
        """Makes the task of some data; its tags come from `train`."""
        found = [
            pair
            for tag, place in _tags_of(train)
            for pair in ((tag, place), (_opening(tag), place))
        ]
        labels = collect_labels(found, _tags_of(others))
        has_names = are_entity_tags(labels)
        settings.setdefault("metric", "entity_f1" if has_names else "accuracy")
        # 文件里有 -DOCSTART- 才知道哪些句子同属一篇
        has_documents = any(example.document for example in train)
        settings.setdefault("document_context", has_documents)
        return cls(tokenizer, labels, **settings)

    def with_balanced_classes(self, train: Sequence[TagExample]) -> Self:
        """Returns the task with tags weighted against their frequency."""
        counts = dict.fromkeys(self.labels, 0)
        for tag, _ in _tags_of(train):
            counts[tag] += 1
        total = sum(counts.values())
        weights = (total / (len(counts) * max(n, 1)) for n in counts.values())
        return replace(self, class_weights=tuple(weights))

    def with_class_weights(self, weights: Sequence[float]) -> Self:
        """Returns the task with these weights, one a tag in order."""
        check_weights(weights, self.labels)
        return replace(self, class_weights=tuple(weights))

    @property
    def has_entities(self) -> bool:
        """Whether the tags mark spans, not words one by one."""
        return are_entity_tags(self.labels)

    def items(self, examples: Sequence[TagExample]) -> list[Item]:
        """Encodes sentences, each into one sequence or more.

        With `document_context`, examples must come as whole documents, in
        their order.
        """
        sentences = [example.words for example in examples]
        encoder = WordEncoder(self.tokenizer, sentences, self.max_length)
        numbers = {tag: number for number, tag in enumerate(self.labels)}
        items: list[Item] = []
        done = 0
        for _, group in groupby(examples, lambda example: example.document):
            document = list(group)
            encoded = encoder.encode(
                [example.words for example in document],
                with_context=self.document_context,
            )
            for example, windows in zip(document, encoded, strict=True):
                tags = _tag_numbers(example, numbers)
                for window in windows:
                    labels = None if tags is None else tags[window.words]
                    items.append(Item((window,), labels, done))
                done += 1
        return items

    @property
    def is_recordable(self) -> bool:
        """Not with a BiLSTM: it reads the lengths of every batch."""
        return self.features is None

    def collate(self, items: Sequence[Item]) -> Batch:
        """Packs sentences; labels are long [T], at first tokens of words."""
        windows = [_window(item) for item in items]
        batch = pack(windows)
        assert batch.cu_seqlens is not None
        starts = batch.cu_seqlens[:-1].tolist()
        places = torch.from_numpy(
            np.concatenate(
                [w.positions + s for w, s in zip(windows, starts, strict=True)]
            ).astype(np.int64)
        )
        is_first = torch.zeros(len(batch.input_ids), dtype=torch.bool)
        is_first[places] = True
        batch = replace(batch, word_starts=is_first)
        if any(item.labels is None for item in items):
            return batch
        # 只有每个词的第一个词元带标签，邻句和其余词元都不计损失
        labels = torch.full_like(batch.input_ids, IGNORE_INDEX)
        tags = np.concatenate([item.labels for item in items])
        labels[places] = torch.from_numpy(tags)
        return replace(batch, labels=labels)

    def new_model(self, model_dir: Path) -> nn.Module:
        """Puts a fresh tagger on a pre-trained encoder."""
        if self.features is not None:
            return FeatureTagger.on_encoder(
                model_dir, self.labels, self.features, self.class_weights
            )

        def build(config: BertConfig) -> TokenClassifier:
            return TokenClassifier(config, self.labels, self.class_weights)

        return put_on_encoder(build, model_dir)

    def load_model(self, model_dir: Path) -> nn.Module:
        """Loads a tagger that was trained before."""
        if self.features is not None:
            return FeatureTagger.from_pretrained(
                model_dir, self.labels, self.features
            )
        return TokenClassifier.from_pretrained(model_dir)

    def decode(
        self,
        examples: Sequence[TagExample],
        items: Sequence[Item],
        outputs: Sequence[Output],
    ) -> list[TagPrediction]:
        """Turns scores into a tag a word; nothing is repaired."""
        tags = [[OUTSIDE] * len(example.words) for example in examples]
        chances = [[1.0] * len(example.words) for example in examples]
        for item, scores in zip(items, outputs, strict=True):
            window = _window(item)
            rows = softmax(scores[window.positions].astype(np.float64))
            best = zip(
                window.words.tolist(),
                rows.argmax(-1).tolist(),
                rows.max(-1).tolist(),
                strict=True,
            )
            for word, number, chance in best:
                tags[item.example][word] = self.labels[number]
                chances[item.example][word] = chance
        return [
            TagPrediction(tuple(a), tuple(b))
            for a, b in zip(tags, chances, strict=True)
        ]

    def metrics(self) -> tuple[str, ...]:
        """Returns the scores that may decide."""
        if not self.has_entities:
            return ("accuracy",)
        return ("entity_f1", "precision", "recall", "accuracy")

    def score(
        self,
        examples: Sequence[TagExample],
        predictions: Sequence[TagPrediction],
    ) -> dict[str, float]:
        """Scores whole entities, or else how many words are right."""
        gold = [_tags(example) for example in examples]
        found = [prediction.tags for prediction in predictions]
        scores = entity_scores(gold, found)
        if self.has_entities:
            return scores
        return {"accuracy": scores["accuracy"]}

    def confusion(
        self,
        examples: Sequence[TagExample],
        predictions: Sequence[TagPrediction],
    ) -> tuple[tuple[str, ...], NDArray[np.int64]] | None:
        """Counts which tag was taken for which, word by word."""
        numbers = {tag: number for number, tag in enumerate(self.labels)}
        gold = [numbers[tag] for e in examples for tag in _tags(e)]
        found = [numbers.get(tag, 0) for p in predictions for tag in p.tags]
        return self.labels, confusion_matrix(gold, found, len(self.labels))

    def check(self, examples: Sequence[TagExample]) -> None:
        """Refuses sentences without tags, and tags that are not known."""
        for tag, place in _tags_of(examples):
            if tag not in self.labels:
                raise BertError(
                    f"{place}: the model does not know the tag {tag!r}; it "
                    f"knows {some(self.labels)}."
                )

    def gold(self, example: TagExample) -> Any:
        """Returns the right tags."""
        return list(_tags(example))

    def mistake(self, example: TagExample, prediction: TagPrediction) -> float:
        """Returns how sure the model was of its worst wrong tag."""
        rows = zip(
            _tags(example),
            prediction.tags,
            prediction.probabilities,
            strict=True,
        )
        wrong = [chance for gold, found, chance in rows if gold != found]
        return max(wrong, default=0.0)

    def describe(
        self,
        example: TagExample,
        prediction: TagPrediction,
        text: str | None = None,
        spans: Sequence[Span] | None = None,
    ) -> dict[str, Any]:
        """Returns words, tags and entities.

        Args:
            example: The sentence.
            prediction: What was said of it.
            text: Where the words were found; None: they are joined.
            spans: The place of every word in `text`, from
                `example_of_text`; given with it.
        """
        if text is None or spans is None:
            text, spans = join_words(example.words)
        told: dict[str, Any] = {
            "text": text,
            "words": list(example.words),
            "tags": list(prediction.tags),
            "entities": [],
        }
        if self.has_entities:
            told["entities"] = describe_entities(
                text, spans, prediction.tags, prediction.probabilities
            )
        return told

    def settings(self) -> dict[str, Any]:
        """Returns what prediction needs to know."""
        return {
            "labels": list(self.labels),
            "max_length": self.max_length,
            "document_context": self.document_context,
            "features": self.features,
            "metric": self.metric,
        }

    @classmethod
    def from_settings(
        cls, tokenizer: WordPieceTokenizer, values: dict[str, Any]
    ) -> Self:
        """Makes the task that `settings` described."""
        return cls(tokenizer, **{**values, "labels": tuple(values["labels"])})


def are_entity_tags(tags: Sequence[str]) -> bool:
    """Says whether tags are BIO or BIOES, not parts of speech, say."""
    return all(tag == OUTSIDE or tag.startswith(PREFIXES) for tag in tags)


def example_of_text(
    tokenizer: WordPieceTokenizer, text: str, document: int = 0
) -> tuple[TagExample, list[Span]]:
    """Divides a text into words as BERT does; Chinese by character.

    Args:
        tokenizer: Of the model.
        text: Any text, of any length.
        document: Texts with the same number are each other's context.

    Returns:
        The words, and where each starts and ends in the text.
    """
    encoding = tokenizer.encode(
        text,
        max_length=sys.maxsize,
        specials_are_text=True,
        add_special_tokens=False,
    )
    spans: dict[int | None, Span] = {}
    for word, (start, end) in zip(
        encoding.word_ids, encoding.offsets, strict=True
    ):
        spans[word] = spans.get(word, (start, end))[0], end
    found = list(spans.values())
    for number, (start, end) in enumerate(found):
        limit = found[number + 1][0] if number + 1 < len(found) else len(text)
        # 小写模型去掉的重音仍属于前一个词，显示时要带上
        while end < limit and unicodedata.combining(text[end]):
            end += 1
        found[number] = start, end
    words = tuple(text[start:end] for start, end in found)
    return TagExample(words, document=document), found


def _window(item: Item) -> WordSequence:
    return cast("WordSequence", item.sequences[0])


def _tags(example: TagExample) -> tuple[str, ...]:
    if example.tags is None:
        raise BertError(
            f"{example.place}: there are no tags.",
            hint="one word and its tag a line, a blank line after a sentence",
        )
    return example.tags


def _tags_of(examples: Sequence[TagExample]) -> Iterator[tuple[str, str]]:
    for example in examples:
        for tag in _tags(example):
            yield tag, example.place


def _opening(tag: str) -> str:
    """Returns the tag that an entity of this kind begins with."""
    # 训练集里可能凑巧只有 I-X：没有 B-X 这一类，开头就永远标不出来
    return f"B-{tag[2:]}" if tag.startswith("I-") else tag


def _tag_numbers(
    example: TagExample, numbers: dict[str, int]
) -> np.ndarray[Any, Any] | None:
    if example.tags is None:
        return None
    for tag in example.tags:
        if tag not in numbers:
            raise BertError(
                f"{example.place}: the model does not know the tag {tag!r}, "
                f"only {some(numbers)}.",
                hint="correct it, or train with such examples",
            )
    return np.array([numbers[tag] for tag in example.tags], np.int64)
