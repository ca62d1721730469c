"""Lesson: a one-layer BERT in NumPy, every gradient by hand."""

import inspect
from collections.abc import Callable
from dataclasses import replace
from math import log

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
    round_number,
)
from bert_from_scratch.learn.materials import Materials
from bert_from_scratch.learn.minibert_data import Exercise
from bert_from_scratch.learn.minibert_numpy import Adam, backward, forward
from bert_from_scratch.learn.minibert_torch import TorchMiniBert
from bert_from_scratch.learn.minibert_training import (
    TrainedMiniBert,
    lowest_loss,
    train,
)

# 源文档报告的损失，写在这里只为对照；我们的数都是现算的
DOCUMENT_LOSSES = {1: 3.86, 50: 1.21, 100: 0.66, 150: 0.29, 500: 0.1}
EPOCHS_BY_BOTH_ROUTES = 5


def minibert(language: Language, materials: Materials) -> Lesson:
    """Teaches a forward pass, its gradients, and training by them."""
    say = speaker(language)
    return Lesson(
        say("MiniBert, every gradient by hand", "MiniBert：每个梯度都手写"),
        (
            *_model(language, materials.exercise),
            *_gradients(language),
            *_check(language, materials.exercise),
            *_training(language, materials.document_model),
            *_both_routes(language, materials.document_model),
        ),
    )


def _model(language: Language, exercise: Exercise) -> tuple[Block, ...]:
    say = speaker(language)
    parameters = exercise.first_parameters()
    size = sum(values.size for values in parameters.values())
    num_words = len(exercise.vocabulary) - 1
    return (
        Paragraph(
            say(
                f"Take {len(exercise.sentences)} short sentences over "
                f"{num_words} words, such as "
                f"`{exercise.sentences[0]}`, hide one word of each behind "
                "`[MASK]`, and let a small model guess it. The model is BERT "
                f"cut down to one layer: vectors of {exercise.width} numbers, "
                f"{size:,} weights.",
                f"取 {len(exercise.sentences)} 个短句，共 {num_words} 个词，"
                f"例如 `{exercise.sentences[0]}`；每句用 `[MASK]` 遮住一个"
                "词，让一个小模型去猜。这个模型就是只有一层的 BERT："
                f"向量宽 {exercise.width}，共 {size:,} 个权重。",
            )
        ),
        Formula(
            (
                "x      = E[ids]",
                "mixed  = dropout(softmax(x W_Q (x W_K)ᵀ / √D) x W_V)",
                "h      = LayerNorm(x + mixed)",
                "g      = GELU(h W + b)",
                "logits = g Eᵀ + c",
                "loss   = mean of -log softmax(logits)[hidden word]",
            )
        ),
        Paragraph(
            say(
                "`E` is used twice, to read words and to write them: the "
                "output weights are tied. Dropout puts zeros into the mix at "
                f"random ({exercise.dropout:.0%}) so that no single number "
                "becomes indispensable.",
                "`E` 用了两次：读词用它，写词也用它，这就是权重绑定。"
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
        Paragraph(
            say(
                "Attention is the longest of them, and still fits on a card. "
                "This is the code that runs, taken from its file:",
                "其中注意力最长，也不过半页。"
                "下面是真正在跑的代码，直接取自源文件：",
            )
        ),
        Code(_source(layers.softmax_backward)),
        Code(_source(layers.attend_backward)),
    )


def _check(language: Language, exercise: Exercise) -> tuple[Block, ...]:
    say = speaker(language)
    # 位置向量也一并检查：下一课要用
    exercise = replace(exercise, with_positions=True)
    parameters = exercise.first_parameters()
    batch = next(exercise.epochs())[0]
    ours = backward(parameters, batch, forward(parameters, batch))
    theirs = TorchMiniBert(parameters).gradients(batch)
    rows = tuple(
        (
            name,
            " × ".join(map(str, ours[name].shape)),
            f"{np.abs(theirs[name]).max():.1e}",
            f"{np.abs(ours[name] - theirs[name]).max():.0e}",
        )
        for name in sorted(ours)
    )
    return (
        Heading(say("Is it right?", "对不对？")),
        Paragraph(
            say(
                "PyTorch derives gradients by itself. On the first batch, in "
                "double precision, with the same dropout:",
                "PyTorch 会自动求导。用第一批数据、双精度、"
                "同样的 dropout 来对照：",
            )
        ),
        Table(
            (
                say("weight", "权重"),
                say("shape", "形状"),
                say("largest gradient", "最大梯度"),
                say("largest difference", "最大差"),
            ),
            rows,
        ),
    )


def _training(language: Language, run: TrainedMiniBert) -> tuple[Block, ...]:
    say = speaker(language)
    exercise = run.exercise
    least = lowest_loss(next(exercise.epochs()), ordered=False)
    know_nothing = log(len(exercise.vocabulary))
    shown = [n for n in DOCUMENT_LOSSES if n <= len(run.losses)]
    if len(run.losses) not in shown:
        shown.append(len(run.losses))
    rows = tuple(
        (
            str(n),
            round_number(run.losses[n - 1]),
            str(DOCUMENT_LOSSES.get(n, "")),
        )
        for n in shown
    )
    return (
        Heading(say("Training", "训练")),
        Paragraph(
            say(
                "Adam, also by hand, with learning rate "
                f"{Adam().learning_rate:g}; the hidden "
                "word of a sentence is drawn once. A model that knows nothing "
                f"spreads its bets over {len(exercise.vocabulary)} words and "
                f"pays ln {len(exercise.vocabulary)} = "
                f"{round_number(know_nothing)}, which is where it starts.",
                "优化器是 Adam，也是手写的，"
                f"学习率 {Adam().learning_rate:g}；"
                "每句遮哪个词只抽一次签。什么都不懂的模型把宝平摊在 "
                f"{len(exercise.vocabulary)} 个词上，损失是 "
                f"ln {len(exercise.vocabulary)} = "
                f"{round_number(know_nothing)}，起点正是这里。",
            )
        ),
        Table(
            (
                say("epoch", "轮次"),
                say("loss", "损失"),
                say("in the document, about", "文档中约为"),
            ),
            rows,
        ),
        Paragraph(
            say(
                "It cannot reach zero: some sentences become the same "
                "question with different answers (who eats the apple?). The "
                "least that any model without positions can pay here is "
                f"{round_number(least)}.",
                "损失到不了零：有些句子遮住一个词后问题相同，答案却不同"
                "（谁吃苹果？）。没有位置信息的模型，在这里最低也要付出 "
                f"{round_number(least)}。",
            )
        ),
    )


def _both_routes(language: Language, run: TrainedMiniBert) -> tuple[Block, ...]:
    say = speaker(language)
    num_epochs = min(EPOCHS_BY_BOTH_ROUTES, len(run.losses))
    # 只重走开头几轮：每一步都一致，后面就没有理由不一致
    exercise = replace(run.exercise, num_epochs=num_epochs)
    torch_model = TorchMiniBert(exercise.first_parameters())
    theirs = train(exercise, torch_model).losses
    rows = tuple(
        (str(n), f"{a:.12f}", f"{b:.12f}")
        for n, (a, b) in enumerate(
            zip(run.losses[:num_epochs], theirs, strict=True), start=1
        )
    )
    return (
        Heading(say("The same in PyTorch", "换成 PyTorch 再走一遍")),
        Paragraph(
            say(
                "The same weights to start from, the same masks, PyTorch's "
                "autograd and PyTorch's Adam. The losses agree epoch by epoch:",
                "同样的初始权重、同样的遮盖，"
                "换成 PyTorch 的自动求导和 Adam，损失逐轮一致：",
            )
        ),
        Table((say("epoch", "轮次"), "NumPy", "PyTorch"), rows),
        Paragraph(
            say(
                "Read the whole of it: `learn/minibert_layers.py` and "
                "`learn/minibert_numpy.py`; the PyTorch twin is "
                "`learn/minibert_torch.py`. Next: `bert learn positions`.",
                "全部代码在 `learn/minibert_layers.py` 和 "
                "`learn/minibert_numpy.py`，PyTorch 版在 "
                "`learn/minibert_torch.py`。下一课：`bert learn positions`。",
            )
        ),
    )


def _source(function: Callable[..., object]) -> str:
    return inspect.getsource(function)
