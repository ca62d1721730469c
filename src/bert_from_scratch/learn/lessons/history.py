"""Lesson: what came before BERT, and three forms of one Transformer stack."""

from math import ceil

import numpy as np
from numpy.typing import NDArray

from bert_from_scratch.learn.attention_by_hand import WORDS, work_out
from bert_from_scratch.learn.language import Language, speaker
from bert_from_scratch.learn.lesson import (
    Block,
    Code,
    Formula,
    Heading,
    Items,
    Lesson,
    Matrix,
    Paragraph,
    Table,
)

SOURCE = ("我", "喜", "欢", "猫")
TARGET = ("I", "like", "cats")
LENGTH = 128
KERNEL = 3
BASELINES = """\
bert finetune classify --encoder cnn \\
  --train train.tsv --dev dev.tsv --out my-cnn
bert finetune classify --encoder lstm --word-vectors skipgram \\
  --train train.tsv --dev dev.tsv --out my-lstm
bert finetune classify my-bert --encoder bert,bow,cnn,rnn,lstm,gru \\
  --train train.tsv --dev dev.tsv --out my-comparison
"""


def causal_mask(length: int) -> NDArray[np.bool_]:
    """Returns that word i sees words 0 ... i, bool [length, length]."""
    return np.tri(length, dtype=bool)


def full_mask(rows: int, columns: int) -> NDArray[np.bool_]:
    """Returns that everything sees everything, bool [rows, columns]."""
    return np.ones((rows, columns), dtype=bool)


def layers_to_connect(length: int, kernel: int = KERNEL) -> int:
    """Returns how many convolutions join the first and the last word."""
    # 每多一层，两端各多看 (kernel - 1) / 2 个词；首尾相距 length - 1
    return ceil((length - 1) / (kernel - 1))


def history(language: Language) -> Lesson:
    """Teaches what each family sees, and the masks of the three forms."""
    say = speaker(language)
    return Lesson(
        say(
            "Before BERT, and three forms of one stack",
            "BERT 之前，与同一堆栈的三种形式",
        ),
        (
            *_families(language),
            *_word_vectors(language),
            *_forms(language),
            *_prices(language),
        ),
    )


def _families(language: Language) -> tuple[Block, ...]:
    say = speaker(language)
    rows = (
        (
            say("bag of words, MLP", "词袋、MLP"),
            say("which words there are", "有哪些词"),
            say("one sum, order lost", "一次求和，次序尽失"),
            "bow",
        ),
        (
            "CNN",
            say(f"windows of {KERNEL} words", f"{KERNEL} 个词的窗口"),
            say(
                f"{layers_to_connect(LENGTH)} layers",
                f"{layers_to_connect(LENGTH)} 层",
            ),
            "cnn",
        ),
        (
            "RNN",
            say("one word after the other", "一个词接一个词"),
            say(f"{LENGTH - 1} steps", f"{LENGTH - 1} 步"),
            "rnn",
        ),
        (
            say("LSTM, GRU", "LSTM、GRU"),
            say("the same, with gates that keep", "同上，有门可以记住"),
            say(f"{LENGTH - 1} steps", f"{LENGTH - 1} 步"),
            "lstm, gru, bilstm",
        ),
        (
            say("attention", "注意力"),
            say("every word, at once", "所有词，同时"),
            say("1 layer", "1 层"),
            "bert",
        ),
    )
    return (
        Paragraph(
            say(
                "Every family of networks for text answers one question in "
                "its own way: how does a word learn of another that stands "
                f"far away? Take {LENGTH} words and ask what it takes to join "
                "the first and the last.",
                "每一类处理文字的网络，都在用自己的方式回答一个问题："
                "一个词怎样得知远处另一个词的消息？"
                f"设句长 {LENGTH} 个词，看首尾两词要怎样才能相连。",
            )
        ),
        Table(
            (
                say("family", "家族"),
                say("sees", "看到什么"),
                say("to join first and last", "首尾相连需要"),
                "--encoder",
            ),
            rows,
        ),
        Items(
            (
                say(
                    "An RNN reads in order, so the road is long and, in "
                    "training, the gradient is multiplied at every step: it "
                    "fades or explodes. LSTM and GRU add gates that let a "
                    "memory pass unchanged.",
                    "RNN 按次序读，路很长；训练时梯度每步都要乘一次，"
                    "不是消失就是爆炸。LSTM 与 GRU 加了门，"
                    "让记忆可以原样通过。",
                ),
                say(
                    "Attention has no road at all, and no order either, which "
                    "is why it needs positions: `bert learn positions`.",
                    "注意力根本没有路，也没有次序，所以才需要位置："
                    "`bert learn positions`。",
                ),
            )
        ),
        Paragraph(
            say(
                "All of them can be trained here on your own labels, beside "
                "BERT:",
                "它们都可以在这里用你自己的标注来训练，与 BERT 放在一起比：",
            )
        ),
        Code(BASELINES, "bash"),
    )


def _word_vectors(language: Language) -> tuple[Block, ...]:
    say = speaker(language)
    return (
        Heading(say("Word vectors", "词向量")),
        Paragraph(
            say(
                "word2vec learned vectors from raw text before BERT did: CBOW "
                "guesses a word from its neighbours, skip-gram the neighbours "
                "from the word. CBOW is nearly a masked language model, but a "
                "word has one vector for all its meanings, and the neighbours "
                "are a bag. ELMo made vectors depend "
                "on the sentence with two LSTMs, GPT with a Transformer that "
                "looks to the left; BERT looks both ways in every layer.",
                "在 BERT 之前，word2vec 已经能从生文本里学出词向量："
                "CBOW 由邻居猜中间的词，skip-gram 由中间的词猜邻居。"
                "CBOW 已经很像掩码语言模型，只是一个词的所有意思共用"
                "一个向量，邻居也只是一袋词。ELMo 用两个 LSTM 让向量随"
                "句子变化，GPT 用只看左边的 Transformer；"
                "BERT 每一层都同时看两边。",
            )
        ),
    )


def _forms(language: Language) -> tuple[Block, ...]:
    say = speaker(language)
    masked = ("我", "喜", "[MASK]", "猫")
    causal = work_out(allowed=causal_mask(len(WORDS)))
    return (
        Heading(say("One stack, three forms", "一个堆栈，三种形式")),
        Paragraph(
            say(
                "The layers stay the same. What differs is who may look at "
                "whom: 1 where the word of the row sees that of the column.",
                "层还是那些层，不同的只是谁可以看谁："
                "行上的词看得见列上的词，就记 1。",
            )
        ),
        _mask_matrix(
            say(
                "causal LM (GPT): guess the next word",
                "因果语言模型（GPT）：猜下一个词",
            ),
            causal_mask(len(SOURCE)),
            SOURCE,
            SOURCE,
        ),
        _mask_matrix(
            say(
                "masked LM (BERT): guess the hidden word",
                "掩码语言模型（BERT）：猜遮住的词",
            ),
            full_mask(len(masked), len(masked)),
            masked,
            masked,
        ),
        Paragraph(
            say(
                "Sequence to sequence (translation, T5) has both: the encoder "
                "reads the source like BERT, the decoder writes like GPT, and "
                "each written word also sees the whole source.",
                "序列到序列（翻译、T5）两者都有：编码器像 BERT 那样读原文，"
                "解码器像 GPT 那样写，写的每个词还看得见整个原文。",
            )
        ),
        _mask_matrix(
            say("decoder, itself", "解码器看自己"),
            causal_mask(len(TARGET)),
            TARGET,
            TARGET,
        ),
        _mask_matrix(
            say("decoder, the source", "解码器看原文"),
            full_mask(len(TARGET), len(SOURCE)),
            TARGET,
            SOURCE,
        ),
        Paragraph(
            say(
                "A forbidden score becomes -∞ before softmax, so its share is "
                "exactly 0 and the rest still sums to 1. The two words of "
                "`bert learn attention` once more, now causal:",
                "不许看的得分在 softmax 之前改成 -∞，份额就恰好是 0，"
                "其余的和仍为 1。把 `bert learn attention` 的两个词"
                "再算一遍，这次只许往左看：",
            )
        ),
        Formula(("A = softmax(Q Kᵀ / √D + M),  M = 0 | -∞",)),
        Matrix("A", causal.weights, WORDS, WORDS),
    )


def _mask_matrix(
    name: str,
    allowed: NDArray[np.bool_],
    rows: tuple[str, ...],
    columns: tuple[str, ...],
) -> Matrix:
    return Matrix(name, allowed.astype(np.float64), rows, columns, digits=0)


def _prices(language: Language) -> tuple[Block, ...]:
    say = speaker(language)
    hidden = round(LENGTH * 0.15)
    return (
        Heading(say("What each form pays", "各有代价")),
        Items(
            (
                say(
                    f"Causal: {LENGTH - 1} questions in {LENGTH} words, but "
                    "a word never sees what comes after it. It can write.",
                    f"因果：{LENGTH} 个词里有 {LENGTH - 1} 道题，"
                    "但每个词看不见后文。它能写。",
                ),
                say(
                    f"Masked: only {hidden} questions (15 %), but each with "
                    "both sides in view. It can read, which is what "
                    "classifying, tagging and answering need.",
                    f"掩码：只有 {hidden} 道题（15%），但每道都看得见两边。"
                    "它会读，分类、标注、问答要的正是读。",
                ),
                say(
                    "Sequence to sequence: reads and writes, with two stacks "
                    "to train and a pair of texts for every example.",
                    "序列到序列：又读又写，但要训练两个堆栈，"
                    "每个样例也要成对的文字。",
                ),
            )
        ),
    )
