"""Labelled examples as they were written; nothing is a number yet.

Every example knows its place ("dev.tsv, line 12"), so that whoever finds a
fault in it can say where it is.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class TextExample:
    """A text or a pair, to classify or to score.

    Attributes:
        text: Segment A.
        pair: Segment B, or None.
        labels: One label, or any number where several may hold at once; a
            number to predict, as written; None: not labelled.
        place: Where it was read.
    """

    text: str
    pair: str | None = None
    labels: tuple[str, ...] | None = None
    place: str = ""


@dataclass(frozen=True)
class ChoiceExample:
    """A prompt and its possible continuations, one of them right.

    Attributes:
        prompt: Segment A, the same for all choices.
        choices: Segment B of each choice.
        answer: Number of the right choice, from 0; None: not labelled.
        place: Where it was read.
    """

    prompt: str
    choices: tuple[str, ...]
    answer: int | None = None
    place: str = ""


@dataclass(frozen=True)
class TagExample:
    """A sentence of words, each with a tag.

    Attributes:
        words: As the file divides the sentence; Chinese: characters.
        tags: One a word, such as "B-PER"; None: not labelled.
        document: Number of the document in its file; sentences of one
            document follow each other.
        place: Where it was read.
    """

    words: tuple[str, ...]
    tags: tuple[str, ...] | None = None
    document: int = 0
    place: str = ""


@dataclass(frozen=True)
class Answer:
    """A span of the context.

    Attributes:
        text: As written.
        start: Its first character in the context.
    """

    text: str
    start: int


@dataclass(frozen=True)
class QuestionExample:
    """A question about a context.

    Attributes:
        id: Names it in predictions.
        question: Segment A.
        context: Segment B, where the answer is looked for.
        answers: All accepted answers; empty where there is none, or where
            it is not labelled.
        is_impossible: Whether the context does not answer it.
        title: The article, or "".
        place: Where it was read.
    """

    id: str
    question: str
    context: str
    answers: tuple[Answer, ...] = ()
    is_impossible: bool = False
    title: str = ""
    place: str = ""
