"""The list of lessons has a line for each, in both languages."""

from bert_from_scratch.learn.language import LANGUAGES
from bert_from_scratch.learn.syllabus import TOPICS


def test_titles_differ_between_topics_and_languages() -> None:
    titles = {topic.title(lang) for topic in TOPICS for lang in LANGUAGES}
    assert len(titles) == len(TOPICS) * len(LANGUAGES)


def test_a_summary_is_one_line() -> None:
    for topic in TOPICS:
        for language in LANGUAGES:
            assert topic.summary(language)
            assert "\n" not in topic.summary(language)
