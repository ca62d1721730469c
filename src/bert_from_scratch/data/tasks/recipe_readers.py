"""How recipes read their files, with notes on what was found in them."""

from collections.abc import Collection
from pathlib import Path

from bert_from_scratch.data.tasks.choices import ChoiceColumns, read_choices
from bert_from_scratch.data.tasks.conll import read_columns
from bert_from_scratch.data.tasks.recipe import FileContent, Reader
from bert_from_scratch.data.tasks.rows import Format
from bert_from_scratch.data.tasks.squad import read_questions
from bert_from_scratch.data.tasks.tables import TextColumns, collect_texts
from bert_from_scratch.data.tasks.tag_schemes import tidy_tags


def text_reader(
    columns: TextColumns | None = None,
    file_format: Format | None = None,
    *,
    skip_damaged: bool = False,
    no_gold: Collection[str] = (),
) -> Reader:
    """Returns a reader of texts or pairs.

    Args:
        columns: The official columns; None for a folder of texts.
        file_format: What the files are; None: as their suffix says.
        skip_damaged: Whether damaged rows are left out and counted.
        no_gold: Labels that mean that there is none.
    """

    def read(path: Path, for_training: bool) -> FileContent:
        del for_training
        texts = collect_texts(
            path,
            columns,
            file_format=file_format,
            skip_damaged=skip_damaged,
            no_gold=no_gold,
        )
        notes = _notes(
            path,
            {
                "damaged rows were left out": texts.num_damaged,
                "rows without an agreed label were left out": (
                    texts.num_without_gold
                ),
            },
        )
        return FileContent(texts.examples, notes)

    return read


def choice_reader(columns: ChoiceColumns | None = None) -> Reader:
    """Returns a reader of multiple choice.

    Args:
        columns: The official columns; None: as `read_choices` finds them.
    """

    def read(path: Path, for_training: bool) -> FileContent:
        del for_training
        return FileContent(read_choices(path, columns))

    return read


def read_tag_file(path: Path, for_training: bool) -> FileContent:
    """Reads tagged sentences; repairs what conlleval would read the same."""
    del for_training
    # 官方文件里有个别句子断在实体中间，按 conlleval 的读法修正即可
    tidied = tidy_tags(read_columns(path), repair=True)
    notes = tuple(f"{path.name}: {note}" for note in tidied.notes)
    return FileContent(tidied.examples, notes)


def read_question_file(path: Path, for_training: bool) -> FileContent:
    """Reads questions and counts answers that are not where they should be."""
    # 评估时保留找不到位置的答案：官方打分只看文字
    found = read_questions(path, for_training=for_training)
    notes = _notes(
        path,
        {
            "answers moved to where their text is": found.num_moved,
            "answers are nowhere in their context": found.num_lost,
            "questions were left out for that": found.num_skipped,
        },
    )
    return FileContent(found.examples, notes)


def _notes(path: Path, counts: dict[str, int]) -> tuple[str, ...]:
    return tuple(
        f"{path.name}: {count:,} {what}"
        for what, count in counts.items()
        if count
    )
