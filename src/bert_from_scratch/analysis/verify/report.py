"""Results to read: Markdown in English or Chinese, and JSON beside it."""

import html
import re
from collections.abc import Iterator
from pathlib import Path

from bert_from_scratch import atomic
from bert_from_scratch.analysis.verify.check import (
    Language,
    Measurement,
    Outcome,
    Relation,
    Said,
    Value,
    Verdict,
)
from bert_from_scratch.analysis.verify.suite import Results

RESULTS_NAME, REPORT_NAME = "results.json", "report.md"

VERDICTS: dict[Verdict, Said] = {
    "pass": Said("pass", "通过"),
    "fail": Said("FAIL", "未通过"),
    "not applicable": Said("not applicable", "不适用"),
}
_YES, _NO = Said("yes", "是"), Said("no", "否")
_NONE = Said("none", "无")
# 报告也会当纯文本读：用符号而不用 HTML 转义
_RELATIONS: dict[Relation, str] = {"<=": "≤", ">=": "≥", ">": ">", "=": "="}


def check_out(out: Path) -> None:
    """Raises where a report cannot be written: before the work, not after.

    Args:
        out: The folder for the report; it need not exist yet.
    """
    atomic.check_writable(out)
    for name in (RESULTS_NAME, REPORT_NAME):
        atomic.check_file(out / name)


def save(results: Results, out: Path, language: Language = "en") -> None:
    """Writes `results.json` and `report.md`; other files stay.

    Args:
        results: What the suite found.
        out: The folder; made where it does not exist.
        language: Of the report; the JSON file has both.
    """
    atomic.write_json(out / RESULTS_NAME, results.to_dict())
    atomic.write_text(out / REPORT_NAME, write_report(results, language))


def write_report(results: Results, language: Language = "en") -> str:
    """Returns the report as Markdown, all of it in one language."""

    def say(en: str, zh: str) -> str:
        return zh if language == "zh" else en

    lines = [
        "# " + say("Verification report", "验证报告"),
        "",
        *_overview(results, language),
        "",
        "## " + say("Summary", "总览"),
        "",
        *_summary(results, language),
        "",
        "## " + say("Texts", "文本"),
        "",
        *_texts(results, language),
    ]
    for number, outcome in enumerate(results.outcomes, 1):
        lines += ["", *_section(number, outcome, language)]
    return "\n".join(lines) + "\n"


def _overview(results: Results, language: Language) -> Iterator[str]:
    model, config = results.model, results.model["config"]
    yes_no = {True: _YES, False: _NO}
    rows: list[tuple[Said, str]] = [
        (Said("verdict", "结论"), _word(results.verdict, language)),
        (Said("model", "模型"), _escape(model["directory"])),
        (Said("layers", "层数"), _number(config["num_hidden_layers"])),
        (Said("width", "宽度"), _number(config["hidden_size"])),
        (Said("heads", "头数"), _number(config["num_attention_heads"])),
        (Said("WordPieces", "词表大小"), _number(config["vocab_size"])),
        (Said("parameters", "参数个数"), _number(model["parameters"])),
    ]
    parts = {
        "has_pooler": Said("pooler", "池化层"),
        "has_mlm_head": Said("MLM head", "MLM 头"),
        "has_nsp_head": Said("NSP head", "NSP 头"),
    }
    for key, part in parts.items():
        rows.append((part, yes_no[model[key]].in_language(language)))
    if model["task_head"]:
        not_checked = Said(
            f"{model['task_head']}: not checked here; bert evaluate scores it",
            f"{model['task_head']}：此处不查，由 bert evaluate 评分",
        )
        rows.append(
            (Said("task head", "任务头"), not_checked.in_language(language))
        )
    for name, number in results.versions.items():
        rows.append((Said.same(name), number))
    for name, digest in model["sha256"].items():
        rows.append((Said.same(f"SHA-256, {name}"), f"`{digest}`"))
    yield "| | |"
    yield "|---|---|"
    for said, value in rows:
        yield f"| {said.in_language(language)} | {value} |"


def _summary(results: Results, language: Language) -> Iterator[str]:
    heads = {
        "en": "| | check | | verdict | measurements | seconds |",
        "zh": "| | 检查 | | 结论 | 测量数 | 秒 |",
    }
    yield heads[language]
    yield "|---|---|---|---|---|---|"
    for number, outcome in enumerate(results.outcomes, 1):
        check = outcome.check
        yield (
            f"| {number} | `{check.identifier}` | "
            f"{_escape(check.title.in_language(language))} | "
            f"{_word(outcome.verdict, language)} | "
            f"{len(outcome.measurements)} | {outcome.seconds:.2f} |"
        )


def _texts(results: Results, language: Language) -> Iterator[str]:
    heads = {
        "en": "| | text | tokens | ids |",
        "zh": "| | 文本 | 词元 | 编号 |",
    }
    yield heads[language]
    yield "|---|---|---|---|"
    for number, text in enumerate(results.texts, 1):
        tokens = " ".join(_escape(token) for token in text["tokens"])
        ids = " ".join(map(str, text["input_ids"]))
        yield f"| {number} | {_escape(text['text'])} | {tokens} | {ids} |"


def _section(
    number: int, outcome: Outcome, language: Language
) -> Iterator[str]:
    check = outcome.check
    verdict = _word(outcome.verdict, language)
    title = _escape(check.title.in_language(language))
    colon = "：" if language == "zh" else ": "
    yield f"## {number}. {title}{colon}{verdict}"
    yield ""
    yield _escape(check.claim.in_language(language))
    yield ""
    yield f"`{check.formula}`"
    if outcome.reason is not None:
        yield ""
        yield f"**{_escape(outcome.reason.in_language(language))}**"
    if outcome.measurements:
        heads = {
            "en": "| measured | value | must be | |",
            "zh": "| 测量 | 数值 | 应为 | |",
        }
        yield ""
        yield heads[language]
        yield "|---|---|---|---|"
        for measurement in outcome.measurements:
            yield _measurement_row(measurement, language)


def _measurement_row(measurement: Measurement, language: Language) -> str:
    name = _escape(measurement.name.in_language(language))
    value = format_value(measurement.value, language)
    bound = format_value(measurement.bound, language)
    verdict = _word("pass" if measurement.holds else "fail", language)
    relation = _RELATIONS[measurement.relation]
    return f"| {name} | {value} | {relation} {bound} | {verdict} |"


def format_value(value: Value, language: Language) -> str:
    """Returns a measured value for a person."""
    if isinstance(value, bool):
        return (_YES if value else _NO).in_language(language)
    if isinstance(value, int):
        return _number(value)
    if isinstance(value, float):
        return f"{value:.3g}"
    if isinstance(value, str):
        return value
    # 没有这个模块时形状与参数都是 None
    if value["shape"] is None:
        return _NONE.in_language(language)
    return f"{value['shape']} / {_number(value['parameters'])}"


def _word(verdict: Verdict, language: Language) -> str:
    word = VERDICTS[verdict].in_language(language)
    return f"**{word}**" if verdict == "fail" else word


def _number(value: int) -> str:
    return f"{value:,}"


def _escape(text: str) -> str:
    """Makes any text plain in a Markdown table: no HTML, no mark-up."""
    text = html.escape(" ".join(text.split()), quote=False)
    return re.sub(r"([\\|`*_\[\]#~])", r"\\\1", text)
