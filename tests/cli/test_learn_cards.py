"""`bert learn flashcards | quiz | progress`: a dialogue that is remembered."""

import json
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from datetime import date, timedelta
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest

from bert_from_scratch.learn.cards.content import load_parts
from bert_from_scratch.learn.cards.quiz import OPTION_LETTERS, right_option
from bert_from_scratch.learn.cards.state import StateFile

Bert = Callable[..., CompletedProcess[str]]

PARTS = load_parts()
QUESTIONS = {q.id: q for part in PARTS for q in part.questions}


@pytest.fixture
def state_path(tmp_path: Path) -> Path:
    return tmp_path / "state" / "progress.json"


def read_items(state_path: Path) -> dict[str, Any]:
    return json.loads(state_path.read_text(encoding="utf-8"))["items"]


def run_quiz(
    bert: Bert, state_path: Path, *args: object, stdin: str
) -> tuple[CompletedProcess[str], dict[str, Any]]:
    result = bert(
        *("learn", "quiz", "--state", state_path, "--json", *args),
        stdin=stdin.encode(),
    )
    assert result.returncode == 0, result.stderr
    return result, json.loads(result.stdout)


def assert_refused(
    result: CompletedProcess[str], *parts: str, hint: str = ""
) -> None:
    assert result.returncode == 2
    assert result.stdout == ""
    lines = result.stderr.splitlines()
    assert lines[0].startswith("error: ")
    assert all(part in lines[0] for part in parts)
    assert hint in "\n".join(lines[1:])


def find_right_letters(transcript: str) -> str:
    """Works out the right answers from what a learner is shown."""
    letters = ""
    for name, body in re.findall(
        r"\] ([A-F]-Q\d) · .*?\n(.*?)(?=\n\[|\Z)", transcript, re.DOTALL
    ):
        text = right_option(QUESTIONS[name]).text.en
        (letter,) = re.findall(
            rf"^  ([abcd])\) {re.escape(text)}$", body, re.MULTILINE
        )
        letters += letter
    return letters


def test_a_card_shows_its_front_then_its_back(
    bert: Bert, state_path: Path
) -> None:
    result = bert(
        *("learn", "flashcards", "--part", "c", "--count", 2),
        *("--state", state_path),
        stdin=b"\ny\n\nn\n",
    )
    assert result.returncode == 0
    assert result.stderr == ""
    first, second = PARTS[2].cards[:2]
    places = [
        result.stdout.index(text)
        for text in (
            f"[1/2] {first.id} · section {first.section}",
            *(first.front.en, "Enter", first.back.en, "Did you know it?"),
            f"[2/2] {second.id}",
            *(second.front.en, second.back.en, "Known: 1 of 2 cards."),
        )
    ]
    assert places == sorted(places)
    assert "becomes [MASK]" in result.stdout
    items = read_items(state_path)
    assert {name: items[name]["box"] for name in items} == {
        first.id: 2,
        second.id: 1,
    }


def test_cards_speak_chinese(bert: Bert, state_path: Path) -> None:
    result = bert(
        *("learn", "flashcards", "--language", "zh", "--count", 1),
        *("--state", state_path),
        stdin="\n是\n".encode(),
    )
    card = PARTS[0].cards[0]
    for text in (card.front.zh, card.back.zh, "摘要", "记得 1 张，共 1 张。"):
        assert text in result.stdout
    assert read_items(state_path)[card.id]["right"] == 1


def test_known_cards_wait_and_others_come_again(
    bert: Bert, state_path: Path
) -> None:
    args = ("learn", "flashcards", "--part", "A", "--state", state_path)
    bert(*args, "--count", 3, stdin=b"\ny\n\nn\n\ny\n")
    again = bert(*args, "--count", 2).stdout
    assert "[1/2] A02 " in again
    bert(*args, "--count", 99, stdin=b"\ny\n" * 20)
    done = bert(*args)
    tomorrow = date.today() + timedelta(days=1)
    assert f"Nothing is due before {tomorrow}" in done.stdout
    assert done.returncode == 0
    early = bert(*args, "--all", "--count", 1, stdin=b"\ny\n")
    assert "Known: 1 of 1 cards." in early.stdout


@pytest.mark.parametrize(
    ("stdin", "num_kept"),
    [
        (b"", 0),
        (b"\n", 0),
        (b"\ny", 1),
        (b"\ny\n\n", 1),
        (b"\ny\nq\ny\n", 1),
        (b"\ny\n\nq\n", 1),
        (b"\nperhaps\ny\n", 1),
        (b"\n\xff\xfe\ny\n", 1),
        ("\nｙ\n".encode(), 1),
    ],
)
def test_cards_stop_cleanly_with_what_was_answered(
    bert: Bert, state_path: Path, stdin: bytes, num_kept: int
) -> None:
    result = bert("learn", "flashcards", "--state", state_path, stdin=stdin)
    assert result.returncode == 0
    assert f"Known: {num_kept} of {num_kept} cards." in result.stdout
    items = StateFile(state_path).read()
    assert len(items) == num_kept


def test_right_answers_are_told_at_once_with_the_reason(
    bert: Bert, state_path: Path
) -> None:
    args = ("--seed", 4, "--count", 5)
    # 第一遍全按 a 作答，只为看到题目；第二遍用另一个状态文件，全部答对
    seen, _ = run_quiz(bert, state_path, *args, stdin="a\n" * 5)
    letters = find_right_letters(seen.stderr)
    assert len(letters) == 5
    result, found = run_quiz(
        *(bert, state_path.with_name("other.json"), *args),
        stdin="\n".join(letters.upper()) + "\n",
    )
    assert result.stderr.count("Right.\n") == 5
    assert found["num_right"] == found["num_answers"] == 5
    for answer in found["answers"]:
        why = right_option(QUESTIONS[answer["id"]]).why.en
        assert re.search(
            rf"^✓ [a-d]\) {re.escape(why)} ← your answer$",
            result.stderr,
            re.MULTILINE,
        )


def test_after_a_wrong_answer_every_option_is_explained(
    bert: Bert, state_path: Path
) -> None:
    args = ("--seed", 4, "--count", 1, "--part", "E")
    seen, found = run_quiz(bert, state_path, *args, stdin="")
    assert found["num_answers"] == 0
    letter = find_right_letters(seen.stderr)
    wrong = OPTION_LETTERS[OPTION_LETTERS.index(letter) - 1]
    result, found = run_quiz(bert, state_path, *args, stdin=f"{wrong}\n")
    (answer,) = found["answers"]
    question = QUESTIONS[answer["id"]]
    (chosen,) = (o for o in question.options if o.text.en == answer["answer"])
    assert not chosen.is_right
    assert f"  {wrong}) {chosen.why.en} ← your answer\n" in result.stderr
    assert f"✓ {letter}) {right_option(question).why.en}\n" in result.stderr
    for option in question.options:
        assert result.stderr.count(f") {option.why.en}") == 1
    assert "Wrong.\n" in result.stderr
    assert "Right: 0 of 1." in result.stderr


def test_the_result_as_json_adds_up(bert: Bert, state_path: Path) -> None:
    result, found = run_quiz(
        bert, state_path, "--seed", 9, "--count", 12, stdin="b\n" * 12
    )
    assert result.stdout.count("\n") == 1
    assert (found["seed"], found["num_questions"]) == (9, 12)
    parts = found["parts"].values()
    for key in ("num_right", "num_answers"):
        assert found[key] == sum(part[key] for part in parts)
    assert found["num_right"] == sum(a["is_right"] for a in found["answers"])
    items = read_items(state_path)
    assert {name: bool(items[name]["right"]) for name in items} == {
        answer["id"]: answer["is_right"] for answer in found["answers"]
    }


def test_wrong_questions_come_first_the_next_time(
    bert: Bert, state_path: Path
) -> None:
    _, first = run_quiz(bert, state_path, "--count", 20, stdin="a\n" * 20)
    wrong = {a["id"] for a in first["answers"] if not a["is_right"]}
    assert 0 < len(wrong) < 20
    _, second = run_quiz(
        bert, state_path, "--count", len(wrong), stdin="a\n" * len(wrong)
    )
    assert {answer["id"] for answer in second["answers"]} == wrong


def test_a_seed_repeats_a_quiz_and_without_one_it_changes(
    bert: Bert, tmp_path: Path
) -> None:
    def ask(*args: object) -> str:
        path = tmp_path / "fresh.json"
        path.unlink(missing_ok=True)
        return run_quiz(bert, path, *args, stdin="a\n" * 10)[0].stderr

    assert ask("--seed", 1) == ask("--seed", 1)
    assert ask("--seed", 1) != ask("--seed", 2)
    assert ask() != ask()


def test_the_quiz_speaks_chinese_on_stdout(
    bert: Bert, state_path: Path
) -> None:
    result = bert(
        *("learn", "quiz", "--language", "zh", "--part", "B", "--count", 2),
        *("--state", state_path),
        stdin="ａ\nz\nb\n".encode(),
    )
    assert result.returncode == 0
    assert result.stderr == ""
    assert len(re.findall("答对了。|答错了。", result.stdout)) == 2
    assert "没有这样的选项" in result.stdout
    assert re.search(r"答对 \d 题，共 2 题。\n  B：\d/2\n", result.stdout)
    assert result.stdout.count(" ← 你的答案\n") == 2
    assert len(re.findall("^✓ ", result.stdout, re.MULTILINE)) == 2
    for name in read_items(state_path):
        assert QUESTIONS[name].ask.zh in result.stdout
        for option in QUESTIONS[name].options:
            assert option.why.zh in result.stdout


def test_progress_tells_what_is_due_and_the_score(
    bert: Bert, state_path: Path
) -> None:
    bert(
        *("learn", "flashcards", "--part", "F", "--count", 3),
        *("--state", state_path),
        stdin=b"\ny\n\nn\n\ny\n",
    )
    result = bert("learn", "progress", "--state", state_path)
    assert result.returncode == 0
    count = len(PARTS[5].cards)
    assert (
        f"  {count} cards: 1 due, {count - 3} new; boxes 1 2 0 0 0 0; "
        "known 2/3\n"
    ) in result.stdout
    as_json = bert("learn", "progress", "--state", state_path, "--json")
    found = json.loads(as_json.stdout)
    assert found["state"] == str(state_path)
    assert found["parts"][5]["cards"]["num_due"] == 1
    assert found["parts"][5]["cards"]["num_new"] == count - 3
    chinese = bert("learn", "progress", "--state", state_path, "--language=zh")
    assert PARTS[5].title.zh in chinese.stdout
    assert "1 张到期" in chinese.stdout
    assert "6 个盒子依次等待 0、1、" in chinese.stdout


def test_progress_before_the_first_answer_makes_no_file(
    bert: Bert, state_path: Path
) -> None:
    result = bert("learn", "progress", "--state", state_path)
    assert result.returncode == 0
    assert not state_path.parent.exists()


def test_the_state_directory_of_the_user_is_the_default(
    bert: Bert, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    bert("learn", "flashcards", stdin=b"\ny\n")
    assert len(read_items(tmp_path / "bert-from-scratch/progress.json")) == 1


@pytest.mark.parametrize("command", ["flashcards", "quiz"])
def test_bad_input_is_refused_before_anything_is_written(
    bert: Bert, state_path: Path, command: str
) -> None:
    def run(*args: object) -> CompletedProcess[str]:
        return bert("learn", command, "--state", state_path, *args)

    listed = "F: Appendix"
    assert_refused(run("--part", "G"), "no part 'G'", hint=listed)
    assert_refused(run("--count", 0), "--count", "at least 1", "0")
    assert_refused(run("--count", -3), "-3")
    wrong = run("--language", "fr")
    assert wrong.returncode == 2
    assert "fr" in wrong.stderr
    assert "zh" in wrong.stderr
    assert not state_path.parent.exists()


@pytest.mark.parametrize("command", ["flashcards", "quiz"])
def test_a_state_that_cannot_be_written_is_said_before_the_first_question(
    bert: Bert, tmp_path: Path, command: str
) -> None:
    (tmp_path / "file").write_text("in the way")
    # 悬空的链接：读来像是还没有状态，要写时才发现写不了
    (tmp_path / "link").symlink_to(tmp_path / "missing" / "folder")
    for path in (
        *(tmp_path / "file" / "progress.json", tmp_path),
        tmp_path / "link" / "progress.json",
    ):
        result = bert("learn", command, "--state", path, stdin=b"a\n")
        assert_refused(result, str(path), hint="--state FILE")


def start(*args: object) -> "subprocess.Popen[str]":
    script = Path(sys.executable).with_name("bert")
    # 后台任务里 SIGINT 是被忽略的，子进程会继承；有了处理函数就不继承
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        return subprocess.Popen(
            [sys.executable, str(script), "learn", *map(str, args)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            encoding="utf-8",
        )
    finally:
        signal.signal(signal.SIGINT, before)


def test_a_damaged_state_is_kept_aside_and_learning_goes_on(
    state_path: Path,
) -> None:
    state_path.parent.mkdir()
    state_path.write_text('{"format": 1, "items": {"A01"')
    with start("flashcards", "--state", state_path) as program:
        stdout, stderr = program.communicate("\ny\n", timeout=60)
    assert program.returncode == 0
    assert "Known: 1 of 1 cards." in stdout
    assert stderr.startswith(f"warning: {state_path} is damaged")
    assert "progress.json.damaged-1" in stderr
    aside = state_path.with_name("progress.json.damaged-1")
    assert aside.read_text() == '{"format": 1, "items": {"A01"'
    assert len(read_items(state_path)) == 1


def test_ctrl_c_loses_nothing(state_path: Path) -> None:
    with start("flashcards", "--state", state_path) as program:
        assert program.stdin is not None
        assert program.stdout is not None
        program.stdin.write("\ny\n\n")
        program.stdin.flush()
        for line in program.stdout:
            if PARTS[0].cards[1].back.en in line:
                break
        program.send_signal(signal.SIGINT)
        program.wait(timeout=60)
    assert program.returncode == 130
    assert list(read_items(state_path)) == ["A01"]
