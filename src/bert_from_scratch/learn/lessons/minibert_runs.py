"""The second half of the lesson on MiniBert: training, by two routes."""

from dataclasses import replace
from math import log

from bert_from_scratch.learn.language import Language, speaker
from bert_from_scratch.learn.lesson import (
    Block,
    Heading,
    Paragraph,
    Table,
    round_number,
)
from bert_from_scratch.learn.minibert_data import Exercise
from bert_from_scratch.learn.minibert_numpy import Adam
from bert_from_scratch.learn.minibert_torch import TorchMiniBert
from bert_from_scratch.learn.minibert_training import (
    TrainedMiniBert,
    lowest_loss,
    train,
)

# 教程报告的数，写在这里只为对照；我们的数都是现算的
TUTORIAL_LOSSES = {1: 3.86, 50: 1.21, 100: 0.66, 150: 0.29, 500: 0.1}
TUTORIAL_NUM_SENTENCES = 101
EPOCHS_BY_BOTH_ROUTES = 5
NUM_DRAWS = 20


def show_training(
    language: Language, run: TrainedMiniBert
) -> tuple[Block, ...]:
    """Shows the loss epoch by epoch, beside the tutorial's, and its floor."""
    say = speaker(language)
    size = len(run.exercise.vocabulary)
    return (
        Heading(say("Training", "训练")),
        Paragraph(
            say(
                "Adam, also by hand, with learning rate "
                f"{Adam().learning_rate:g}; the hidden "
                "word of a sentence is drawn once. A model that knows nothing "
                f"spreads its bets over all {size} entries, `[MASK]` among "
                f"them, and pays ln {size} = {round_number(log(size))}, which "
                "is where it starts.",
                "优化器是 Adam，也是手写的，"
                f"学习率 {Adam().learning_rate:g}；"
                "每句遮哪个词只抽一次签。什么都不懂的模型把宝平摊在全部 "
                f"{size} 项上（`[MASK]` 也算一项），损失是 "
                f"ln {size} = {round_number(log(size))}，起点正是这里。",
            )
        ),
        _losses(language, run),
        _floor(language, run.exercise),
    )


def _losses(language: Language, run: TrainedMiniBert) -> Table:
    say = speaker(language)
    num_epochs = len(run.losses)
    shown = sorted({*TUTORIAL_LOSSES, num_epochs})
    return Table(
        (
            say("epoch", "轮次"),
            say("loss", "损失"),
            say("in the tutorial, about", "教程中约为"),
        ),
        tuple(
            (
                str(n),
                round_number(run.losses[n - 1]),
                str(TUTORIAL_LOSSES.get(n, "")),
            )
            for n in shown
            if n <= num_epochs
        ),
    )


def _floor(language: Language, exercise: Exercise) -> Paragraph:
    say = speaker(language)
    least = round_number(find_floor(exercise))
    # 换种子就是换一次抽签：下界随抽到的词变化
    floors = [find_floor(replace(exercise, seed=n)) for n in range(NUM_DRAWS)]
    low, high = round_number(min(floors)), round_number(max(floors))
    last = min(TUTORIAL_LOSSES.values())
    return Paragraph(
        say(
            "It cannot reach zero: some sentences become the same question "
            "with different answers (who eats the apple?). The least that "
            f"any model without positions can pay here is {least}. This "
            "floor belongs to these sentences and this draw of hidden words: "
            f"over {NUM_DRAWS} draws it lies between {low} and {high}. The "
            f"tutorial's {last} may lie below ours, because it has other "
            f"sentences, {TUTORIAL_NUM_SENTENCES} of them, and other hidden "
            "words; ours let everybody eat everything, so more of them "
            "become the same question.",
            "损失到不了零：有些句子遮住一个词后问题相同，答案却不同"
            "（谁吃苹果？）。没有位置信息的模型，在这里最低也要付出 "
            f"{least}。这个下界只属于这些句子和这次抽签："
            f"抽 {NUM_DRAWS} 次，它在 {low} 与 {high} 之间。教程的 "
            f"{last} 可以低于它，因为那里的句子不同"
            f"（{TUTORIAL_NUM_SENTENCES} 句），遮住的词也不同；"
            "我们的句子让人人什么都吃，相同的问题就更多。",
        )
    )


def find_floor(exercise: Exercise) -> float:
    """Computes the least loss of a model without positions, masks once."""
    return lowest_loss(next(exercise.epochs()), ordered=False)


def show_both_routes(
    language: Language, run: TrainedMiniBert
) -> tuple[Block, ...]:
    """Shows that PyTorch, started from the same weights, agrees."""
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
