"""Lesson: a one-layer BERT in NumPy, every gradient by hand."""

import inspect

import numpy as np

from bert_from_scratch.learn import minibert_layers as layers
from bert_from_scratch.learn.language import Language, speaker
from bert_from_scratch.learn.lesson import (
    Block,
    Code,
    Formula,
    Heading,
    Lesson,
    Paragraph,
    Table,
    write_gap,
)
from bert_from_scratch.learn.lessons.minibert_runs import (
    show_both_routes,
    show_training,
)
from bert_from_scratch.learn.materials import Materials
from bert_from_scratch.learn.minibert_data import Exercise
from bert_from_scratch.learn.minibert_numpy import backward, forward
from bert_from_scratch.learn.minibert_torch import TorchMiniBert
from bert_from_scratch.learn.syllabus import introduce_tutorial

# 代码里的名字与公式里的字母
SYMBOLS = {
    "token": "E",
    "query": "W_Q",
    "key": "W_K",
    "value": "W_V",
    "gain": "gain",
    "shift": "shift",
    "dense": "W",
    "dense_bias": "b",
    "vocabulary_bias": "c",
}


def minibert(language: Language, materials: Materials) -> Lesson:
    """Teaches a forward pass, its gradients, and training by them."""
    say = speaker(language)
    return Lesson(
        say("MiniBert, every gradient by hand", "MiniBert：每个梯度都手写"),
        (
            Paragraph(introduce_tutorial(language)),
            *_model(language, materials.exercise),
            *_gradients(language),
            *_code(language),
            *_check(language, materials.exercise),
            *show_training(language, materials.tutorial_model),
            *show_both_routes(language, materials.tutorial_model),
        ),
    )


def _model(language: Language, exercise: Exercise) -> tuple[Block, ...]:
    say = speaker(language)
    parameters = exercise.first_parameters()
    size = sum(values.size for values in parameters.values())
    num_entries = len(exercise.vocabulary)
    return (
        Paragraph(
            say(
                f"Take {len(exercise.sentences)} short sentences over "
                f"{num_entries - 1} words, such as "
                f"`{exercise.sentences[0]}`, hide one word of each behind "
                "`[MASK]`, and let a small model guess it. `[MASK]` needs a "
                f"vector too, so the vocabulary has {num_entries} entries. "
                "The model is BERT cut down to one layer, without positions: "
                f"vectors of {exercise.width} numbers, {size:,} weights.",
                f"取 {len(exercise.sentences)} 个短句，"
                f"共 {num_entries - 1} 个词，"
                f"例如 `{exercise.sentences[0]}`；每句用 `[MASK]` 遮住一个"
                "词，让一个小模型去猜。`[MASK]` 也要有自己的向量，"
                f"所以词表有 {num_entries} 项。这个模型就是只有一层、"
                f"没有位置的 BERT：向量宽 {exercise.width}，"
                f"共 {size:,} 个权重。",
            )
        ),
        Formula(
            (
                "x      = E[ids]",
                "mixed  = dropout(softmax(x W_Q (x W_K)ᵀ / √D) x W_V)",
                "r      = x + mixed",
                "h      = (r - mean(r)) / σ(r) · gain + shift",
                "g      = GELU(h W + b)",
                "logits = g Eᵀ + c",
                "loss   = mean of -log softmax(logits)[hidden word]",
            )
        ),
        Paragraph(
            say(
                "`E` is used twice, to read words and to write them: the "
                "output weights are tied. The line of `h` is LayerNorm, whose "
                "`gain` and `shift` are learned like the rest. Dropout puts "
                f"zeros into the mix at random ({exercise.dropout:.0%}) so "
                "that no single number becomes indispensable.",
                "`E` 用了两次：读词用它，写词也用它，这就是权重绑定。"
                "`h` 那一行是 LayerNorm，`gain` 与 `shift` 也是学出来的。"
                f"dropout 随机把混合结果的 {exercise.dropout:.0%} 置零，"
                "免得哪一个数变得不可缺少。",
            )
        ),
    )


def _gradients(language: Language) -> tuple[Block, ...]:
    say = speaker(language)
    return (
        Heading(say("The way back", "往回走")),
        Paragraph(
            say(
                "Learning needs to know how the loss answers to every weight. "
                "One rule does it all: walk the lines above from bottom to "
                "top, and at each ask how its output reacts to its input. "
                "Below `dy` is short for dL/dy.",
                "要学习，就得知道损失对每个权重如何反应。"
                "规则只有一条：把上面的式子从下往上走一遍，"
                "每到一步就问，它的输出随输入怎样变化。"
                "下面 `dy` 是 dL/dy 的简写。",
            )
        ),
        Table(
            (say("forward", "前向"), say("backward", "反向")),
            (
                ("loss = -log softmax(z)[y]", "dz = (p - one-hot(y)) / B"),
                ("y = x W + b", "dx = dy Wᵀ,  dW = xᵀ dy,  db = Σ dy"),
                ("y = x Φ(x)", "dx = dy (Φ(x) + x φ(x))"),
                (
                    "y = n · gain + shift",
                    "dn = dy · gain,  dgain = Σ dy n,  dshift = Σ dy",
                ),
                (
                    "n = (x - mean) / σ",
                    "dx = (dn - mean(dn) - n mean(dn n)) / σ",
                ),
                ("p = softmax(s)", "ds = p (dp - Σ p dp)"),
                ("y = A V", "dA = dy Vᵀ,  dV = Aᵀ dy"),
                ("s = Q Kᵀ / √D", "dQ = ds K / √D,  dK = dsᵀ Q / √D"),
                ("y = a + b", "da = dy,  db = dy"),
                ("y = E[ids]", "dE[ids] += dy"),
            ),
        ),
    )


def _code(language: Language) -> tuple[Block, ...]:
    say = speaker(language)
    return (
        Paragraph(
            say(
                "This is the code that runs, taken from its file. The "
                "comments in it are in Chinese, as everywhere in this "
                "project; they say why. Softmax, whose comment says: the "
                "probabilities always sum to 1, so when one rises the others "
                "fall, which is why the weighted mean is subtracted.",
                "下面是真正在跑的代码，直接取自源文件；"
                "说明文字（docstring）是英文，本项目处处如此，"
                "说的是返回什么。先看 softmax：返回得分的梯度。",
            )
        ),
        Code(inspect.getsource(layers.softmax_backward)),
        Paragraph(
            say(
                "Attention is the longest of them, and still fits on half a "
                "page. Its comments say: the output is a product, weights "
                "times V, so the gradient of one factor is multiplied by the "
                "transpose of the other; and `x` went three ways, into Q, K "
                "and V, so three gradients are added.",
                "注意力最长，也不过半页：返回输入的梯度，"
                "以及三个权重矩阵的梯度。",
            )
        ),
        Code(inspect.getsource(layers.attend_backward)),
    )


def _check(language: Language, exercise: Exercise) -> tuple[Block, ...]:
    say = speaker(language)
    parameters = exercise.first_parameters()
    batch = next(exercise.epochs())[0]
    ours = backward(parameters, batch, forward(parameters, batch))
    theirs = TorchMiniBert(parameters).gradients(batch)
    rows = tuple(
        (
            name,
            SYMBOLS[name],
            " × ".join(map(str, ours[name].shape)),
            f"{np.abs(theirs[name]).max():.1e}",
            write_gap(np.abs(ours[name] - theirs[name]).max()),
        )
        for name in SYMBOLS
    )
    return (
        Heading(say("Is it right?", "对不对？")),
        Paragraph(
            say(
                "PyTorch derives gradients by itself. On the first batch, in "
                "double precision, with the same dropout, for all the "
                "weights of the formula:",
                "PyTorch 会自动求导。用第一批数据、双精度、"
                "同样的 dropout，对公式里的全部权重逐一对照：",
            )
        ),
        Table(
            (
                say("weight", "权重"),
                say("in the formula", "公式中"),
                say("shape", "形状"),
                say("largest gradient", "最大梯度"),
                say("largest difference", "最大差"),
            ),
            rows,
        ),
    )
