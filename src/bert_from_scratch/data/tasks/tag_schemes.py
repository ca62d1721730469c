"""How tags mark entities: BIO, IOB1, BIOES or not at all."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Literal

from bert_from_scratch.data.tasks.examples import TagExample
from bert_from_scratch.errors import BertError

Scheme = Literal["plain", "bio", "iob1", "bioes"]
OUTSIDE = "O"
PREFIXES = ("B", "I", "E", "S")


@dataclass(frozen=True)
class TidyTags:
    """Sentences whose tags are sound.

    Attributes:
        examples: In the order given.
        scheme: How the file wrote entities.
        notes: What was changed, for the user.
    """

    examples: list[TagExample]
    scheme: Scheme
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Fault:
    """A tag that its predecessor does not allow."""

    example: int
    word: int


def tidy_tags(
    examples: Sequence[TagExample], *, repair: bool = False
) -> TidyTags:
    """Recognises how entities are marked, checks it, and turns IOB1 to BIO.

    Args:
        examples: The sentences of one file.
        repair: Whether an I- that continues nothing becomes a B-, as
            conlleval reads it; otherwise it is an error.

    Raises:
        BertError: A tag cannot stand where it does; with its place.
    """
    scheme = find_scheme(examples)
    if scheme == "bioes":
        _check_bioes(examples)
    if scheme in ("plain", "bioes"):
        return TidyTags(list(examples), scheme)
    faults = list(_find_faults(examples))
    if not faults:
        return TidyTags(list(examples), scheme)
    # IOB1 里每个“错误”正是实体的开头，改成 B- 就是 BIO
    if scheme == "iob1":
        note = f"its tags are IOB1; {len(faults)} I- became B- to make them BIO"
    elif repair:
        note = (
            f"{len(faults)} I- tags that continue no entity became B-, the "
            f"first at {_describe(examples, faults[0])}"
        )
    else:
        check_bio(examples)
        raise AssertionError("check_bio passes over a fault")
    return TidyTags(_begin_entities(examples, faults), scheme, (note,))


def find_scheme(examples: Sequence[TagExample]) -> Scheme:
    """Recognises how the tags of a file mark entities.

    Returns:
        "plain": no prefixes, as for parts of speech; "bioes": some tags
        start with E- or S-; "iob1": entities start with I-, and B- only
        parts neighbours; "bio": the rest.
    """
    tags = {tag for example in examples for tag in example.tags or ()}
    # 没有任何前缀就是词性之类的标注，不存在实体边界
    prefixed = {tag for tag in tags if _split(tag)[0] != OUTSIDE}
    if not prefixed:
        return "plain"
    _check_prefixes(examples, tags - prefixed - {OUTSIDE})
    if any(tag[0] in "ES" for tag in prefixed):
        return "bioes"
    # IOB1 里 B- 只出现在同类实体紧挨着的地方；有别的 B- 就是 BIO
    has_free_start = any(
        prefix == "B" and kind != before
        for example in examples
        for (_, before), (prefix, kind) in _neighbours(example)
    )
    has_faults = next(_find_faults(examples), None) is not None
    return "iob1" if has_faults and not has_free_start else "bio"


def check_bio(examples: Sequence[TagExample]) -> None:
    """Makes sure that every I- continues an entity of its own type.

    Raises:
        BertError: One does not; with the tag, the place and how many more.
    """
    faults = list(_find_faults(examples))
    if not faults:
        return
    example = examples[faults[0].example]
    assert example.tags is not None
    tag = example.tags[faults[0].word]
    raise BertError(
        f"{tag} continues no entity: {_describe(examples, faults[0])}; "
        f"{len(faults)} such tags in all.",
        hint=f"the first tag of an entity is B-{tag[2:]}",
    )


@lru_cache(maxsize=1024)
def _split(tag: str) -> tuple[str, str]:
    """Cuts a tag into prefix and type; ("O", "") where it has no prefix."""
    prefix, dash, kind = tag.partition("-")
    if dash and kind and prefix in PREFIXES:
        return prefix, kind
    return OUTSIDE, ""


def _neighbours(
    example: TagExample,
) -> Iterator[tuple[tuple[str, str], tuple[str, str]]]:
    """Yields each tag with the one before it, cut in two."""
    before = (OUTSIDE, "")
    for tag in example.tags or ():
        now = _split(tag)
        yield before, now
        before = now


def _find_faults(examples: Sequence[TagExample]) -> Iterator[_Fault]:
    """Yields where an I- follows O or another type."""
    for number, example in enumerate(examples):
        for word, (before, now) in enumerate(_neighbours(example)):
            # 前一个标签是 O 时类型为空串，也算不同
            if now[0] == "I" and now[1] != before[1]:
                yield _Fault(number, word)


def _begin_entities(
    examples: Sequence[TagExample], faults: Sequence[_Fault]
) -> list[TagExample]:
    """Turns the I- tags at the given places into B-."""
    changed = list(examples)
    for fault in faults:
        tags = list(changed[fault.example].tags or ())
        tags[fault.word] = f"B-{tags[fault.word][2:]}"
        changed[fault.example] = replace(
            changed[fault.example], tags=tuple(tags)
        )
    return changed


def _check_prefixes(examples: Sequence[TagExample], bare: set[str]) -> None:
    """Refuses tags without a prefix among those with one."""
    if not bare:
        return
    fault = next(
        _Fault(number, word)
        for number, example in enumerate(examples)
        for word, tag in enumerate(example.tags or ())
        if tag in bare
    )
    tag = (examples[fault.example].tags or ())[fault.word]
    raise BertError(
        f'The tag "{tag}" has no prefix, while others have: '
        f"{_describe(examples, fault)}.",
        hint="write O, B-TYPE and I-TYPE, with or without E- and S-",
    )


def _check_bioes(examples: Sequence[TagExample]) -> None:
    for number, example in enumerate(examples):
        # 句末补一个 O：未收尾的实体才看得见
        pairs = [*_neighbours(example)]
        last = _split((example.tags or (OUTSIDE,))[-1])
        pairs.append((last, (OUTSIDE, "")))
        for word, (before, now) in enumerate(pairs):
            # 前一个实体未完，这里就必须接着；已完，就不能接
            is_open = before[0] in ("B", "I")
            continues = now[0] in ("I", "E")
            if is_open != continues or (is_open and before[1] != now[1]):
                word = min(word, len(example.words) - 1)
                raise BertError(
                    "The tags are no valid BIOES: "
                    f"{_describe(examples, _Fault(number, word))}.",
                    hint="an entity is S-TYPE, or B-TYPE, any I-TYPE, E-TYPE",
                )


def _describe(examples: Sequence[TagExample], fault: _Fault) -> str:
    example = examples[fault.example]
    return f'word {fault.word + 1} ("{example.words[fault.word]}") of the ' + (
        f"sentence at {example.place}"
    )
