"""The speaker picks one of two texts."""

from bert_from_scratch.learn.language import speaker


def test_each_language_gets_its_own_text() -> None:
    assert speaker("en")("word", "词") == "word"
    assert speaker("zh")("word", "词") == "词"
