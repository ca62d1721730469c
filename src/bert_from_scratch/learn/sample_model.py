"""A tokenizer and an encoder to look at: the user's, or a tiny one."""

from dataclasses import dataclass
from pathlib import Path
from typing import Self

import torch

from bert_from_scratch.config import BertConfig
from bert_from_scratch.corpus.builtin import (
    builtin_chinese_documents,
    simple_sentences,
)
from bert_from_scratch.model.bert import BertModel
from bert_from_scratch.model.directory import find
from bert_from_scratch.model.inference import for_inference
from bert_from_scratch.tokenizer import WordPieceTokenizer

VOCAB_SIZE = 320


@dataclass(frozen=True)
class SampleModel:
    """What text is sent through in the lesson on the pipeline.

    Attributes:
        name: What to call it: a folder, or "BERT-tiny".
        tokenizer: Text to ids.
        model: Ids to vectors; in evaluation mode.
        is_trained: Whether its weights come from a folder.
    """

    name: str
    tokenizer: WordPieceTokenizer
    model: BertModel
    is_trained: bool

    @classmethod
    def load(cls, directory: Path) -> Self:
        """Reads any BERT directory or run that has a tokenizer."""
        found = find(directory)
        tokenizer = WordPieceTokenizer.load(found)
        model = BertModel.from_pretrained(found, required_parts=())
        return cls(str(directory), tokenizer, for_inference(model), True)

    @classmethod
    def make(cls) -> Self:
        """Learns a vocabulary from the built-in text; draws random weights."""
        lines = [*simple_sentences(), *builtin_chinese_documents()]
        tokenizer = WordPieceTokenizer.train(lines, VOCAB_SIZE)
        config = BertConfig.preset("tiny", vocab_size=len(tokenizer))
        # 在自己的随机状态里抽权重：每次相同，也不打扰别人的随机数
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            model = BertModel(config)
        return cls("BERT-tiny", tokenizer, for_inference(model), False)
