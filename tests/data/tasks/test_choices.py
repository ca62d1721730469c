"""Prompts and choices come out of every format alike."""

import json
from pathlib import Path
from typing import Any

import pytest

from bert_from_scratch import BertError
from bert_from_scratch.data.tasks.choices import ChoiceColumns, read_choices
from bert_from_scratch.data.tasks.examples import ChoiceExample

SWAG_HEADER = (
    ",video-id,fold-ind,startphrase,sent1,sent2,gold-source,"
    "ending0,ending1,ending2,ending3"
)


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def dream(choices: list[str], answer: str | None) -> list[Any]:
    question = {"question": "Who?", "choice": choices, "answer": answer}
    return [["A: Hi.", "B: Ho."], [question], "1-1"]


def test_swag_puts_the_second_sentence_before_each_ending(
    tmp_path: Path,
) -> None:
    path = write(
        tmp_path / "train.csv",
        f"{SWAG_HEADER},label\n"
        '0,v,1,The cook,"A pan, hot.",The cook,gold,sits.,stirs.,flies.,'
        "sings.,1\n",
    )
    ends = ("sits.", "stirs.", "flies.", "sings.")
    assert read_choices(path) == [
        ChoiceExample(
            "A pan, hot.",
            tuple(f"The cook {end}" for end in ends),
            1,
            f"{path}, line 2",
        )
    ]


def test_swag_without_labels_is_not_labelled(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", f"{SWAG_HEADER}\n0,v,1,s,a,b,g,c,d,e,f\n")
    assert read_choices(path)[0].answer is None


def test_codah_is_known_by_its_seven_columns(tmp_path: Path) -> None:
    path = write(
        tmp_path / "a.tsv", 'o\tIt is "late. I\tgo\trun\tsit\teat\t3\n'
    )
    expected = ChoiceExample(
        'It is "late. I', ("go", "run", "sit", "eat"), 3, f"{path}, line 1"
    )
    assert read_choices(path) == [expected]


def test_dream_joins_turns_and_puts_the_question_before_choices(
    tmp_path: Path,
) -> None:
    path = write(tmp_path / "a.json", json.dumps([dream(["Al", "Bo"], "Bo")]))
    assert read_choices(path) == [
        ChoiceExample(
            "A: Hi. B: Ho.",
            ("Who? Al", "Who? Bo"),
            1,
            f"{path}, dialogue 1, question 1",
        )
    ]


@pytest.mark.parametrize(
    ("answer", "expected"), [(1, 1), ("1", 0), (None, None)]
)
def test_json_strings_are_texts_and_numbers_are_numbers(
    tmp_path: Path, answer: object, expected: object
) -> None:
    line = {"prompt": "p", "choices": ["1", "0"], "answer": answer}
    path = write(tmp_path / "a.jsonl", json.dumps(line))
    assert read_choices(path)[0].answer == expected


def test_tables_of_ones_own_are_read(tmp_path: Path) -> None:
    text = "prompt\tchoice_a\tchoice_b\tanswer\np\tx\ty\t1\nq\tx\ty\tx\n"
    path = write(tmp_path / "a.tsv", text)
    assert [e.answer for e in read_choices(path)] == [1, 0]
    columns = ChoiceColumns("prompt", ("choice_b", "choice_a"))
    assert read_choices(path, columns)[0].choices == ("y", "x")
    numbered = ChoiceColumns(0, (1, 2), has_header=True)
    assert read_choices(path, numbered)[1].prompt == "q"


HEADER = "prompt\tchoice0\tchoice1\tanswer\n"
FAULTS = [
    ("a.tsv", f"{HEADER}p\tx\ty\t2\n", "answer is 2.* 2 choices.*line 2"),
    ("a.tsv", f"{HEADER}p\tx\ty\tz\n", '"z" is not among.*line 2'),
    ("a.tsv", f"{HEADER}p\tx\t \t0\n", "choice is empty.*line 2"),
    ("a.tsv", f"{HEADER}p\tx\ty\t0\nq\tx\ty\t\n", "1 of 2.*no answer.*line 3"),
    ("a.tsv", "a\tb\nc\td\n", 'known to hold a prompt.*"a", "b"'),
    ("a.tsv", "prompt\tchoice0\np\tx\n", "only 1 choice.*line 2"),
    ("a.json", json.dumps([dream(["x", "y"], "z")]), '"z".*dialogue 1, quest'),
    ("a.json", '[[["A"], [{"choice": ["x"]}], "1"]]', "dialogue 1 is not in"),
    ("a.json", '{"data": 1}', "holds no list"),
    ("a.json", "[]", "no examples"),
    ("a.jsonl", '{"prompt": "p", "choices": ["x", 2]}', "not a text.*line 1"),
    (
        "a.jsonl",
        '{"prompt": "p", "choices": ["x", "y"]}\n'
        '{"prompt": "p", "choices": ["x", "y", "z"]}',
        "line 2 has 3 choices, but the first has 2",
    ),
    (
        "a.jsonl",
        '{"prompt": "p", "choices": ["x", "y"], "answer": true}',
        "answer is True, not a number.*line 1",
    ),
]


@pytest.mark.parametrize(("name", "content", "message"), FAULTS)
def test_faults_name_their_place(
    tmp_path: Path, name: str, content: str, message: str
) -> None:
    with pytest.raises(BertError, match=message):
        read_choices(write(tmp_path / name, content))


def test_a_folder_is_not_a_file_of_choices(tmp_path: Path) -> None:
    with pytest.raises(BertError, match="is a folder"):
        read_choices(tmp_path)
