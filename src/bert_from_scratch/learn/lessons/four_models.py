"""The second half of the lesson on positions: four models side by side."""

import re
from collections.abc import Sequence

from bert_from_scratch.learn.language import Language, speaker
from bert_from_scratch.learn.lesson import (
    Block,
    Heading,
    Items,
    Paragraph,
    Table,
)
from bert_from_scratch.learn.materials import Materials
from bert_from_scratch.learn.minibert_data import MASK
from bert_from_scratch.learn.minibert_training import (
    QUESTIONS,
    VERB_PLACE,
    TrainedMiniBert,
)

OPEN_QUESTION = "the [MASK] eats the apple"

LabelledRun = tuple[str, str, TrainedMiniBert]


def label_runs(language: Language, materials: Materials) -> list[LabelledRun]:
    """Returns the four models, each after its positions and its masks."""
    say = speaker(language)
    no, yes = say("no", "无"), say("yes", "有")
    once, fresh = say("once", "一次"), say("every epoch", "每轮")
    return [
        (no, once, materials.tutorial_model),
        (yes, once, materials.with_positions),
        (no, fresh, materials.with_fresh_masks),
        (yes, fresh, materials.with_both),
    ]


def title_runs(language: Language) -> tuple[str, str]:
    """Returns the titles of the columns that hold these labels."""
    say = speaker(language)
    return say("positions", "位置"), say("hidden words drawn", "抽签")


def compare_four_models(
    language: Language, materials: Materials
) -> tuple[Block, ...]:
    """Shows how often each finds a verb, and says what the table shows."""
    say = speaker(language)
    runs = label_runs(language, materials)
    shares = [
        [f"{share:.0%}" for share in run.verb_shares()] for *_, run in runs
    ]
    return (
        Heading(say("Which of the two helps?", "究竟是哪一样起了作用？")),
        Paragraph(
            say(
                "One question is luck. So each of four models is asked for "
                f"word {VERB_PLACE + 1} of every sentence, the verb, leaving "
                "out the sentences whose verb the once-drawn masks hid: does "
                "it say any verb, and does it say the right one?",
                "只看一个问题靠运气。所以对四个模型，把每句的第 "
                f"{VERB_PLACE + 1} 个词（动词）都问一遍，"
                "只抽一次签时恰好遮住动词的句子不算："
                "它答的是不是动词？是不是正确的那个？",
            )
        ),
        Table(
            (
                *title_runs(language),
                say("last loss", "最终损失"),
                QUESTIONS[-1],
                say("a verb", "是动词"),
                say("the right verb", "动词正确"),
            ),
            tuple(
                (
                    *(where, how, f"{run.losses[-1]:.2f}"),
                    *(answer(run, QUESTIONS[-1]), *found),
                )
                for (where, how, run), found in zip(runs, shares, strict=True)
            ),
        ),
        Items(
            (
                _positions_alone(language, shares),
                _fresh_masks_alone(language, shares, materials),
                _both(language, shares),
                _advice(language, materials),
            )
        ),
    )


def _positions_alone(language: Language, shares: list[list[str]]) -> str:
    (kind, right), (new_kind, new_right) = shares[:2]
    return speaker(language)(
        f"Positions alone (row 2 after row 1): a verb in {new_kind} of the "
        f"cases instead of {kind}, the right one in {new_right} instead of "
        f"{right}. What a place tells is above all the kind of word.",
        f"只加位置（第 2 行对第 1 行）：是动词的从 {kind} 变为 {new_kind}，"
        f"动词正确的从 {right} 变为 {new_right}。"
        "位置说明的主要是这里要哪类词。",
    )


def _fresh_masks_alone(
    language: Language, shares: list[list[str]], materials: Materials
) -> str:
    num_answers = count_answers(materials.exercise.sentences, OPEN_QUESTION)
    kind, right = shares[2]
    return speaker(language)(
        f"Fresh masks alone (row 3): {kind} and {right}, without any "
        "positions. Every word is asked for sooner or later, and in these "
        "sentences the other words give the verb away, in whatever order. "
        "The loss is higher, because the questions are honest: "
        f"`{OPEN_QUESTION}` has {num_answers} right answers.",
        f"只重新抽签（第 3 行）：{kind} 和 {right}，没有用到位置。"
        "每个词迟早都会被问到；而在这些句子里，"
        "其余的词不论次序都足以说明是哪个动词。"
        "损失反而更高，因为问题是诚实的："
        f"`{OPEN_QUESTION}` 有 {num_answers} 个正确答案。",
    )


def _both(language: Language, shares: list[list[str]]) -> str:
    say = speaker(language)
    kind, right = shares[3]
    found = say(f"{kind} and {right}. ", f"{kind} 和 {right}。")
    # 只说表里有的：两行相同，才说第三问用不着位置
    if shares[2] == shares[3]:
        found = say(
            "the same. So on these sentences fresh masks alone settle the "
            "third question, and positions add nothing to it. ",
            "与第 3 行相同。可见在这些句子上，只靠重新抽签就解决了第三问，"
            "位置没有再添什么。",
        )
    return say(
        f"Both (row 4 after row 3): {found}What needs positions is who eats "
        "whom, above: there no way of hiding words can help.",
        f"两样都有（第 4 行对第 3 行）：{found}"
        "需要位置的是上面的“谁吃谁”，那里怎样抽签都没有用。",
    )


def _advice(language: Language, materials: Materials) -> str:
    seed = materials.exercise.seed + 1
    return speaker(language)(
        "BERT does both. Other seeds give other words; try "
        f"`--seed {seed}` and compare the last two columns.",
        "BERT 两样都做。换个随机种子，答的词会变；试试 "
        f"`--seed {seed}`，再比较最后两列。",
    )


def count_answers(sentences: Sequence[str], question: str) -> int:
    """Counts the sentences that answer a question, each by another word."""
    pattern = re.escape(question).replace(re.escape(MASK), r"\S+")
    return len({s for s in sentences if re.fullmatch(pattern, s)})


def answer(run: TrainedMiniBert, question: str) -> str:
    """Returns the best guess of a model, with its probability."""
    word, share = run.guess(question, top=1)[0]
    return f"{word} {share:.0%}"
