"""The model under test: its parts, its tokenizer, and texts to try it on."""

import sys
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Self

import torch
from torch import Tensor, nn

from bert_from_scratch.config import BertConfig, read_json
from bert_from_scratch.data.batch import Batch, TokenSequence, pad
from bert_from_scratch.errors import BertError
from bert_from_scratch.model import names
from bert_from_scratch.model.bert import BertModel
from bert_from_scratch.model.directory import StoredModel, find
from bert_from_scratch.model.weights import read_weights
from bert_from_scratch.objectives.pretraining import BertForPreTraining
from bert_from_scratch.tokenizer import WordPieceTokenizer
from bert_from_scratch.tokenizer.vocabulary import SPECIAL_TOKENS, UNK
from bert_from_scratch.tokenizer.wordpiece import Encoding

DEFAULT_TEXTS = ("The man reads the [MASK].", "我喜欢学习人工[MASK]")
SEED = 0
MIN_PAIR = 5
MIN_POSITIONS = 3
TASK_ARCHITECTURES = (
    "BertForSequenceClassification",
    "BertForTokenClassification",
    "BertForQuestionAnswering",
    "BertForMultipleChoice",
)
# 只为核对而留下的张量：磁盘上可有可无的输出层，须与词嵌入一致
DECODER_NAMES = (
    "cls.predictions.decoder.weight",
    "cls.predictions.decoder.bias",
)
POOLER_WEIGHT = "bert.pooler.dense.weight"
NSP_WEIGHT = "cls.seq_relationship.weight"


@dataclass(frozen=True)
class Tokens:
    """A sequence that was made, not read from a text."""

    input_ids: list[int]
    token_type_ids: list[int]


@dataclass(frozen=True)
class Subject:
    """A model and what it is tried on.

    Attributes:
        directory: Where it lies.
        bert: The encoder, in evaluation mode, float32, on the CPU. Its
            pooler is an identity where the directory has none.
        pretraining: The encoder with its MLM head; None without one. Its
            `nsp_head` is an identity where the directory has none.
        tokenizer: The model's own.
        texts: What it is tried on.
        encodings: The texts as the model reads them.
        stored_decoder: Output weights that the files hold beside the token
            embeddings, by their names there.
    """

    directory: Path
    bert: BertModel
    pretraining: BertForPreTraining | None
    tokenizer: WordPieceTokenizer
    texts: tuple[str, ...]
    encodings: tuple[Encoding, ...]
    stored_decoder: Mapping[str, Tensor]

    @classmethod
    def load(cls, directory: str | Path, texts: Sequence[str] = ()) -> Self:
        """Loads a model directory or a run directory.

        Args:
            directory: Any BERT directory; heads of tasks are passed over.
            texts: What to try it on; none: the default texts whose
                characters the vocabulary knows.
        """
        directory = find(Path(directory))
        config = BertConfig.load(directory / "config.json")
        tokenizer = WordPieceTokenizer.load(directory)
        limit = config.max_position_embeddings
        if limit < MIN_POSITIONS:
            raise BertError(
                f"The model has {limit} positions; {MIN_POSITIONS} are the "
                "fewest that can be verified."
            )
        if texts:
            encodings = [_encode(tokenizer, text, limit) for text in texts]
        else:
            texts, encodings = _default_texts(tokenizer, limit)
        weights = read_weights(directory)
        stored = {n: weights[n] for n in DECODER_NAMES if n in weights}
        found = names.tidy(weights).keys()
        del weights
        bert, pretraining = _load_model(directory, found)
        return cls(
            directory,
            bert,
            pretraining,
            tokenizer,
            tuple(texts),
            tuple(encodings),
            stored,
        )

    @property
    def config(self) -> BertConfig:
        """The shape of the model."""
        return self.bert.config

    @property
    def has_pooler(self) -> bool:
        """Whether the directory holds a pooler."""
        return not isinstance(self.bert.pooler, nn.Identity)

    @property
    def has_nsp_head(self) -> bool:
        """Whether the directory holds a next-sentence head."""
        model = self.pretraining
        return model is not None and not isinstance(model.nsp_head, nn.Identity)

    @cached_property
    def task_head(self) -> str | None:
        """Name of the class on disk, where it has a head of a task."""
        values = read_json(self.directory / "config.json")
        architecture = next(iter(values.get("architectures") or [""]))
        return architecture if architecture in TASK_ARCHITECTURES else None

    @cached_property
    def special_ids(self) -> frozenset[int]:
        """The ids of [PAD], [UNK], [CLS], [SEP], [MASK]."""
        ids = (self.tokenizer.token_to_id(token) for token in SPECIAL_TOKENS)
        return frozenset(ids)

    @cached_property
    def ordinary_ids(self) -> list[int]:
        """The ids of all other WordPieces that the model has, in order."""
        known = set(self.tokenizer.vocabulary.values()) - self.special_ids
        ordinary = sorted(i for i in known if i < self.config.vocab_size)
        if not ordinary:
            raise BertError("The vocabulary has no word beside special tokens.")
        return ordinary

    def draw_ids(self, count: int, seed: int = SEED) -> list[int]:
        """Draws ids of ordinary WordPieces, always the same ones."""
        ordinary = self.ordinary_ids
        generator = torch.Generator().manual_seed(seed)
        drawn = torch.randint(len(ordinary), (count,), generator=generator)
        return [ordinary[place] for place in drawn.tolist()]

    def sequence(self, length: int, seed: int = SEED) -> Tokens:
        """Makes a sequence of so many tokens: [CLS] words [SEP].

        One of five tokens or more is a pair, where the model knows pairs.
        """
        words = self.draw_ids(max(length - 2, 0), seed)
        cls, sep = self.tokenizer.cls_token_id, self.tokenizer.sep_token_id
        ids = [cls, *words, sep][:length]
        types = [0] * len(ids)
        if length >= MIN_PAIR and self.config.type_vocab_size > 1:
            # 没有第二段，分段嵌入算错了也看不出来
            middle = length // 2
            ids[middle] = sep
            types[middle + 1 :] = [1] * (length - middle - 1)
        return Tokens(ids, types)

    def longest(self) -> Tokens:
        """Makes the longest sequence that the model has positions for."""
        return self.sequence(self.config.max_position_embeddings)

    def sequences(self, *lengths: int) -> list[TokenSequence]:
        """Returns the texts, then made sequences of these lengths."""
        longest = self.config.max_position_embeddings
        made = [self.sequence(min(n, longest), seed=n) for n in lengths]
        return [*self.encodings, *made]

    def padded(self) -> Batch:
        """Returns the texts and two short sequences in padded rows."""
        # 长短不一的两条保证批次里总有填充，不论给的是什么文本
        return pad(self.sequences(2, 5), self.tokenizer.pad_token_id)

    def hide_one(self, encoding: Encoding) -> tuple[list[int], int]:
        """Returns ids with a [MASK] in them, and its place.

        A text that has one keeps it; else its middle token is hidden.
        """
        ids, mask_id = list(encoding.input_ids), self.tokenizer.mask_token_id
        if mask_id in ids:
            return ids, ids.index(mask_id)
        place = len(ids) // 2
        ids[place] = mask_id
        return ids, place


def _encode(tokenizer: WordPieceTokenizer, text: str, limit: int) -> Encoding:
    if not text.strip():
        raise BertError("A text is empty.", hint="give some words to --text")
    encoding = tokenizer.encode(text, max_length=sys.maxsize)
    if len(encoding) > limit:
        raise BertError(
            f"The text has {len(encoding)} tokens, over the maximum of "
            f"{limit}.",
            hint="give a shorter --text",
        )
    return encoding


def _default_texts(
    tokenizer: WordPieceTokenizer, limit: int
) -> tuple[list[str], list[Encoding]]:
    """Returns the default texts that the vocabulary can read."""
    read = {
        text: tokenizer.encode(text, max_length=limit) for text in DEFAULT_TEXTS
    }
    known = [text for text in read if UNK not in read[text].tokens]
    # 两种文字都不认识的词表（如氨基酸）仍要查：[UNK] 也是词元
    known = known or [DEFAULT_TEXTS[0]]
    return known, [read[text] for text in known]


def _load_model(
    directory: Path, found: Collection[str]
) -> tuple[BertModel, BertForPreTraining | None]:
    """Loads what the directory holds, and nothing freshly drawn."""
    pretraining = None
    if "cls.predictions.transform.dense.weight" in found:
        pretraining = BertForPreTraining.from_pretrained(
            directory, required_parts=("mlm_head",)
        )
        bert = pretraining.bert
        # NSP 头读的是池化后的向量：没有池化层，它也无从谈起
        _keep_if(pretraining, "nsp_head", {NSP_WEIGHT, POOLER_WEIGHT}, found)
    else:
        bert = BertModel.from_pretrained(directory, required_parts=())
    _keep_if(bert, "pooler", {POOLER_WEIGHT}, found)
    return bert, pretraining


def _keep_if(
    model: StoredModel, part: str, needed: set[str], found: Collection[str]
) -> None:
    # 文件里没有的部分是随机抽的：量它毫无意义，换成恒等映射
    if not needed <= set(found):
        model.add_module(part, nn.Identity())
