"""The second half of the pipeline: from three arrays to vectors."""

from collections.abc import Sequence
from unicodedata import east_asian_width

import numpy as np
import torch
from torch import Tensor

from bert_from_scratch.data.batch import pad
from bert_from_scratch.learn.language import Language, speaker
from bert_from_scratch.learn.lesson import (
    Block,
    Heading,
    Matrix,
    Paragraph,
    Table,
    Transcript,
    round_number,
)
from bert_from_scratch.learn.sample_model import SampleModel
from bert_from_scratch.tokenizer import Encoding

NUMBERS_SHOWN = 5


@torch.inference_mode()
def show_embeddings(
    language: Language, sample: SampleModel, encoding: Encoding
) -> tuple[Block, ...]:
    """Shows how long each token's three vectors are, and their sum."""
    say = speaker(language)
    width = sample.model.config.hidden_size
    unit_length = f"√{width} = {round_number(width**0.5)}"
    batch, embedding = pad([encoding]), sample.model.embedding
    token = embedding.token(batch.input_ids)[0]
    segment = embedding.segment(batch.token_type_ids)[0]
    position = embedding.position(batch.position_ids)[0]
    total = token + segment + position
    stages = [token, segment, position, total, embedding.norm(total)]
    # 每个向量几百个数，印不下：用长度看各份的轻重
    lengths = np.stack([stage.norm(dim=-1).numpy() for stage in stages], 1)
    tables = say(", ", "、").join(
        f"{name} {table.weight.shape[0]:,} × {table.weight.shape[1]:,}"
        for name, table in (
            ("E", embedding.token),
            ("S", embedding.segment),
            ("P", embedding.position),
        )
    )
    return (
        Heading(say("5. Three embeddings, one sum", "5. 三种嵌入，一个和")),
        Paragraph(
            say(
                "Each token looks up three rows, one for the word, one for "
                "the sentence, one for the place, and adds them; LayerNorm "
                f"follows. The tables are {tables}. Below, the length of "
                "every vector. LayerNorm gives the numbers of a vector mean 0 "
                f"and variance 1, so in a fresh model each is {unit_length} "
                "long; the gain and the shift that training learns change "
                "that.",
                "每个词元查三张表：词、句子、位置各一行，相加，"
                f"再做 LayerNorm。三张表的大小：{tables}。"
                "下面是各个向量的长度。"
                "LayerNorm 让一个向量里的数均值为 0、方差为 1，"
                f"所以在新模型里每个向量的长度都是 {unit_length}；"
                "训练学到的增益与偏移会改变它。",
            )
        ),
        Matrix(
            "|h|",
            lengths,
            tuple(encoding.tokens),
            ("E", "S", "P", "E + S + P", "LayerNorm"),
        ),
    )


@torch.inference_mode()
def show_encoder(
    language: Language, sample: SampleModel, encoding: Encoding
) -> tuple[Block, ...]:
    """Shows the hidden states layer by layer, and the vectors that leave."""
    say = speaker(language)
    batch = pad([encoding])
    x, layout = sample.model.embed(**batch.inputs())
    states = sample.model.encoder.hidden_states(x, layout)
    rows = tuple(
        (
            str(number) if number else say("embeddings", "嵌入"),
            " × ".join(map(str, state.shape)),
            round_number(state[0, 0].norm().item()),
            round_number(state[0, 1:].norm(dim=-1).mean().item()),
        )
        for number, state in enumerate(states)
    )
    return (
        Heading(say("6. The encoder, and what comes out", "6. 编码器与输出")),
        Paragraph(
            say(
                "Every layer keeps the shape: one row, its tokens, "
                f"{x.shape[-1]} numbers each. Every layer also ends with "
                "LayerNorm, so the lengths are again those it gives.",
                "每一层都不改变形状：一行，若干词元，"
                f"每个 {x.shape[-1]} 个数。每一层又都以 LayerNorm 结尾，"
                "所以长度还是它给的那个长度。",
            )
        ),
        Table(
            (
                say("layer", "层"),
                say("shape", "形状"),
                "|[CLS]|",
                say("mean length of the others", "其余的平均长度"),
            ),
            rows,
        ),
        Paragraph(
            say(
                "Sentence tasks (class, number, next sentence) read the first "
                "vector, that of `[CLS]`, through a dense layer and tanh; "
                "token tasks (names, answers, hidden words) read the vector "
                "of each token.",
                "句子任务（分类、打分、下一句）读第一个向量，"
                "也就是 `[CLS]` 的，经过一层全连接和 tanh；"
                "词元任务（实体、答案、遮住的词）读每个词元自己的向量。",
            )
        ),
        Transcript(
            align(
                encoding.tokens[:2],
                [_first_numbers(vector) for vector in states[-1][0, :2]],
            )
        ),
    )


def align(labels: Sequence[str], texts: Sequence[str]) -> tuple[str, ...]:
    """Returns lines of a label and a text, the texts below each other."""
    widths = [_display_width(label) for label in labels]
    return tuple(
        f"{label}{' ' * (max(widths) - width)}  {text}"
        for label, width, text in zip(labels, widths, texts, strict=True)
    )


def _display_width(text: str) -> int:
    # 汉字占两格：按字符数补空格，中文那一行就会错位
    return sum(1 + (east_asian_width(c) in "WF") for c in text)


def _first_numbers(vector: Tensor) -> str:
    shown = ", ".join(
        f"{value:+.3f}" for value in vector[:NUMBERS_SHOWN].tolist()
    )
    return f"[{shown}, ...]"
