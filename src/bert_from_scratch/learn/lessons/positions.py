"""Lesson: what a model without positions cannot know."""

import numpy as np

from bert_from_scratch.learn.language import Language, speaker
from bert_from_scratch.learn.lesson import (
    Block,
    Formula,
    Heading,
    Lesson,
    Paragraph,
    Table,
    write_gap,
)
from bert_from_scratch.learn.lessons.four_models import (
    answer,
    compare_four_models,
    label_runs,
    title_runs,
)
from bert_from_scratch.learn.materials import Materials
from bert_from_scratch.learn.minibert_layers import Floats, attend
from bert_from_scratch.learn.minibert_numpy import NumpyMiniBert
from bert_from_scratch.learn.minibert_training import QUESTIONS, TrainedMiniBert
from bert_from_scratch.learn.syllabus import introduce_tutorial

SENTENCE = "the man reads the book"
ORDER = (4, 2, 0, 1, 3)
TURNED_ROUND = ("the [MASK] eats the fish", "the fish eats the [MASK]")


def positions(language: Language, materials: Materials) -> Lesson:
    """Teaches why order is invisible to attention, by training models."""
    say = speaker(language)
    return Lesson(
        say("Why words need places", "词为什么需要位置"),
        (
            Paragraph(introduce_tutorial(language)),
            *_set_function(language, materials),
            *_same_answer(language, materials),
            *_three_questions(language, materials),
            *compare_four_models(language, materials),
        ),
    )


def _set_function(
    language: Language, materials: Materials
) -> tuple[Block, ...]:
    say = speaker(language)
    moved = " ".join(np.array(SENTENCE.split())[list(ORDER)])
    without = permutation_gap(materials.tutorial_model)
    with_places = permutation_gap(materials.with_positions)
    return (
        Paragraph(
            say(
                "Attention compares words with words. Nothing in Q, K or V "
                "says where a word stands: a sentence is a bag. Shuffle the "
                "input, and the output is shuffled the same way; no number "
                "in it changes. Positions are one more table, P: a vector "
                "for each place, added to the word that stands there, and "
                "learned like the rest.",
                "注意力只是拿词与词相比。Q、K、V 里没有任何东西"
                "说明词站在哪里：句子只是一袋词。把输入打乱，"
                "输出也照样打乱，其中的数一个都不变。"
                "位置就是再加一张表 P：每个位置一个向量，"
                "加到站在那里的词上，和别的权重一样学出来。",
            )
        ),
        Formula(
            (
                "attend(permute(x)) = permute(attend(x))",
                "x = E[ids] + P,  dP = Σ dx",
            )
        ),
        Table(
            (
                say("sentence", "句子"),
                say("shuffled", "打乱后"),
                say("difference without positions", "无位置时的差"),
                say("with positions", "有位置时的差"),
            ),
            ((SENTENCE, moved, write_gap(without), f"{with_places:.2f}"),),
        ),
    )


def permutation_gap(run: TrainedMiniBert) -> float:
    """Returns how far attention is from not caring about the order."""
    assert isinstance(run.model, NumpyMiniBert)
    p = run.model.parameters
    ids = np.array(run.exercise.vocabulary.encode(SENTENCE))
    order = list(ORDER)

    def mix(row: np.typing.NDArray[np.int64]) -> Floats:
        x = p["token"][row][None]
        if "position" in p:
            x = x + p["position"][: len(row)]
        return attend(x, p["query"], p["key"], p["value"]).output[0]

    # 先打乱再注意，与先注意再打乱：没有位置时应当完全相同
    return float(np.abs(mix(ids[order]) - mix(ids)[order]).max())


def _same_answer(language: Language, materials: Materials) -> tuple[Block, ...]:
    say = speaker(language)
    rows = []
    for where, how, run in label_runs(language, materials):
        first, second = (run.probabilities(text) for text in TURNED_ROUND)
        gap = np.abs(first - second).max()
        guesses = [answer(run, text) for text in TURNED_ROUND]
        rows.append((where, how, *guesses, f"{gap:.2f}"))
    return (
        Heading(say("Who eats whom?", "谁吃谁？")),
        Paragraph(
            say(
                "Two questions made of the same words. A model without "
                "positions must give both the same answer, whatever it has "
                "learned and however the hidden words are drawn, since to it "
                "they are one question. The last column is the largest "
                "difference between the two probabilities of any word. No "
                "sentence tells what a fish eats, so the second question has "
                "no right answer here: what counts is whether the answers "
                "can differ at all.",
                "下面两个问题用的词一模一样。没有位置的模型，"
                "不管学得多好、怎样抽签，只能给出同一个答案，"
                "因为对它来说这就是同一个问题。"
                "最后一列是同一个词在两个问题里概率之差的最大值。"
                "没有哪个句子说过鱼吃什么，所以第二问在这里没有正确答案："
                "要看的只是两个答案能不能不同。",
            )
        ),
        Table(
            (
                *title_runs(language),
                *TURNED_ROUND,
                say("largest difference", "最大差"),
            ),
            tuple(rows),
        ),
    )


def _three_questions(
    language: Language, materials: Materials
) -> tuple[Block, ...]:
    say = speaker(language)
    return (
        Heading(say("Three questions", "三个问题")),
        Paragraph(
            say(
                "The tutorial asks its model three things: something to eat, "
                "something to read, and a verb. Its own model answers the "
                "third with `man`. Here is our copy of that recipe (no "
                "positions, the hidden words drawn once):",
                "教程问了模型三件事：一样吃的、一样读的、一个动词。"
                "它自己的模型对第三问答的是 `man`。"
                "下面按它的做法重做（没有位置，遮哪个词只抽一次签）：",
            )
        ),
        _top_five(language, materials.tutorial_model),
        Paragraph(
            say(
                "And this one has positions, and hides other words in every "
                "epoch, as BERT does:",
                "再看有位置、并且每轮重新抽签的模型，BERT 就是这样做的：",
            )
        ),
        _top_five(language, materials.with_both),
    )


def _top_five(language: Language, run: TrainedMiniBert) -> Table:
    say = speaker(language)
    guesses = [run.guess(question) for question in QUESTIONS]
    rows = tuple(
        (question, *(f"{word} {share:.1%}" for word, share in best))
        for question, best in zip(QUESTIONS, guesses, strict=True)
    )
    titles = tuple(str(n) for n in range(1, len(guesses[0]) + 1))
    return Table((say("question", "问题"), *titles), rows)
