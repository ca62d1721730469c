"""The report reads well in both languages and runs nothing."""

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from bert_from_scratch import BertError
from bert_from_scratch.analysis.verify.check import Language
from bert_from_scratch.analysis.verify.report import (
    check_out,
    format_value,
    save,
    write_report,
)
from bert_from_scratch.analysis.verify.subject import Subject
from bert_from_scratch.analysis.verify.suite import CHECKS, Results, verify

from .conftest import MakeDir


@pytest.fixture(scope="module")
def results(make_dir: MakeDir) -> Results:
    """Of all checks but the slow last one."""
    return verify(Subject.load(make_dir("tiny")), CHECKS[:-1])


@pytest.mark.parametrize("language", ["en", "zh"])
def test_every_check_and_measurement_is_in_the_report(
    results: Results, language: Language
) -> None:
    report = write_report(results, language).replace("\\", "")
    for outcome in results.outcomes:
        check = outcome.check
        assert check.formula in report
        assert check.claim.in_language(language) in report
        colon = "：" if language == "zh" else ": "
        assert f". {check.title.in_language(language)}{colon}" in report
        for measurement in outcome.measurements:
            assert measurement.name.in_language(language) in report


def test_the_report_reads_as_plain_text(results: Results) -> None:
    report = write_report(results)
    assert " ≤ 1e-05 |" in report
    assert "&lt;" not in report
    assert "&gt;" not in report


def test_the_english_report_is_english_but_for_the_text(
    results: Results,
) -> None:
    lines = write_report(results, "en").splitlines()
    chinese = [line for line in lines if re.search(r"[\u4e00-\u9fff]", line)]
    assert len(chinese) == 1
    assert "我喜欢学习人工" in chinese[0]


def test_the_chinese_report_has_chinese_headings_and_prose(
    results: Results,
) -> None:
    report = write_report(results, "zh")
    headings = re.findall(r"^#+ (.*)$", report, re.MULTILINE)
    assert headings[:3] == ["验证报告", "总览", "文本"]
    assert all(re.search(r"[\u4e00-\u9fff]", line) for line in headings)
    for word in ("pass", "measured", "must be", "verdict", "layer "):
        assert f"| {word}" not in report
        assert f" {word} |" not in report


@pytest.mark.parametrize("language", ["en", "zh"])
def test_tables_have_as_many_cells_as_their_heads(
    results: Results, language: Language
) -> None:
    width = 0
    for line in write_report(results, language).splitlines():
        if not line.startswith("|"):
            width = 0
            continue
        cells = len(re.findall(r"(?<!\\)\|", line))
        width = width or cells
        assert cells == width, line


@pytest.mark.parametrize("language", ["en", "zh"])
def test_a_failure_stands_out(
    subject: Subject, monkeypatch: pytest.MonkeyPatch, language: Language
) -> None:
    name = "bert_from_scratch.model.attention._key_mask"
    monkeypatch.setattr(name, lambda layout: None)
    report = write_report(verify(subject, CHECKS[:1]), language)
    word = {"en": "**FAIL**", "zh": "**未通过**"}[language]
    assert f"| {word} |" in report.splitlines()[4]


@pytest.mark.parametrize("language", ["en", "zh"])
def test_what_does_not_apply_says_why(
    subject: Subject, language: Language
) -> None:
    encoder = replace(subject, pretraining=None)
    report = write_report(verify(encoder, CHECKS[3:4]), language)
    reason = {"en": "The model has no MLM head.", "zh": "这个模型没有 MLM 头。"}
    assert f"**{reason[language]}**" in report


def test_text_is_shown_and_not_run(make_dir: MakeDir) -> None:
    text = "<script>alert(1)</script> | `code` *bold*\nnext"
    subject = Subject.load(make_dir("tiny"), [text])
    report = write_report(verify(subject, CHECKS[:1]))
    assert "<script>" not in report
    assert (
        "| &lt;script&gt;alert(1)&lt;/script&gt; \\| \\`code\\` \\*bold\\* "
        "next |" in report
    )


@pytest.mark.parametrize(
    ("value", "en", "zh"),
    [
        (True, "yes", "是"),
        (False, "no", "否"),
        (100_000, "100,000", "100,000"),
        (1.2345e-7, "1.23e-07", "1.23e-07"),
        ({"shape": [1, 8], "parameters": 1024}, "[1, 8] / 1,024", None),
        ({"shape": None, "parameters": None}, "none", "无"),
    ],
)
def test_values_are_written_for_people(
    value: object, en: str, zh: str | None
) -> None:
    assert format_value(value, "en") == en  # type: ignore[arg-type]
    assert format_value(value, "zh") == (zh or en)  # type: ignore[arg-type]


def test_files_of_an_earlier_report_are_replaced_and_others_kept(
    results: Results, tmp_path: Path
) -> None:
    (tmp_path / "results.json").write_text("old")
    (tmp_path / "report.md").write_text("old")
    (tmp_path / "notes.txt").write_text("mine")
    save(results, tmp_path, "zh")
    written = json.loads((tmp_path / "results.json").read_text("utf-8"))
    assert written == json.loads(json.dumps(results.to_dict()))
    report = (tmp_path / "report.md").read_text("utf-8")
    assert report == write_report(results, "zh")
    assert (tmp_path / "notes.txt").read_text() == "mine"
    assert len(list(tmp_path.iterdir())) == 3


def test_a_folder_that_can_be_made_is_not_made_too_early(
    tmp_path: Path,
) -> None:
    check_out(tmp_path / "new" / "report")
    assert list(tmp_path.iterdir()) == []


def test_a_place_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "taken" / "report.md").mkdir(parents=True)
    for out, message in (
        (tmp_path / "file", "is a file"),
        (tmp_path / "file" / "below", "is a file"),
        (tmp_path / "taken", "is a folder"),
    ):
        with pytest.raises(BertError, match=message):
            check_out(out)


def test_a_file_system_that_refuses_is_found_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*args: object, **rest: object) -> str:
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr("tempfile.TemporaryFile", refuse)
    with pytest.raises(BertError, match="Read-only file system"):
        check_out(tmp_path)
