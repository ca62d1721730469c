"""Entities: what conlleval finds, and what seqeval finds."""

import random
import warnings
from collections.abc import Iterator

import pytest
from seqeval.metrics import (
    accuracy_score,
    classification_report,
    f1_score,
    precision_score,
    recall_score,
)
from seqeval.metrics.sequence_labeling import get_entities

from bert_from_scratch.finetune.metrics.entities import (
    Entity,
    entity_scores,
    entity_scores_by_type,
    find_entities,
)

BIO = [f"{role}-{kind}" for role in "BI" for kind in ("PER", "LOC", "X-Y")]
BIOES = [*BIO, *(f"{role}-{kind}" for role in "ES" for kind in ("PER", "LOC"))]


def random_tags(generator: random.Random, tags: list[str]) -> list[str]:
    choices = [*tags, "O", "O", "O"]
    sentence: list[str] = []
    for _ in range(generator.randrange(0, 12)):
        # 三分之一的词沿用上一类型的 I，否则长实体几乎不会出现
        if sentence and sentence[-1] != "O" and generator.random() < 1 / 3:
            sentence.append("I-" + sentence[-1].partition("-")[2])
        else:
            sentence.append(generator.choice(choices))
    return sentence


def conlleval_entities(tags: list[str]) -> Iterator[tuple[str, int, int]]:
    """Lists what conlleval counts: its tables of starts and ends, as sets."""
    always_start = {"BB", "IB", "OB", "EB", "SB", "BS", "IS", "OS", "ES", "SS"}
    starts = always_start | {"OI", "EI", "SI", "OE", "EE", "SE"}
    ends = {"BB", "BO", "BS", "IB", "IO", "IS"}
    ends |= {end + role for end in "ES" for role in "BIOES"}
    steps = [("O", ""), *(split_tag(tag) for tag in tags), ("O", "")]
    first = 0
    for number in range(1, len(steps)):
        (last_role, last_kind), (role, kind) = steps[number - 1 : number + 1]
        has_changed = kind != last_kind
        if last_role + role in ends or (last_role != "O" and has_changed):
            yield last_kind, first, number - 2
        if last_role + role in starts or (role != "O" and has_changed):
            first = number - 1


def split_tag(tag: str) -> tuple[str, str]:
    role, _, kind = tag.partition("-")
    return role, kind


def as_tuples(entities: list[Entity]) -> list[tuple[str, int, int]]:
    return [(entity.type, entity.first, entity.last) for entity in entities]


@pytest.mark.parametrize(
    ("tags", "expected"),
    [
        ("", []),
        ("O O", []),
        ("B-PER I-PER O B-LOC", [("PER", 0, 1), ("LOC", 3, 3)]),
        ("O I-PER I-PER", [("PER", 1, 2)]),
        ("B-PER I-LOC", [("PER", 0, 0), ("LOC", 1, 1)]),
        ("B-PER B-PER", [("PER", 0, 0), ("PER", 1, 1)]),
        ("B-PER E-PER I-PER", [("PER", 0, 1), ("PER", 2, 2)]),
        ("S-PER E-PER", [("PER", 0, 0), ("PER", 1, 1)]),
        ("B-X-Y I-X-Y", [("X-Y", 0, 1)]),
        ("B I O I", [("", 0, 1), ("", 3, 3)]),
        ("PER PER O", [("PER", 0, 0), ("PER", 1, 1)]),
        ("B-PER M-PER E-PER S-LOC", [("PER", 0, 2), ("LOC", 3, 3)]),
        ("B-PER I-PER L-PER U-LOC", [("PER", 0, 2), ("LOC", 3, 3)]),
    ],
)
def test_entities_are_those_read_by_hand(
    tags: str, expected: list[tuple[str, int, int]]
) -> None:
    assert as_tuples(find_entities(tags.split())) == expected


@pytest.mark.parametrize("tags", [BIO, BIOES], ids=["BIO", "BIOES"])
def test_entities_equal_conllevals_and_seqevals(tags: list[str]) -> None:
    generator = random.Random(5)
    for _ in range(4000):
        sentence = random_tags(generator, tags)
        found = as_tuples(find_entities(sentence))
        assert found == list(conlleval_entities(sentence)), sentence
        assert found == get_entities(sentence), sentence


def test_scores_are_those_worked_out_by_hand() -> None:
    gold = ["B-PER I-PER O B-LOC", "B-LOC O"]
    predicted = ["B-PER I-PER O B-PER", "B-LOC B-LOC"]
    sides = [[line.split() for line in side] for side in (gold, predicted)]
    assert entity_scores(*sides) == pytest.approx(
        {
            "precision": 2 / 4,
            "recall": 2 / 3,
            "entity_f1": 4 / 7,
            "accuracy": 4 / 6,
        }
    )
    by_type = entity_scores_by_type(*sides)
    assert list(by_type) == ["LOC", "PER"]
    assert by_type["LOC"] == pytest.approx(
        {"precision": 0.5, "recall": 0.5, "entity_f1": 0.5, "support": 2}
    )
    assert by_type["PER"] == pytest.approx(
        {"precision": 0.5, "recall": 1, "entity_f1": 2 / 3, "support": 1}
    )


def test_scores_equal_seqevals() -> None:
    generator = random.Random(9)
    for case in range(120):
        tags = (BIO, BIOES)[case % 2]
        gold = [random_tags(generator, tags) for _ in range(8)]
        # 预测由标准答案改几处得到，否则几乎没有完全正确的实体
        predicted = [
            [
                generator.choice(tags) if generator.random() < 0.2 else tag
                for tag in sentence
            ]
            for sentence in gold
        ]
        scores = entity_scores(gold, predicted)
        assert scores == pytest.approx(
            {
                "precision": precision_score(gold, predicted, zero_division=0),
                "recall": recall_score(gold, predicted, zero_division=0),
                "entity_f1": f1_score(gold, predicted, zero_division=0),
                "accuracy": accuracy_score(gold, predicted),
            }
        )
        check_types(gold, predicted)


def check_types(gold: list[list[str]], predicted: list[list[str]]) -> None:
    report = classification_report(
        gold, predicted, output_dict=True, zero_division=0
    )
    for kind, scores in entity_scores_by_type(gold, predicted).items():
        theirs = report[kind]
        assert scores["entity_f1"] == pytest.approx(theirs["f1-score"])
        for name in ("precision", "recall", "support"):
            assert scores[name] == pytest.approx(theirs[name])


def test_no_entities_score_zero_without_a_warning() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert entity_scores([["O"]], [["O"]]) == {
            "precision": 0.0,
            "recall": 0.0,
            "entity_f1": 0.0,
            "accuracy": 1.0,
        }
        assert entity_scores([], [])["accuracy"] == 0.0
        assert entity_scores_by_type([["O"]], [["O"]]) == {}


def test_tags_must_pair_up() -> None:
    with pytest.raises(ValueError, match="2 gold sentences, but 1 predicted"):
        entity_scores([["O"], ["O"]], [["O"]])
    with pytest.raises(ValueError, match="sentence 1 has 2 gold tags, but 1"):
        entity_scores([["O"], ["O", "O"]], [["O"], ["O"]])
