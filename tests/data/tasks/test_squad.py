"""Questions keep their answers, at the place where the text is."""

import json
from pathlib import Path
from typing import Any

import pytest

from bert_from_scratch import BertError
from bert_from_scratch.data.tasks.examples import Answer, QuestionExample
from bert_from_scratch.data.tasks.squad import NOT_IN_CONTEXT, read_questions

CONTEXT = "The mill by the river grinds; the mill on the hill rests."


def ask(name: str, *answers: tuple[str, int], **more: Any) -> dict[str, Any]:
    listed = [{"text": text, "answer_start": start} for text, start in answers]
    return {
        "id": name,
        "question": f"Question {name}?",
        "answers": listed,
        **more,
    }


def write(tmp_path: Path, *questions: Any, context: str = CONTEXT) -> Path:
    paragraph = {"context": context, "qas": list(questions)}
    article = {"title": "Mills", "paragraphs": [paragraph]}
    path = tmp_path / "a.json"
    path.write_text(json.dumps({"version": "1.1", "data": [article]}))
    return path


def test_questions_are_read_as_written(tmp_path: Path) -> None:
    path = write(tmp_path, ask("q1", ("river", 16), ("the river", 12)))
    assert read_questions(path).examples == [
        QuestionExample(
            id="q1",
            question="Question q1?",
            context=CONTEXT,
            answers=(Answer("river", 16), Answer("the river", 12)),
            title="Mills",
            place=f"{path}, article 1, paragraph 1, question q1",
        )
    ]


@pytest.mark.parametrize(
    ("start", "expected"),
    [(4, 4), (5, 4), (33, 34), (500, 34), (-1, 4), (18, 4), (20, 34)],
)
def test_a_misplaced_answer_moves_to_the_nearest_place(
    tmp_path: Path, start: int, expected: int
) -> None:
    found = read_questions(write(tmp_path, ask("q", ("mill", start))))
    assert found.examples[0].answers == (Answer("mill", expected),)
    assert found.num_moved == int(start != expected)


def test_a_negative_start_does_not_count_from_the_end(tmp_path: Path) -> None:
    found = read_questions(write(tmp_path, ask("q", ("rests.", -6))))
    assert found.examples[0].answers == (Answer("rests.", 51),)


def test_a_lost_answer_is_dropped_in_training_and_kept_to_evaluate(
    tmp_path: Path,
) -> None:
    path = write(
        tmp_path,
        ask("q1", ("sea", 3)),
        ask("q2", ("sea", 3), ("river", 16)),
        ask("q3", ("hill", 45)),
    )
    found = read_questions(path, for_training=True)
    assert [e.id for e in found.examples] == ["q2", "q3"]
    assert found.examples[0].answers == (Answer("river", 16),)
    assert (found.num_skipped, found.num_lost, found.num_moved) == (1, 2, 1)
    kept = read_questions(path)
    assert kept.examples[0].answers == (Answer("sea", NOT_IN_CONTEXT),)
    assert (kept.num_skipped, len(kept.examples)) == (0, 3)


def test_an_answer_of_white_space_is_no_place_to_train_on(
    tmp_path: Path,
) -> None:
    path = write(tmp_path, ask("q1", (" ", 3)), ask("q2", ("mill", 4)))
    assert read_questions(path, for_training=True).num_skipped == 1


def test_impossible_questions_have_no_answers(tmp_path: Path) -> None:
    decoy = [{"text": "mill", "answer_start": 4}]
    path = write(
        tmp_path,
        ask("q1", is_impossible=True, plausible_answers=decoy),
        ask("q2", ("mill", 4), is_impossible=False),
    )
    found = read_questions(path, for_training=True)
    assert [e.is_impossible for e in found.examples] == [True, False]
    assert found.examples[0].answers == ()
    assert found.num_impossible == 1


def test_questions_without_answers_can_be_predicted_but_not_trained_on(
    tmp_path: Path,
) -> None:
    path = write(tmp_path, {"id": "q1", "question": "Why?"})
    assert read_questions(path).examples[0].answers == ()
    with pytest.raises(BertError, match=r"no answer to train on.*question q1"):
        read_questions(path, for_training=True)


FAULTS: list[tuple[list[Any], str]] = [
    ([ask("q"), ask("q")], '"q" comes twice.*paragraph 1'),
    ([{"question": "Why?"}], 'no "id": .*article 1, paragraph 1'),
    ([{"id": "q7"}], 'no "question": .*question q7'),
    ([ask("q", ("mill", 4)) | {"answers": {"text": []}}], "wrong type, dict"),
    ([ask("q") | {"answers": [{"text": "mill"}]}], 'no "answer_start".* q'),
    ([], "no questions"),
]


@pytest.mark.parametrize(("questions", "message"), FAULTS)
def test_faults_name_their_place(
    tmp_path: Path, questions: list[Any], message: str
) -> None:
    with pytest.raises(BertError, match=message):
        read_questions(write(tmp_path, *questions))


def test_an_empty_context_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BertError, match=r"context is empty.*paragraph 1"):
        read_questions(write(tmp_path, ask("q"), context=" "))


@pytest.mark.parametrize(
    "content", ["[]", '{"data": 3}', '{"data": [1]}', '{"version": 1}']
)
def test_other_json_is_refused(tmp_path: Path, content: str) -> None:
    path = tmp_path / "a.json"
    path.write_text(content)
    with pytest.raises(BertError, match=r'"data"|"paragraphs"'):
        read_questions(path)
