"""The Rust `tokenizers` engine, set up exactly as Hugging Face's BERT is."""

import json
from collections.abc import Sequence
from dataclasses import dataclass

from tokenizers import (
    AddedToken,
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
)

from bert_from_scratch.tokenizer.vocabulary import (
    CLS,
    CONTINUATION,
    SEP,
    SPECIAL_TOKENS,
    UNK,
)


@dataclass(frozen=True)
class TextRules:
    """How text is cleaned and split into words before WordPiece.

    Attributes:
        lowercase: Whether the vocabulary is uncased.
        strip_accents: Whether accents are dropped; None: as `lowercase`.
        split_chinese: Whether each Chinese character is a word.
    """

    lowercase: bool = True
    strip_accents: bool | None = None
    split_chinese: bool = True


UNCASED = TextRules()


def build_engine(tokens: Sequence[str], rules: TextRules) -> Tokenizer:
    """Builds the engine of a vocabulary, its special tokens included."""
    vocab = {token: number for number, token in enumerate(tokens)}
    engine = Tokenizer(models.WordPiece(vocab=vocab, unk_token=UNK))
    set_rules(engine, rules)
    engine.decoder = decoders.WordPiece(prefix=CONTINUATION)
    engine.add_special_tokens(
        [AddedToken(t, special=True, normalized=False) for t in SPECIAL_TOKENS]
    )
    # [CLS] A [SEP] 属第 0 段，B [SEP] 属第 1 段：论文图 2 的输入格式
    engine.post_processor = processors.TemplateProcessing(
        single=f"{CLS}:0 $A:0 {SEP}:0",
        pair=f"{CLS}:0 $A:0 {SEP}:0 $B:1 {SEP}:1",
        special_tokens=[(CLS, vocab[CLS]), (SEP, vocab[SEP])],
    )
    return engine


def set_rules(engine: Tokenizer, rules: TextRules) -> None:
    """Makes the engine clean and split text by these rules."""
    engine.normalizer = normalizers.BertNormalizer(
        clean_text=True,
        handle_chinese_chars=rules.split_chinese,
        # None 表示跟随 lowercase：小写模型同时去掉重音，与原版一致
        strip_accents=rules.strip_accents,
        lowercase=rules.lowercase,
    )
    engine.pre_tokenizer = pre_tokenizers.BertPreTokenizer()


def find_rules(engine: Tokenizer) -> TextRules | None:
    """Reads the rules out of an engine; None when they are not BERT's own.

    They are not when another normaliser or word splitter is set, or when words
    were added that are matched before any splitting.
    """
    state = json.loads(engine.to_str())
    normalizer = state["normalizer"] or {}
    pre_tokenizer = state["pre_tokenizer"] or {}
    is_plain = (
        normalizer.get("type") == "BertNormalizer"
        and normalizer["clean_text"]
        and pre_tokenizer.get("type") == "BertPreTokenizer"
        and all(token["special"] for token in state["added_tokens"])
    )
    if not is_plain:
        return None
    return TextRules(
        lowercase=normalizer["lowercase"],
        strip_accents=normalizer["strip_accents"],
        split_chinese=normalizer["handle_chinese_chars"],
    )
