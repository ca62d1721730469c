"""Windows: what they show, where it comes from, and what is to be learnt."""

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from bert_from_scratch import BertError, WordPieceTokenizer
from bert_from_scratch.data.tasks.examples import Answer, QuestionExample
from bert_from_scratch.finetune.windows import (
    Window,
    cut,
    find_max_context,
    make_windows,
)

SPECIALS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
WORDS = ["where", "is", "my", "red", "hat", "it", "lies", "on", "the", "chair"]
PIECES = ["##s", ".", "?", "[", "]", "sep", "帽", "子", "在", "椅", "上"]
TOKENIZER = WordPieceTokenizer([*SPECIALS, *WORDS, *PIECES])

# 7 个词：my red hats(=hat ##s) lies on the
CONTEXT = "My red  hats lies on the"


def ask(
    context: str = CONTEXT,
    question: str = "Where is it?",
    answer: str | None = None,
    is_impossible: bool = False,
) -> QuestionExample:
    answers = () if answer is None else (Answer(answer, context.find(answer)),)
    return QuestionExample(
        "q1", question, context, answers, is_impossible, place="file, question"
    )


def tokens_of(window: Window) -> str:
    ids = window.input_ids.tolist()
    return " ".join(TOKENIZER.id_to_token(number) for number in ids)


def test_a_short_context_is_one_window_worked_out_by_hand() -> None:
    (window,) = make_windows(TOKENIZER, [ask(answer="red  hats")])
    assert tokens_of(window) == (
        "[CLS] where is it ? [SEP] my red hat ##s lies on the [SEP]"
    )
    assert window.token_type_ids.tolist() == [0] * 6 + [1] * 8
    assert window.first == 6
    assert window.offsets.tolist() == [
        *([0, 2], [3, 6], [8, 11], [11, 12], [13, 17], [18, 20], [21, 24])
    ]
    assert window.is_max_context.all()
    assert window.labels == (7, 9)
    assert window.input_ids.dtype == window.offsets.dtype == np.int32
    assert window.token_type_ids.dtype == np.uint8


def test_windows_move_on_by_the_stride_and_label_what_they_hold() -> None:
    # 问题 4 个词加 3 个特殊词：10 个位置里剩 3 个给上下文
    windows = make_windows(
        TOKENIZER, [ask(answer="hats lies")], 10, stride=2, max_question=4
    )
    shown = [tokens_of(w).split("[SEP]")[1].strip() for w in windows]
    assert shown == ["my red hat", "hat ##s lies", "lies on the"]
    assert [w.labels for w in windows] == [(0, 0), (6, 8), (0, 0)]
    assert [w.offsets[0].tolist() for w in windows] == [
        [0, 2],
        [8, 11],
        [13, 17],
    ]
    assert all(len(w.input_ids) == 10 for w in windows)


def test_each_token_has_most_context_in_one_window() -> None:
    found = find_max_context([(0, 5), (2, 7)])
    # 2 号词在首窗右边有 2 个、左边 2 个；4 号词在次窗才居中
    assert found[0].tolist() == [True, True, True, True, False]
    assert found[1].tolist() == [False, False, True, True, True]


def naive_owner(spans: list[tuple[int, int]], token: int) -> int:
    """Google's rule, one token and one window at a time."""
    best, owner = None, -1
    for number, (start, end) in enumerate(spans):
        if start <= token < end:
            shorter_side = min(token - start, end - 1 - token)
            score = shorter_side + 0.01 * (end - start)
            if best is None or score > best:
                best, owner = score, number
    return owner


@settings(max_examples=200, deadline=None)
@given(st.integers(1, 300), st.integers(1, 60), st.integers(1, 60))
@example(400, 320, 250)
def test_max_context_is_googles(total: int, longest: int, stride: int) -> None:
    spans = cut(total, longest, stride)
    found = find_max_context(spans)
    for token in range(total):
        owner = naive_owner(spans, token)
        for number, (start, end) in enumerate(spans):
            if start <= token < end:
                assert found[number][token - start] == (number == owner)


def naive_cut(total: int, longest: int, stride: int) -> list[tuple[int, int]]:
    """Google's loop: go on until a window reaches the end."""
    spans, start = [], 0
    while True:
        length = min(total - start, longest)
        spans.append((start, start + length))
        if start + length == total:
            return spans
        start += min(length, stride)


@given(st.integers(1, 300), st.integers(1, 60), st.integers(1, 60))
def test_cuts_are_googles(total: int, longest: int, stride: int) -> None:
    assert cut(total, longest, stride) == naive_cut(total, longest, stride)


def test_labels_of_impossible_lost_and_unlabelled_questions() -> None:
    impossible = ask(answer="red", is_impossible=True)
    unlabelled = ask()
    nowhere = ask(answer="blue")
    blank = ask(answer="  ")
    negative = QuestionExample("q", "it?", CONTEXT, (Answer("the", -3),))
    empty = QuestionExample("q", "it?", CONTEXT, (Answer("", 9),))
    windows = make_windows(
        TOKENIZER, [impossible, unlabelled, nowhere, blank, negative, empty]
    )
    assert [w.labels for w in windows] == [(0, 0), *[None] * 5]
    assert [w.example for w in windows] == [0, 1, 2, 3, 4, 5]


def test_the_first_answer_that_is_there_is_learnt() -> None:
    answers = (Answer("blue", 3), Answer("hats", 8), Answer("my", 0))
    example = QuestionExample("q", "it?", CONTEXT, answers)
    (window,) = make_windows(TOKENIZER, [example])
    assert tokens_of(window).split()[window.first + 2] == "hat"
    assert window.labels == (window.first + 2, window.first + 3)


def test_an_answer_within_a_word_or_with_spaces_takes_the_whole_words() -> None:
    examples = [ask(answer="at"), ask(answer="  hats "), ask(answer="s l")]
    windows = make_windows(TOKENIZER, examples)
    assert [w.labels for w in windows] == [(8, 8), (8, 9), (9, 10)]


@pytest.mark.parametrize("answer", [CONTEXT, "red  hats"])
def test_an_answer_that_no_window_holds_whole_is_not_learnt(
    answer: str,
) -> None:
    windows = make_windows(TOKENIZER, [ask(answer=answer)], 10, 2, 4)
    assert [w.labels for w in windows] == [None] * 3


def test_a_long_question_is_cut_to_its_first_tokens() -> None:
    asked = ask(question="hat " * 100 + "?")
    (window,) = make_windows(TOKENIZER, [asked])
    assert tokens_of(window).startswith("[CLS] " + "hat " * 64 + "[SEP] my")
    assert window.first == 66


def test_contexts_far_beyond_the_models_length_are_read_whole() -> None:
    example = ask("red hat . " * 2000, answer="red hat")
    windows = make_windows(TOKENIZER, [example])
    assert max(len(w.input_ids) for w in windows) == 384
    assert sum(int(w.is_max_context.sum()) for w in windows) == 6000
    assert windows[-1].offsets[-1].tolist() == [19998, 19999]


def test_chinese_is_found_by_its_characters() -> None:
    example = ask("红帽子在椅子上。", "帽子在?", "椅子上")
    (window,) = make_windows(TOKENIZER, [example])
    assert window.labels == (window.first + 4, window.first + 6)
    assert window.offsets[4].tolist() == [4, 5]


def test_special_tokens_in_texts_are_text() -> None:
    (window,) = make_windows(TOKENIZER, [ask("red [SEP] hat", "[SEP]?")])
    assert tokens_of(window) == ("[CLS] [ sep ] ? [SEP] red [ sep ] hat [SEP]")


def test_questions_about_one_context_share_its_offsets() -> None:
    examples = [ask(), ask(question="red?")]
    first, second = make_windows(TOKENIZER, examples)
    assert first.offsets.base is second.offsets.base is not None


@pytest.mark.parametrize("empty", ["", "  \n", "\u200b"])
def test_empty_texts_are_refused_with_their_place(empty: str) -> None:
    with pytest.raises(BertError, match="file, question: the context of 'q1'"):
        make_windows(TOKENIZER, [ask(context=empty)])
    with pytest.raises(BertError, match="file, question: the question of"):
        make_windows(TOKENIZER, [ask(question=empty)])


def test_sizes_that_leave_no_room_are_refused() -> None:
    with pytest.raises(BertError, match="67 tokens leave no room") as caught:
        make_windows(TOKENIZER, [ask()], max_length=67)
    assert "--max-length to 68" in str(caught.value.hint)
    with pytest.raises(BertError, match="stride"):
        make_windows(TOKENIZER, [ask()], stride=0)
    long_question = ask(question="hat " * 70)
    windows = make_windows(TOKENIZER, [long_question], max_length=68)
    assert len(windows) == 7
