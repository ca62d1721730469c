"""How far somebody has come, part by part."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date

from bert_from_scratch.learn.cards.content import Part
from bert_from_scratch.learn.cards.schedule import NUM_BOXES, Memory


@dataclass(frozen=True)
class Standing:
    """Where a number of cards, or of questions, stand.

    Attributes:
        num_items: How many there are.
        num_new: How many were never asked.
        num_due: How many were asked before and are due again.
        boxes: How many lie in each box, the first box first.
        num_right: Right answers so far.
        num_wrong: Wrong answers so far.
    """

    num_items: int
    num_new: int
    num_due: int
    boxes: tuple[int, ...]
    num_right: int
    num_wrong: int


@dataclass(frozen=True)
class PartProgress:
    """How far somebody has come in one part.

    Attributes:
        letter: Of the part.
        cards: Where its cards stand.
        questions: Where its questions stand.
    """

    letter: str
    cards: Standing
    questions: Standing


def measure_progress(
    parts: Sequence[Part], memories: Mapping[str, Memory], today: date
) -> list[PartProgress]:
    """Returns how far somebody has come, part by part."""
    return [
        PartProgress(
            part.letter,
            _stand((card.id for card in part.cards), memories, today),
            _stand((q.id for q in part.questions), memories, today),
        )
        for part in parts
    ]


def next_due(ids: Iterable[str], memories: Mapping[str, Memory]) -> date | None:
    """Returns the first day on which one of these is asked again."""
    days = [memories[name].due for name in ids if name in memories]
    return min(days, default=None)


def _stand(
    ids: Iterable[str], memories: Mapping[str, Memory], today: date
) -> Standing:
    names = list(ids)
    # 只看现有的卡片：状态文件里可能有别的版本留下的编号
    known = [memories[name] for name in names if name in memories]
    boxes = [memory.box for memory in known]
    return Standing(
        num_items=len(names),
        num_new=len(names) - len(known),
        num_due=sum(memory.due <= today for memory in known),
        boxes=tuple(boxes.count(box) for box in range(1, NUM_BOXES + 1)),
        num_right=sum(memory.num_right for memory in known),
        num_wrong=sum(memory.num_wrong for memory in known),
    )
