"""Lesson: self-attention for two words, every matrix printed."""

import numpy as np

from bert_from_scratch.config import BertConfig
from bert_from_scratch.learn.attention_by_hand import (
    W_KEY,
    W_QUERY,
    W_VALUE,
    WORDS,
    HandAttention,
    X,
    ask_the_model,
    work_out,
)
from bert_from_scratch.learn.language import Language, speaker
from bert_from_scratch.learn.lesson import (
    Block,
    Code,
    Formula,
    Heading,
    Lesson,
    Matrix,
    Paragraph,
    round_number,
    write_gap,
)
from bert_from_scratch.learn.minibert_layers import Floats

IN_NUMPY = """\
import numpy as np

X = np.array([[1, 0, 2], [-1, 2, 0]])  # one, cat
W_Q = np.eye(3)
W_K = np.array([[1, 0, 0], [0, 0, 1], [0, 1, 0]])
W_V = 2 * np.eye(3)

Q, K, V = X @ W_Q, X @ W_K, X @ W_V
scores = Q @ K.T / np.sqrt(3)
A = np.exp(scores)
A = A / A.sum(axis=1, keepdims=True)
Z = A @ V
"""
NUMBERS = ("1", "2", "3")
BERT = BertConfig()


def attention(language: Language) -> Lesson:
    """Teaches Q, K, V, scores, scaling, softmax and the mix."""
    say = speaker(language)
    found = work_out()
    return Lesson(
        say("Attention by hand", "手算注意力"),
        (
            Paragraph(
                say(
                    "Attention lets every word collect something from every "
                    "word. Here is all of it, small enough for paper: two "
                    "words, three numbers for each.",
                    "注意力让每个词都能从每个词那里取一点东西。"
                    "下面把它完整算一遍，小到可以用纸笔："
                    "两个词，每个词三个数。",
                )
            ),
            *_inputs(language),
            *_roles(language, found),
            *_scores(language, found),
            *_mix(language, found),
            *_same_again(language, found),
        ),
    )


def _inputs(language: Language) -> tuple[Block, ...]:
    say = speaker(language)
    return (
        Matrix("X", X, WORDS, NUMBERS, 0),
        Paragraph(
            say(
                "Three weight matrices turn each word into a question, a "
                "label and a message. In BERT they are learned; here they "
                "are chosen so that you can follow: `W_Q` changes nothing, "
                "`W_K` swaps the last two numbers, `W_V` doubles.",
                "三个权重矩阵把每个词变成一个问题、一个标签和一段话。"
                "在 BERT 里它们是学出来的；这里选得简单，好跟着算："
                "`W_Q` 什么也不变，`W_K` 交换后两个数，`W_V` 加倍。",
            )
        ),
        Matrix("W_Q", W_QUERY, NUMBERS, NUMBERS, 0),
        Matrix("W_K", W_KEY, NUMBERS, NUMBERS, 0),
        Matrix("W_V", W_VALUE, NUMBERS, NUMBERS, 0),
    )


def _roles(language: Language, found: HandAttention) -> tuple[Block, ...]:
    say = speaker(language)
    return (
        Heading(say("1. Query, key, value", "1. 查询、键、值")),
        Paragraph(
            say(
                "The query says what a word looks for, the key what it can "
                "be found by, the value what it passes on.",
                "查询（query）是这个词想找什么，键（key）是它凭什么被"
                "找到，值（value）是它交出去的内容。",
            )
        ),
        Matrix("Q = X W_Q", found.query, WORDS, NUMBERS, 0),
        Matrix("K = X W_K", found.key, WORDS, NUMBERS, 0),
        Matrix("V = X W_V", found.value, WORDS, NUMBERS, 0),
    )


def _scores(language: Language, found: HandAttention) -> tuple[Block, ...]:
    say = speaker(language)
    raw, mild = found.scores[0], found.scaled[0]
    unscaled = np.exp(raw) / np.exp(raw).sum()
    return (
        Heading(say("2. Who fits whom", "2. 谁与谁相配")),
        Paragraph(
            say(
                "A score is the dot product of a query and a key. How much "
                f"does `{WORDS[0]}` care for `{WORDS[1]}`?",
                "得分是一个查询与一个键的点积。"
                f"`{WORDS[0]}` 有多在意 `{WORDS[1]}`？",
            )
        ),
        Formula((_dot_product(found.query[0], found.key[1]),)),
        Matrix("Q Kᵀ", found.scores, WORDS, WORDS, 0),
        Paragraph(
            say(
                "Dot products grow with the number of terms, so they are "
                f"divided by √{X.shape[1]}. Without it the first row would "
                f"become {_numbers(unscaled)} instead of "
                f"{_numbers(found.weights[0])}: sharper already, and with "
                f"{BERT.head_size} terms it would be all or nothing, with "
                "nothing left to learn from.",
                f"项数越多，点积越大，所以要除以 √{X.shape[1]}。"
                f"不除的话，第一行会变成 {_numbers(unscaled)}，而不是 "
                f"{_numbers(found.weights[0])}：已经更偏了；"
                f"要是有 {BERT.head_size} 项，就会非此即彼，"
                "没有余地再学。",
            )
        ),
        Matrix("Q Kᵀ / √3", found.scaled, WORDS, WORDS),
        Paragraph(
            say(
                "Softmax turns a row into shares that sum to 1:",
                "softmax 把每一行变成和为 1 的份额：",
            )
        ),
        Formula(
            (
                f"e^{round_number(mild[0])} / (e^{round_number(mild[0])} + "
                f"e^{round_number(mild[1])}) = "
                f"{round_number(found.weights[0, 0])}",
            )
        ),
        Matrix("A = softmax(Q Kᵀ / √3)", found.weights, WORDS, WORDS),
    )


def _mix(language: Language, found: HandAttention) -> tuple[Block, ...]:
    say = speaker(language)
    own, other = found.weights[0]
    terms = [
        f"{round_number(own)}·{a:g} + {round_number(other)}·({b:g}) = "
        f"{round_number(z)}"
        for a, b, z in zip(
            found.value[0], found.value[1], found.output[0], strict=True
        )
    ]
    return (
        Heading(say("3. The mix", "3. 混合")),
        Paragraph(
            say(
                f"Each word now takes that share of every value. `{WORDS[0]}` "
                f"becomes mostly `{WORDS[1]}`, since that is what it was "
                "looking for:",
                "每个词按这些份额去取各个值。"
                f"`{WORDS[0]}` 大半变成了 `{WORDS[1]}`，"
                "因为那正是它要找的：",
            )
        ),
        Formula(tuple(terms)),
        Matrix("Z = A V", found.output, WORDS, NUMBERS),
    )


def _same_again(language: Language, found: HandAttention) -> tuple[Block, ...]:
    say = speaker(language)
    weights, output = ask_the_model()
    difference = max(
        np.abs(weights - found.weights).max(),
        np.abs(output - found.output).max(),
    )
    return (
        Heading(say("The same twice more", "再算两遍")),
        Paragraph(
            say(
                "In NumPy it is a few lines; type them and print `Z`.",
                "用 NumPy 只要几行；敲进去，打印 `Z` 看看。",
            )
        ),
        Code(IN_NUMPY),
        Paragraph(
            say(
                "And BERT's own layer in this project, "
                "`MultiHeadSelfAttention` with one head, given these weights, "
                "differs from the hand-made A and Z by "
                f"{write_gap(difference)} at most. BERT-base does this in "
                f"{BERT.num_hidden_layers} layers, each with "
                f"{BERT.num_attention_heads} heads of {BERT.head_size} "
                "numbers, adds a bias to every product, and joins the heads "
                "by one more matrix, `W_O`; that is all. Look at one: "
                "`bert inspect MODEL TEXT --out page.html`.",
                "把这些权重交给本项目里 BERT 自己的层"
                "（`MultiHeadSelfAttention`，一个头），"
                f"得到的 A 和 Z 与手算最多相差 {write_gap(difference)}。"
                f"BERT-base 有 {BERT.num_hidden_layers} 层，每层 "
                f"{BERT.num_attention_heads} 个头，每个头 "
                f"{BERT.head_size} 个数；每次乘法后加偏置，"
                "最后用矩阵 `W_O` 把各头合起来，仅此而已。想看真的："
                "`bert inspect MODEL TEXT --out page.html`。",
            )
        ),
    )


def _dot_product(query: Floats, key: Floats) -> str:
    terms = " + ".join(
        f"{q:g}·({k:g})" for q, k in zip(query, key, strict=True)
    )
    return f"q({WORDS[0]}) · k({WORDS[1]}) = {terms} = {query @ key:g}"


def _numbers(row: Floats) -> str:
    return f"({', '.join(round_number(value) for value in row)})"
