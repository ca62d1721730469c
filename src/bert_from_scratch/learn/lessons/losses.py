"""Lesson: where the two losses of pre-training come from."""

from math import exp, log

import numpy as np
import torch

from bert_from_scratch.config import BertConfig
from bert_from_scratch.data.batch import IGNORE_INDEX
from bert_from_scratch.learn.language import Language, speaker
from bert_from_scratch.learn.lesson import (
    Block,
    Formula,
    Heading,
    Lesson,
    Matrix,
    Paragraph,
    Table,
    round_number,
    write_gap,
)
from bert_from_scratch.learn.masking_counts import count_replacements
from bert_from_scratch.learn.minibert_layers import (
    Floats,
    cross_entropy,
    cross_entropy_backward,
    softmax,
)
from bert_from_scratch.objectives.mlm import MaskedLMLoss
from bert_from_scratch.objectives.nsp import NSPLoss
from bert_from_scratch.objectives.output import Part

WORDS = ("apple", "bread", "cat", "reads", "the")
ANSWER = 1
LOGITS = np.array([[2.0, 3.0, -1.0, 0.0, 1.0]])
# 同样的两道题，放进越来越长的行：多出来的只是填充
HIDDEN = (2, 5)
LENGTHS = (8, 32, 128)
NSP_LOGITS = (1.5, -0.5)


def losses(language: Language) -> Lesson:
    """Teaches cross-entropy, its gradient, the divisor, 80/10/10 and NSP."""
    say = speaker(language)
    return Lesson(
        say("The two losses", "两个损失"),
        (
            Paragraph(
                say(
                    "BERT learns from two questions that any text answers by "
                    "itself: which word was hidden, and does this sentence "
                    "follow that one? Both are multiple choice, so both have "
                    "the same loss.",
                    "BERT 靠两个问题学习，答案都在文字里："
                    "遮住的是哪个词？这一句是不是接着那一句？"
                    "两者都是选择题，所以损失也是同一种。",
                )
            ),
            *_cross_entropy(language),
            *_gradient(language),
            *_divisor(language),
            *_replacement(language),
            *_next_sentence(language),
            *_sum(language),
        ),
    )


def _cross_entropy(language: Language) -> tuple[Block, ...]:
    say = speaker(language)
    p = softmax(LOGITS)
    return (
        Heading(say("From scores to a loss", "从得分到损失")),
        Paragraph(
            say(
                "The model gives every word a score z. Softmax makes "
                "probabilities of them. We want the text to be likely, that "
                "is, the product of the probabilities of all hidden words to "
                "be large; its logarithm turns the product into a sum, and "
                "the minus sign makes it something to make small.",
                "模型给每个词一个得分 z，softmax 把得分变成概率。"
                "我们希望这段文字“很可能出现”，也就是所有被遮住的词的"
                "概率之积要大；取对数，积变成和；再取负号，"
                "就成了一个要变小的量。",
            )
        ),
        Formula(
            (
                "p_i = e^(z_i) / Σ_j e^(z_j)",
                "L = -log p_y = log Σ_j e^(z_j) - z_y",
            )
        ),
        Matrix("z", LOGITS, ("z",), WORDS, 1),
        Matrix("p = softmax(z)", p, ("p",), WORDS, 3),
        Paragraph(
            say(
                f"If the hidden word is `{WORDS[ANSWER]}`, the loss is "
                f"-ln {p[0, ANSWER]:.3f} = {_loss():.3f}.",
                f"如果遮住的词是 `{WORDS[ANSWER]}`，损失就是 "
                f"-ln {p[0, ANSWER]:.3f} = {_loss():.3f}。",
            )
        ),
    )


def _loss() -> float:
    return cross_entropy(LOGITS, np.array([ANSWER]))


def numeric_gradient(logits: Floats, answer: int, step: float = 1e-6) -> Floats:
    """Measures dL/dz by moving one score at a time, [1, V]."""
    labels = np.array([answer])
    measured = np.empty_like(logits)
    for i in range(logits.shape[-1]):
        move = np.zeros_like(logits)
        move[0, i] = step
        # 两侧各走一小步：误差是步长的平方，单侧只是一次方
        up = cross_entropy(logits + move, labels)
        down = cross_entropy(logits - move, labels)
        measured[0, i] = (up - down) / (2 * step)
    return measured


def _gradient(language: Language) -> tuple[Block, ...]:
    say = speaker(language)
    derived = cross_entropy_backward(LOGITS, np.array([ANSWER]))
    measured = numeric_gradient(LOGITS, ANSWER)
    both = np.concatenate([derived, measured])
    gap = np.abs(derived - measured).max()
    return (
        Heading(say("Its gradient is p - y", "它的梯度是 p - y")),
        Formula(
            (
                "dL/dz_i = d/dz_i (log Σ_j e^(z_j)) - d/dz_i z_y",
                "        = e^(z_i) / Σ_j e^(z_j)    - [i = y]",
                "        = p_i - y_i",
            )
        ),
        Paragraph(
            say(
                "Prediction minus answer: the right word is pushed up by what "
                "it lacks to 1, every other word down by what it took. The "
                "second row is measured by nudging one score at a time; the "
                f"rows differ by {write_gap(gap)} at most, and each sums to 0.",
                "预测减答案：正确的词离 1 差多少就抬高多少，"
                "其他词占了多少就压低多少。第二行是逐个微调得分量出来的；"
                f"两行最多相差 {write_gap(gap)}，而且每行之和都是 0。",
            )
        ),
        Matrix(
            "dL/dz",
            both,
            (say("p - y", "p - y"), say("measured", "测得")),
            WORDS,
            3,
        ),
    )


def loss_of_row(length: int) -> Part:
    """Computes the loss of one row with two hidden words, the rest padding."""
    logits = torch.from_numpy(LOGITS).expand(length, -1)
    mlm_labels = torch.full((length,), IGNORE_INDEX)
    mlm_labels[list(HIDDEN)] = torch.tensor([ANSWER, 0])
    part: Part = MaskedLMLoss()(logits, mlm_labels)
    return part


def _divisor(language: Language) -> tuple[Block, ...]:
    say = speaker(language)
    parts = {length: loss_of_row(length) for length in LENGTHS}
    rows = tuple(
        (
            str(length),
            str(int(part.count)),
            round_number(part.mean.item(), 3),
            round_number(part.total.item() / length, 3),
        )
        for length, part in parts.items()
    )
    return (
        Heading(say("Divided by what?", "除以什么？")),
        Paragraph(
            say(
                "Only hidden words have a question, so only they have a loss; "
                "at a visible word the model could simply copy. And the sum "
                "is divided by the number of hidden words. Divide by the "
                "length instead, and padding alone makes the loss look "
                "better:",
                "只有被遮住的词才是考题，所以只有它们有损失；"
                "看得见的词，抄一遍就行了。损失之和再除以被遮住的个数。"
                "如果除以长度，光靠填充就能让损失“变好”：",
            )
        ),
        Table(
            (
                say("row length", "行长"),
                say("hidden", "遮住的个数"),
                say("sum / hidden", "和 / 遮住的个数"),
                say("sum / length", "和 / 长度"),
            ),
            rows,
        ),
    )


def _replacement(language: Language) -> tuple[Block, ...]:
    say = speaker(language)
    counts = count_replacements()
    shares = counts.shares()
    names = {
        "mask": say("becomes [MASK]", "换成 [MASK]"),
        "random": say("becomes a random word", "换成随机的词"),
        "kept": say("stays as it is", "原样不动"),
    }
    return (
        Heading("80 / 10 / 10"),
        Paragraph(
            say(
                "No text that BERT will read later contains `[MASK]`. If "
                "every question did, the model would learn to think only "
                "where it sees one. So a hidden word sometimes becomes "
                "another word, and sometimes stays; the model must keep a "
                "good guess ready everywhere. Counted over "
                f"{counts.num_tokens:,} tokens, of which "
                f"{counts.num_hidden / counts.num_tokens:.1%} were hidden:",
                "BERT 以后读的文字里没有 `[MASK]`。如果每道题都有它，"
                "模型就只会在看到它时才动脑筋。所以被选中的词有时换成"
                "别的词，有时原样不动；模型在每个位置都得有所准备。"
                f"在 {counts.num_tokens:,} 个词元上数一数"
                f"（其中选中 {counts.num_hidden / counts.num_tokens:.1%}）：",
            )
        ),
        Table(
            (say("a hidden word", "被选中的词"), say("share", "比例")),
            tuple((names[key], f"{shares[key]:.1%}") for key in names),
        ),
    )


def _next_sentence(language: Language) -> tuple[Block, ...]:
    say = speaker(language)
    follows, random = NSP_LOGITS
    part = NSPLoss()(
        torch.tensor([NSP_LOGITS], dtype=torch.float64), torch.tensor([0])
    )
    by_sigmoid = log(1 + exp(-(follows - random)))
    return (
        Heading(say("Does B follow A?", "B 接在 A 后面吗？")),
        Paragraph(
            say(
                "Two choices, one vector (that of `[CLS]`), the same loss. "
                "Label 0 means follows, 1 means random. With two classes only "
                "the difference of the scores counts: softmax becomes the "
                "logistic function.",
                "两个选项，一个向量（`[CLS]` 的），同样的损失。"
                "标签 0 表示接着，1 表示随机。只有两类时，"
                "起作用的只是得分之差：softmax 就成了逻辑函数。",
            )
        ),
        Formula(
            (
                "L = -log(e^(s_0) / (e^(s_0) + e^(s_1))) "
                "= log(1 + e^(-(s_0 - s_1)))",
                f"s = ({follows}, {random}), y = 0:  NSPLoss = "
                f"{part.mean.item():.4f},  log(1 + e^{random - follows:g}) = "
                f"{by_sigmoid:.4f}",
            )
        ),
    )


def _sum(language: Language) -> tuple[Block, ...]:
    say = speaker(language)
    size = BertConfig().vocab_size
    return (
        Heading(say("The sum", "相加")),
        Formula(("L = L_MLM + L_NSP",)),
        Paragraph(
            say(
                "No weights between them, as in the paper. A fresh BERT-base "
                f"with {size:,} WordPieces should start near ln {size:,} + "
                f"ln 2 = {log(size) + log(2):.2f}; if your first loss is far "
                "off, look for a bug before you look for a GPU. "
                "`bert doctor RUN` does.",
                "两者之间没有权重，与论文一致。词表为 "
                f"{size:,} 的新 BERT-base，损失应从 ln {size:,} + ln 2 = "
                f"{log(size) + log(2):.2f} 附近起步；"
                "如果第一个损失差得远，先找错，再找 GPU。"
                "`bert doctor RUN` 就查这个。",
            )
        ),
    )
