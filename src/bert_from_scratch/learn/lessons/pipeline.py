"""Lesson: from text to vectors, with the ids of a real tokenizer."""

import sys

import torch
from torch import Tensor

from bert_from_scratch.data.batch import Batch, pad
from bert_from_scratch.errors import BertError
from bert_from_scratch.learn.language import Language, speaker
from bert_from_scratch.learn.lesson import (
    Block,
    Heading,
    Lesson,
    Paragraph,
    Table,
    Transcript,
    write_gap,
)
from bert_from_scratch.learn.lessons.pipeline_vectors import (
    show_embeddings,
    show_encoder,
)
from bert_from_scratch.learn.materials import Materials
from bert_from_scratch.learn.sample_model import SampleModel
from bert_from_scratch.tokenizer import Encoding

TEXTS = {
    "en": ("The boys read books", "a dog sleeps by the fire"),
    "zh": ("我喜欢读书", "孩子们在公园散步"),
}
TRUNCATED_LENGTH = 8


def pipeline(language: Language, materials: Materials) -> Lesson:
    """Teaches tokens, arrays, embeddings, encoder and outputs."""
    say = speaker(language)
    sample = materials.sample
    text, pair = materials.texts or TEXTS[language]
    encoding = sample.tokenizer.encode(text, pair, sys.maxsize)
    _check(sample, encoding)
    return Lesson(
        say("From text to vectors", "从文字到向量"),
        (
            *_tokens(language, sample, text),
            *_arrays(language, encoding),
            *_truncation(language, sample, text, pair),
            *_padding(language, sample, text, pair),
            *show_embeddings(language, sample, encoding),
            *show_encoder(language, sample, encoding),
        ),
    )


def _check(sample: SampleModel, encoding: Encoding) -> None:
    """Refuses what the model cannot read whole."""
    config = sample.model.config
    if config.type_vocab_size < 2:
        raise BertError(
            f"{sample.name} knows no pairs: its type_vocab_size is "
            f"{config.type_vocab_size}.",
            hint="give another --model; this lesson shows a pair",
        )
    if len(encoding) > config.max_position_embeddings:
        raise BertError(
            f"The pair has {len(encoding)} tokens, over the maximum of "
            f"{config.max_position_embeddings} (max_position_embeddings).",
            hint="give a shorter --text and --pair",
        )


def _tokens(
    language: Language, sample: SampleModel, text: str
) -> tuple[Block, ...]:
    say = speaker(language)
    encoding = sample.tokenizer.encode(
        text,
        add_special_tokens=False,
        max_length=sample.model.config.max_position_embeddings,
    )
    origin = (
        say(f"The model is `{sample.name}`.", f"模型是 `{sample.name}`。")
        if sample.is_trained
        else say(
            "The model here is a BERT-tiny made on the spot: a vocabulary of "
            f"{len(sample.tokenizer)} WordPieces from the built-in sentences, "
            "and random weights. Give your own with `--model DIR`.",
            "这里的模型是现做的 BERT-tiny：从内置的短句学到的 "
            f"{len(sample.tokenizer)} 个 WordPiece 词元，权重随机。"
            "可以用 `--model DIR` 换成你自己的。",
        )
    )
    return (
        Paragraph(origin),
        Heading(say("1. Text to tokens to ids", "1. 文字、词元、编号")),
        Paragraph(
            say(
                "A word that the vocabulary knows is one token; another is "
                "cut into the longest known pieces, those inside a word "
                "marked `##`; every Chinese character stands alone; what "
                "cannot be built from pieces is `[UNK]`. An id is nothing but "
                "the line number in `vocab.txt`, counted from 0.",
                "词表里有的词就是一个词元；没有的，每次切下已知的最长一段，"
                "词中的小段以 `##` 开头；汉字每个自成一个；"
                "怎么也拼不出来的就是 `[UNK]`。"
                "编号只不过是它在 `vocab.txt` 里的行号，从 0 数起。",
            )
        ),
        Transcript(
            (
                f"{text!r}",
                f"-> {encoding.tokens}",
                f"-> {encoding.input_ids}",
                f"-> {sample.tokenizer.decode(encoding.input_ids)!r}",
            )
        ),
    )


def _arrays(language: Language, encoding: Encoding) -> tuple[Block, ...]:
    say = speaker(language)
    rows = tuple(
        (str(place), token, *map(str, numbers))
        for place, (token, *numbers) in enumerate(
            zip(
                encoding.tokens,
                encoding.input_ids,
                encoding.token_type_ids,
                encoding.attention_mask,
                strict=True,
            )
        )
    )
    return (
        Heading(say("2. Three arrays", "2. 三个数组")),
        Paragraph(
            say(
                "Two sentences go in as one row, `[CLS] A [SEP] B [SEP]`. "
                "`token_type_ids` says which sentence a token belongs to, "
                "`attention_mask` which tokens are real.",
                "两个句子连成一行送进去：`[CLS] A [SEP] B [SEP]`。"
                "`token_type_ids` 说明属于哪一句，"
                "`attention_mask` 说明哪些是真的词元。",
            )
        ),
        Table(
            (
                say("place", "位置"),
                say("token", "词元"),
                "input_ids",
                "token_type_ids",
                "attention_mask",
            ),
            rows,
        ),
    )


def _truncation(
    language: Language, sample: SampleModel, text: str, pair: str
) -> tuple[Block, ...]:
    say = speaker(language)
    cut = sample.tokenizer.encode(text, pair, TRUNCATED_LENGTH)
    return (
        Heading(say("3. Too long: truncation", "3. 太长：截断")),
        Paragraph(
            say(
                f"With room for {TRUNCATED_LENGTH} tokens, the longer "
                "sentence loses its end first; the special tokens stay.",
                f"只有 {TRUNCATED_LENGTH} 个位置时，先从较长的一句末尾去掉；"
                "特殊词元总会留下。",
            )
        ),
        Transcript((" ".join(cut.tokens),)),
    )


def _padding(
    language: Language, sample: SampleModel, text: str, pair: str
) -> tuple[Block, ...]:
    say = speaker(language)
    longest = sample.model.config.max_position_embeddings
    encodings = sample.tokenizer.encode_batch([text, pair], None, longest)
    batch = pad(encodings, sample.tokenizer.pad_token_id)
    attention_mask = torch.ones_like(batch.input_ids)
    if batch.attention_mask is not None:
        attention_mask = batch.attention_mask.long()
    together = _run(sample, batch).flatten(0, 1)[attention_mask.flatten() > 0]
    alone = torch.cat([_run(sample, pad([one]))[0] for one in encodings])
    gap = write_gap((together - alone).abs().max().item())
    # [文, 数组, 位置] -> [位置, 文与数组]：一行一个位置，长文也印得下
    columns = torch.stack([batch.input_ids, attention_mask], 1).flatten(0, 1)
    rows = tuple(
        (str(place), *map(str, numbers))
        for place, numbers in enumerate(columns.T.tolist())
    )
    return (
        Heading(say("4. Too short: padding", "4. 太短：填充")),
        Paragraph(
            say(
                "Rows of a batch must be equally long, so the shorter one is "
                "filled up with `[PAD]` and its mask says 0 there. No token "
                "looks at padding, so apart from rounding it changes "
                "nothing: the largest difference from the vectors of each "
                f"text alone is {gap}.",
                "一批里各行必须等长，短的用 `[PAD]` 补齐，掩码在那里记 0。"
                "没有词元会去看填充，所以除了舍入，结果不变："
                f"与各自单独计算的向量相比，最大的差是 {gap}。",
            )
        ),
        Table(
            (
                say("place", "位置"),
                *(
                    f"{text_name}{say(': ', '：')}{array}"
                    for text_name in "AB"
                    for array in ("input_ids", "attention_mask")
                ),
            ),
            rows,
        ),
    )


@torch.inference_mode()
def _run(sample: SampleModel, batch: Batch) -> Tensor:
    hidden_state: Tensor = sample.model(**batch.inputs()).hidden_state
    return hidden_state
