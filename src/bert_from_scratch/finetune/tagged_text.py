"""Tagged words as text: where each stands, and which names there are."""

from collections.abc import Sequence
from typing import Any

from bert_from_scratch.finetune.metrics.entities import find_entities

Span = tuple[int, int]


def join_words(words: Sequence[str]) -> tuple[str, list[Span]]:
    """Makes a text of words: spaces between them, none around Chinese.

    Returns:
        The text, and where each word starts and ends in it.
    """
    # 逐字标注的数据里数字和字母也是单个的，一律不加空格
    by_character = all(len(word) == 1 for word in words)
    text = ""
    spans = []
    for word in words:
        if text and not (by_character or _meet_closely(text, word)):
            text += " "
        spans.append((len(text), len(text) + len(word)))
        text += word
    return text, spans


def _meet_closely(left: str, right: str) -> bool:
    # 汉字、假名与全角标点都排在这个码位之后
    return left[-1] > "\u2e80" or right[:1] > "\u2e80"


def describe_entities(
    text: str,
    spans: Sequence[Span],
    tags: Sequence[str],
    probabilities: Sequence[float],
) -> list[dict[str, Any]]:
    """Lists the entities of a tagged text, ready for JSON.

    Args:
        text: That the words stand in.
        spans: Where each word starts and ends.
        tags: One a word.
        probabilities: Of these tags.

    Returns:
        Of each entity its type and text, the numbers of its first and last
        word, where it starts and ends in the text, and its score.
    """
    entities = []
    for entity in find_entities(tags):
        start, end = spans[entity.first][0], spans[entity.last][1]
        # 整个实体只和它最没把握的那个词一样可信
        score = min(probabilities[entity.first : entity.last + 1])
        entities.append(
            {
                "type": entity.type,
                "text": text[start:end],
                "first": entity.first,
                "last": entity.last,
                "start": start,
                "end": end,
                "score": score,
            }
        )
    return entities
