"""Lesson: what a model without positions cannot know."""

import re
from collections.abc import Sequence

import numpy as np

from bert_from_scratch.learn.language import Language, speaker
from bert_from_scratch.learn.lesson import (
    Block,
    Formula,
    Heading,
    Items,
    Lesson,
    Paragraph,
    Table,
)
from bert_from_scratch.learn.materials import Materials
from bert_from_scratch.learn.minibert_data import MASK
from bert_from_scratch.learn.minibert_layers import Floats, attend
from bert_from_scratch.learn.minibert_numpy import NumpyMiniBert
from bert_from_scratch.learn.minibert_training import (
    QUESTIONS,
    VERB_PLACE,
    TrainedMiniBert,
)

SENTENCE = "the man reads the book"
ORDER = (4, 2, 0, 1, 3)
OPEN_QUESTION = "the [MASK] eats the apple"
TURNED_ROUND = ("the [MASK] eats the fish", "the fish eats the [MASK]")


def positions(language: Language, materials: Materials) -> Lesson:
    """Teaches why order is invisible to attention, by training models."""
    say = speaker(language)
    return Lesson(
        say("Why words need places", "词为什么需要位置"),
        (
            *_set_function(language, materials),
            *_same_answer(language, materials),
            *_three_questions(language, materials),
            *_four_models(language, materials),
        ),
    )


def _set_function(
    language: Language, materials: Materials
) -> tuple[Block, ...]:
    say = speaker(language)
    moved = " ".join(np.array(SENTENCE.split())[list(ORDER)])
    without = permutation_gap(materials.document_model)
    with_places = permutation_gap(materials.with_positions)
    return (
        Paragraph(
            say(
                "Attention compares words with words. Nothing in Q, K or V "
                "says where a word stands: a sentence is a bag. Shuffle the "
                "input, and the output is shuffled the same way; no number "
                "in it changes.",
                "注意力只是拿词与词相比。Q、K、V 里没有任何东西"
                "说明词站在哪里：句子只是一袋词。把输入打乱，"
                "输出也照样打乱，其中的数一个都不变。",
            )
        ),
        Formula(("attend(permute(x)) = permute(attend(x))",)),
        Table(
            (
                say("sentence", "句子"),
                say("shuffled", "打乱后"),
                say("difference without positions", "无位置时的差"),
                say("with positions", "有位置时的差"),
            ),
            ((SENTENCE, moved, f"{without:.0e}", f"{with_places:.2f}"),),
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
    for name, run in (
        (say("without positions", "无位置"), materials.document_model),
        (say("with positions", "有位置"), materials.with_positions),
    ):
        first, second = (run.probabilities(text) for text in TURNED_ROUND)
        gap = np.abs(first - second).max()
        guesses = [_best(run, text) for text in TURNED_ROUND]
        rows.append((name, *guesses, f"{gap:.2f}"))
    return (
        Heading(say("Who eats whom?", "谁吃谁？")),
        Paragraph(
            say(
                "Two questions made of the same words. A model without "
                "positions must give both the same answer, whatever it has "
                "learned, since to it they are one question. The last column "
                "is the largest difference between the two probabilities of "
                "any word.",
                "下面两个问题用的词一模一样。没有位置的模型，"
                "不管学得多好，只能给出同一个答案，"
                "因为对它来说这就是同一个问题。"
                "最后一列是同一个词在两个问题里概率之差的最大值。",
            )
        ),
        Table(
            (
                say("model", "模型"),
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
                "The document asks its model three things: something to eat, "
                "something to read, and a verb. Its own model answers the "
                "third with `man`. Here is our copy of that recipe (no "
                "positions, the hidden words drawn once):",
                "文档问了模型三件事：一样吃的、一样读的、一个动词。"
                "它自己的模型对第三问答的是 `man`。"
                "下面按它的做法重做（没有位置，遮哪个词只抽一次签）：",
            )
        ),
        _top_five(language, materials.document_model),
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


def _four_models(language: Language, materials: Materials) -> tuple[Block, ...]:
    say = speaker(language)
    no, yes = say("no", "无"), say("yes", "有")
    once, fresh = say("once", "一次"), say("every epoch", "每轮")
    num_answers = count_answers(materials.exercise.sentences, OPEN_QUESTION)
    rows = tuple(
        (
            where,
            how,
            f"{run.losses[-1]:.2f}",
            _best(run, QUESTIONS[-1]),
            *(f"{share:.0%}" for share in run.verb_shares()),
        )
        for where, how, run in (
            (no, once, materials.document_model),
            (yes, once, materials.with_positions),
            (no, fresh, materials.with_fresh_masks),
            (yes, fresh, materials.with_both),
        )
    )
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
                say("positions", "位置"),
                say("hidden words drawn", "抽签"),
                say("last loss", "最终损失"),
                QUESTIONS[-1],
                say("a verb", "是动词"),
                say("the right verb", "动词正确"),
            ),
            rows,
        ),
        Items(
            (
                say(
                    "Positions teach the kind of word: the place after the "
                    "first noun wants a verb, even where this very verb was "
                    "never asked for there.",
                    "位置教会的是词类：第一个名词后面要动词，"
                    "哪怕这里从没问过这个动词。",
                ),
                say(
                    "Fresh masks teach the word itself: every word is asked "
                    "for sooner or later, so nothing can be learned by heart. "
                    "The loss is higher, because the questions are honest: "
                    f"`{OPEN_QUESTION}` has {num_answers} right answers.",
                    "每轮重新抽签教会的是词本身：每个词迟早都会被问到，"
                    "背答案没有用。损失反而更高，因为问题是诚实的："
                    f"`{OPEN_QUESTION}` 有 {num_answers} 个正确答案。",
                ),
                say(
                    "So the document's failure has two causes, and BERT has "
                    "an answer to both. Other seeds give other words; try "
                    f"`--seed {materials.exercise.seed + 1}` and compare the "
                    "last two columns.",
                    "所以文档的失败有两个原因，BERT 对两者都有对策。"
                    "换个随机种子，答的词会变；试试 "
                    f"`--seed {materials.exercise.seed + 1}`，"
                    "再比较最后两列。",
                ),
            )
        ),
    )


def count_answers(sentences: Sequence[str], question: str) -> int:
    """Counts the sentences that answer a question, each by another word."""
    pattern = re.escape(question).replace(re.escape(MASK), r"\S+")
    return len({s for s in sentences if re.fullmatch(pattern, s)})


def _best(run: TrainedMiniBert, question: str) -> str:
    word, share = run.guess(question, top=1)[0]
    return f"{word} {share:.0%}"
