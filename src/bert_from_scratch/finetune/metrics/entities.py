"""Scores of entities, whole or wrong, by the rules of conlleval."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

Tags = Sequence[str]

# 各家标注法的前缀归到同一套：BMES 的 M 即 I，BILOU 的 L、U 即 E、S
_ROLES = {"B": "B", "I": "I", "E": "E", "S": "S", "M": "I", "L": "E", "U": "S"}


@dataclass(frozen=True)
class Entity:
    """Some words of a sentence and what they are together.

    Attributes:
        type: As in the tags, "PER" for "B-PER"; "" where tags name none.
        first: Number of its first word, from 0.
        last: Number of its last word.
    """

    type: str
    first: int
    last: int


def find_entities(tags: Tags) -> list[Entity]:
    """Reads the entities off the tags of one sentence, as conlleval does.

    Tags need not be well formed: "I-PER" after "O", after another type or
    after an ended entity starts one. The prefixes are those of BIO, BIOES,
    BMES and BILOU. A tag without any of them, such as "PER", is an entity of
    one word.
    """
    entities: list[Entity] = []
    last_role, last_type = "O", ""
    for number, tag in enumerate(tags):
        role, kind = _split(tag)
        # 只有接着同类型、尚未结束的实体，I 和 E 才是延续；否则都另起一个
        continues = (
            role in "IE" and last_role in ("B", "I") and kind == last_type
        )
        if continues:
            entities[-1] = Entity(kind, entities[-1].first, number)
        elif role != "O":
            entities.append(Entity(kind, number, number))
        last_role, last_type = role, kind
    return entities


def entity_scores(
    gold: Sequence[Tags], predicted: Sequence[Tags]
) -> dict[str, float]:
    """Scores tagged sentences by their entities.

    An entity is right when its type, first and last word all are.

    Args:
        gold: The right tags, a list a sentence.
        predicted: The chosen ones, in the same order.

    Returns:
        `precision`, `recall` and `entity_f1` over all entities of all
        sentences, 0 where there are none; `accuracy`: how many tags are
        right.
    """
    found: Counter[str] = Counter()
    num_tags = num_right_tags = 0
    for right, chosen in _sentences(gold, predicted):
        num_tags += len(right)
        num_right_tags += sum(map(str.__eq__, right, chosen))
        found.update(_count(find_entities(right), find_entities(chosen)))
    scores = _scores(found)
    scores["accuracy"] = num_right_tags / num_tags if num_tags else 0.0
    return scores


def entity_scores_by_type(
    gold: Sequence[Tags], predicted: Sequence[Tags]
) -> dict[str, dict[str, float]]:
    """Scores the entities of each type on their own.

    Returns:
        By type, in alphabetical order: `precision`, `recall`, `entity_f1`
        and `support`, the number of gold entities.
    """
    found: dict[str, Counter[str]] = {}
    for right, chosen in _sentences(gold, predicted):
        sides = find_entities(right), find_entities(chosen)
        for kind in {entity.type for side in sides for entity in side}:
            of_kind = [[e for e in side if e.type == kind] for side in sides]
            found.setdefault(kind, Counter()).update(_count(*of_kind))
    return {
        kind: {**_scores(found[kind]), "support": float(found[kind]["gold"])}
        for kind in sorted(found)
    }


def _split(tag: str) -> tuple[str, str]:
    """Divides a tag into its role, one of BIESO, and its type."""
    prefix, hyphen, kind = tag.partition("-")
    if prefix == "O":
        return "O", ""
    if hyphen and prefix in _ROLES:
        return _ROLES[prefix], kind
    if tag in ("B", "I", "E", "S"):
        return tag, ""
    # 没有前缀的标签按 conlleval -r 处理：一词一个实体
    return "S", tag


def _sentences(
    gold: Sequence[Tags], predicted: Sequence[Tags]
) -> Iterator[tuple[Tags, Tags]]:
    """Pairs the sentences; refuses those of different lengths."""
    if len(gold) != len(predicted):
        raise ValueError(
            f"{len(gold)} gold sentences, but {len(predicted)} predicted"
        )
    for number, (right, chosen) in enumerate(zip(gold, predicted, strict=True)):
        if len(right) != len(chosen):
            raise ValueError(
                f"sentence {number} has {len(right)} gold tags, but "
                f"{len(chosen)} predicted"
            )
        yield right, chosen


def _count(gold: list[Entity], predicted: list[Entity]) -> dict[str, int]:
    return {
        "gold": len(gold),
        "predicted": len(predicted),
        "right": len(set(gold) & set(predicted)),
    }


def _scores(found: Counter[str]) -> dict[str, float]:
    right = found["right"]
    precision = right / found["predicted"] if found["predicted"] else 0.0
    recall = right / found["gold"] if found["gold"] else 0.0
    both = precision + recall
    return {
        "precision": precision,
        "recall": recall,
        "entity_f1": 2 * precision * recall / both if both else 0.0,
    }
