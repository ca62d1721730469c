"""A quiz: fair orders, and a score that adds up."""

from collections import Counter
from datetime import date, timedelta

from bert_from_scratch.learn.cards.content import load_parts
from bert_from_scratch.learn.cards.quiz import (
    Answer,
    Score,
    choose_questions,
    right_option,
    score_by_part,
    shuffle_options,
    total_score,
)
from bert_from_scratch.learn.cards.schedule import Memory

TODAY = date(2026, 3, 30)
PARTS = load_parts()
QUESTIONS = [question for part in PARTS for question in part.questions]


def test_wrong_ones_come_first_and_known_ones_last() -> None:
    tomorrow = TODAY + timedelta(days=1)
    memories = {question.id: Memory(2, tomorrow) for question in QUESTIONS}
    memories["D-Q3"] = Memory(1, TODAY, 0, 1)
    del memories["E-Q5"]
    for seed in range(5):
        chosen = choose_questions(PARTS, memories, 3, TODAY, seed)
        assert [question.id for question in chosen[:2]] == ["D-Q3", "E-Q5"]
        assert len(chosen) == 3


def test_a_new_learner_is_asked_about_many_parts() -> None:
    chosen = choose_questions(PARTS, {}, 10, TODAY, seed=1)
    assert len({question.id for question in chosen}) == 10
    assert len({question.id[0] for question in chosen}) >= 3


def test_a_part_has_no_more_questions_than_it_has() -> None:
    chosen = choose_questions(PARTS[1:2], {}, 100, TODAY, seed=1)
    assert {question.id for question in chosen} == {
        f"B-Q{n}" for n in range(1, 9)
    }


def test_the_same_seed_asks_the_same_in_the_same_order() -> None:
    first, again, other = (
        [
            (question.id, shuffle_options(question, seed))
            for question in choose_questions(PARTS, {}, 48, TODAY, seed)
        ]
        for seed in (5, 5, 6)
    )
    assert first == again
    assert first != other


def test_shuffling_keeps_all_options_and_favours_no_position() -> None:
    positions: Counter[int] = Counter()
    for seed in range(100):
        for question in QUESTIONS:
            options = shuffle_options(question, seed)
            assert set(options) == set(question.options)
            positions[options.index(right_option(question))] += 1
    # 4,800 次中每个位置应有 1,200 次，标准差 30
    assert all(abs(positions[place] - 1200) < 150 for place in range(4))


def test_a_question_appears_in_every_order_sooner_or_later() -> None:
    orders = {shuffle_options(QUESTIONS[0], seed) for seed in range(300)}
    assert len(orders) == 24


def test_the_right_option_is_the_one_marked_so() -> None:
    assert all(right_option(question).is_right for question in QUESTIONS)


def test_scores_by_part_add_up_to_the_total() -> None:
    answers = [
        Answer(question, question.options[0]) for question in QUESTIONS[:20]
    ]
    scores = score_by_part(PARTS, answers)
    assert list(scores) == ["A", "B", "C"]
    assert [score.num_answers for score in scores.values()] == [8, 8, 4]
    # 每部分正确答案在第一位的恰有两题，前四题里由数据决定
    assert [scores[letter].num_right for letter in "AB"] == [2, 2]
    total = total_score(answers)
    assert total.num_answers == 20
    assert total.num_right == sum(s.num_right for s in scores.values())


def test_no_answers_are_no_score() -> None:
    assert total_score([]) == Score(0, 0)
    assert score_by_part(PARTS, []) == {}
