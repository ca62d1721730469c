"""Question and context to windows: a long context is read in overlapping parts.

Only short integer arrays are kept, and the tokens of a context are shared by
all questions about it.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bert_from_scratch.data.batch import Ints
from bert_from_scratch.data.tasks.examples import QuestionExample
from bert_from_scratch.errors import BertError
from bert_from_scratch.tokenizer import WordPieceTokenizer

TEXTS_AT_A_TIME = 256
# 编码时不截断：太长的上下文由窗口来分，而不是报错
NO_LIMIT = 1 << 30
SEGMENTS = np.arange(2, dtype=np.uint8)

Span = tuple[int, int]


@dataclass(frozen=True)
class Window:
    """[CLS] question [SEP] a part of the context [SEP].

    Attributes:
        input_ids: WordPiece ids, int32 [S].
        token_type_ids: 0 up to the first [SEP], then 1, uint8 [S].
        first: Place of the first context token in the sequence.
        offsets: First character and end of every context token, in the
            original context, int32 [N, 2].
        is_max_context: Whether no other window shows the token with more
            context on its shorter side, bool [N].
        example: Number of the example.
        labels: Places of the first and last token of the answer in the
            sequence; (0, 0), which is [CLS], where the answer is not in this
            window or the question has none; None: nothing to learn.
    """

    input_ids: NDArray[np.int32]
    token_type_ids: NDArray[np.uint8]
    first: int
    offsets: NDArray[np.int32]
    is_max_context: NDArray[np.bool_]
    example: int
    labels: Span | None


@dataclass(frozen=True)
class _Tokens:
    """A text without special tokens."""

    ids: NDArray[np.int32]
    offsets: NDArray[np.int32]


def make_windows(
    tokenizer: WordPieceTokenizer,
    examples: Sequence[QuestionExample],
    max_length: int = 384,
    stride: int = 128,
    max_question: int = 64,
) -> list[Window]:
    """Cuts every example into windows; those of one example are neighbours.

    A "[SEP]" in a text is text. An example has labels where it is impossible,
    or where a window holds the whole of the first answer that its context
    has.

    Args:
        tokenizer: Of the model.
        examples: Questions, labelled or not.
        max_length: Longest window in tokens.
        stride: How far a window lies from the last one, as in Google's code.
        max_question: Tokens of a question beyond these are cut off.
    """
    _check_sizes(max_length, stride, max_question)
    questions = _encode_distinct(tokenizer, (e.question for e in examples))
    contexts = _encode_distinct(tokenizer, (e.context for e in examples))
    cls, sep = [tokenizer.cls_token_id], [tokenizer.sep_token_id]
    windows: list[Window] = []
    for number, example in enumerate(examples):
        question = questions[example.question].ids[:max_question]
        context = contexts[example.context]
        _check_not_empty(example, len(question), len(context.ids))
        head = _join(cls, question, sep)
        # 末尾的 [SEP] 再占一个位置
        spans = cut(len(context.ids), max_length - len(head) - 1, stride)
        parts = zip(
            spans,
            find_max_context(spans),
            _label(example, context, spans, len(head)),
            strict=True,
        )
        for (start, end), is_max_context, labels in parts:
            tail = _join(context.ids[start:end], sep)
            windows.append(
                Window(
                    _join(head, tail),
                    np.repeat(SEGMENTS, (len(head), len(tail))),
                    len(head),
                    context.offsets[start:end],
                    is_max_context,
                    number,
                    labels,
                )
            )
    return windows


def _check_sizes(max_length: int, stride: int, max_question: int) -> None:
    if stride < 1 or max_question < 1:
        raise BertError(
            f"The stride ({stride}) and the longest question ({max_question}) "
            "must be 1 token or more."
        )
    shortest = max_question + 4
    if max_length < shortest:
        raise BertError(
            f"{max_length} tokens leave no room for a context beside a "
            f"question of {max_question} tokens.",
            hint=f"raise --max-length to {shortest} or far more, or lower "
            "--max-question",
        )


def _encode_distinct(
    tokenizer: WordPieceTokenizer, texts: Iterable[str]
) -> dict[str, _Tokens]:
    # 许多问题问的是同一段上下文：每段只编码一次，数组由各窗口共享
    distinct = list(dict.fromkeys(texts))
    encoded = {}
    for start in range(0, len(distinct), TEXTS_AT_A_TIME):
        some = distinct[start : start + TEXTS_AT_A_TIME]
        encodings = tokenizer.encode_batch(
            some,
            max_length=NO_LIMIT,
            specials_are_text=True,
            add_special_tokens=False,
        )
        for text, encoding in zip(some, encodings, strict=True):
            encoded[text] = _Tokens(
                np.array(encoding.input_ids, np.int32),
                np.array(encoding.offsets, np.int32).reshape(-1, 2),
            )
    return encoded


def _check_not_empty(
    example: QuestionExample, num_question: int, num_context: int
) -> None:
    if num_question and num_context:
        return
    what = "context" if num_question else "question"
    raise BertError(
        f"{example.place}: the {what} of {example.id!r} is empty.",
        hint="write one, or take the entry out of the file",
    )


def cut(num_tokens: int, longest: int, stride: int) -> list[Span]:
    """Cuts a context into windows.

    Args:
        num_tokens: Tokens of the context, at least 1.
        longest: Tokens of a window, at least 1.
        stride: How far one window starts from the last one; where windows
            are shorter than that, they follow without a gap.

    Returns:
        First token and end of every window; together they cover all tokens.
    """
    step = min(stride, longest)
    num_more = max(0, -(-(num_tokens - longest) // step))
    return [
        (number * step, min(number * step + longest, num_tokens))
        for number in range(num_more + 1)
    ]


def find_max_context(spans: Sequence[Span]) -> list[NDArray[np.bool_]]:
    """Finds for every token the window that shows most around it.

    That is the window with most tokens on the token's shorter side; a longer
    window counts a little more, and of equals the first one wins.

    Args:
        spans: First token and end of every window, as `cut` returns them.

    Returns:
        For every window which of its tokens are its own, bool [N] each.
    """
    num_tokens = spans[-1][1]
    best = np.full(num_tokens, -np.inf)
    owners = np.zeros(num_tokens, np.int32)
    for number, (start, end) in enumerate(spans):
        places = np.arange(end - start)
        # 左右两侧取短的一侧；0.01 倍窗口长是 Google 的平局规则
        scores = np.minimum(places, places[::-1]) + 0.01 * len(places)
        is_better = scores > best[start:end]
        best[start:end][is_better] = scores[is_better]
        owners[start:end][is_better] = number
    return [
        owners[start:end] == number for number, (start, end) in enumerate(spans)
    ]


def _label(
    example: QuestionExample,
    context: _Tokens,
    spans: Sequence[Span],
    first: int,
) -> list[Span | None]:
    """Returns the labels of every window; those of an example or none."""
    if example.is_impossible:
        return [(0, 0)] * len(spans)
    found = _find_tokens(example, context)
    if found is None:
        return [None] * len(spans)
    labels: list[Span | None] = []
    for start, end in spans:
        # 答案必须整个在窗口内；露出半截的窗口按没有答案算
        is_inside = start <= found[0] and found[1] < end
        shift = first - start
        labels.append(
            (found[0] + shift, found[1] + shift) if is_inside else (0, 0)
        )
    # 答案比窗口还长：每个窗口都说“没有”是错的，不如不学
    return labels if any(x != (0, 0) for x in labels) else [None] * len(spans)


def _find_tokens(example: QuestionExample, context: _Tokens) -> Span | None:
    """Returns first and last context token of the first answer there is."""
    starts, ends = context.offsets.T
    for answer in example.answers:
        start, text = answer.start, answer.text
        # 文字对不上起点的标注不学：宁可少一条，不可教错
        if text and example.context.startswith(text, start):
            # 与答案有重叠的词：半个词也算，答案里的空白不算
            first = int(np.searchsorted(ends, start, side="right"))
            last = int(np.searchsorted(starts, start + len(text))) - 1
            if first <= last:
                return first, last
    return None


def _join(*parts: Ints) -> NDArray[np.int32]:
    return np.concatenate([np.asarray(part, np.int32) for part in parts])
