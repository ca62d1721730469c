"""Words become text again, and entities know where they stand."""

import pytest

from bert_from_scratch.finetune.tagged_text import (
    describe_entities,
    join_words,
)


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["Ada", "met", "Max", "."], "Ada met Max ."),
        (list("他住在北京。"), "他住在北京。"),
        (list("在2024年"), "在2024年"),
        (["我", "爱", "machine", "learning", "！"], "我爱machine learning！"),
        ([], ""),
    ],
)
def test_words_are_joined_as_their_script_is_written(
    words: list[str], text: str
) -> None:
    joined, spans = join_words(words)
    assert joined == text
    assert [joined[start:end] for start, end in spans] == words


def test_an_entity_is_as_sure_as_its_least_sure_word() -> None:
    text, spans = join_words(["Ada", "Lovelace", "met", "Max"])
    tags = ["B-PER", "I-PER", "O", "I-PER"]
    first, second = describe_entities(text, spans, tags, [0.9, 0.6, 0.3, 0.8])
    assert first == {
        "type": "PER",
        "text": "Ada Lovelace",
        "first": 0,
        "last": 1,
        "start": 0,
        "end": 12,
        "score": 0.6,
    }
    # conlleval 的读法：O 之后的 I 也开始一个实体
    assert (second["text"], second["start"], second["end"]) == ("Max", 17, 20)
