"""The data report: what is in the shards, and what to worry about."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bert_from_scratch import atomic
from bert_from_scratch.data.pairs import plan_pairs
from bert_from_scratch.data.prepare import Counts
from bert_from_scratch.data.shards import TokenShards

FEW_DOCUMENTS = 20
PERCENTILES = (1, 10, 25, 50, 75, 90, 99)


@dataclass(frozen=True)
class DataReport:
    """What `report.json` says.

    Attributes:
        num_documents, num_sentences, num_tokens: How much there is.
        structures: How many files were laid out how.
        sentence_lengths: Percentiles, in tokens.
        document_lengths: Percentiles, in sentences.
        unknown_rate: Share of [UNK] among the tokens.
        duplicate_rate: Share of lines that were seen before.
        num_near_empty: Lines of at most three characters.
        num_special: Special tokens written out in the text.
        single_sentence_rate: Share of documents with one sentence.
        random_pair_rate: Share of random pairs to expect; None: no pairs.
        warnings: What to worry about, in words.
    """

    num_documents: int
    num_sentences: int
    num_tokens: int
    structures: dict[str, int]
    sentence_lengths: dict[str, int]
    document_lengths: dict[str, int]
    unknown_rate: float
    duplicate_rate: float
    num_near_empty: int
    num_special: int
    single_sentence_rate: float
    random_pair_rate: float | None
    warnings: list[str]


def make_report(shards: TokenShards, counts: Counts) -> DataReport:
    """Looks at finished shards, with what was counted on the way."""
    sentences = np.diff(shards.sentence_ends)
    documents = np.diff(shards.document_ends)
    unknown_rate = counts.num_unknown / shards.meta.num_tokens
    duplicate_rate = counts.num_duplicates / max(counts.num_lines, 1)
    single_rate = float((documents == 1).mean())
    return DataReport(
        num_documents=shards.meta.num_documents,
        num_sentences=shards.meta.num_sentences,
        num_tokens=shards.meta.num_tokens,
        structures=dict(counts.structures),
        sentence_lengths=_percentiles(sentences),
        document_lengths=_percentiles(documents),
        unknown_rate=unknown_rate,
        duplicate_rate=duplicate_rate,
        num_near_empty=counts.num_near_empty,
        num_special=counts.num_special,
        single_sentence_rate=single_rate,
        random_pair_rate=_random_pair_rate(shards),
        warnings=_find_warnings(
            shards.meta.num_documents,
            single_rate,
            unknown_rate,
            duplicate_rate,
            counts.num_special,
        ),
    )


def write_report(report: DataReport, directory: Path) -> None:
    """Writes `report.json` and `report.md` beside the shards."""
    text = json.dumps(asdict(report), indent=2, ensure_ascii=False)
    atomic.write_text(directory / "report.json", text + "\n")
    atomic.write_text(directory / "report.md", _to_markdown(report))


def _percentiles(lengths: Any) -> dict[str, int]:
    values = np.percentile(lengths, PERCENTILES).round().astype(int).tolist()
    found = {f"{p} %": v for p, v in zip(PERCENTILES, values, strict=True)}
    return {**found, "longest": int(lengths.max())}


def _random_pair_rate(shards: TokenShards) -> float | None:
    """Plans an epoch of pairs and counts; None where none can be made."""
    if np.diff(shards.document_ends).max() < 2 or shards.meta.num_documents < 2:
        return None
    labels = plan_pairs(
        shards.sentence_ends, shards.documents(), 128, seed=0, epoch=0
    ).nsp_labels
    assert labels is not None
    return float(labels.mean())


def _find_warnings(
    num_documents: int,
    single_rate: float,
    unknown_rate: float,
    duplicate_rate: float,
    num_special: int,
) -> list[str]:
    found = []
    if num_documents < FEW_DOCUMENTS:
        found.append(
            f"{num_documents} document(s): random next sentences will "
            "repeat; use bert pretrain --no-nsp."
        )
    if single_rate > 0.5:
        found.append(
            f"{single_rate:.0%} of the documents have one sentence and make "
            "no pair; use bert pretrain --no-nsp, or check what ends "
            "a document."
        )
    if unknown_rate > 0.01:
        found.append(
            f"{unknown_rate:.1%} of the tokens are [UNK]: the vocabulary "
            "does not fit this text."
        )
    if duplicate_rate > 0.05:
        found.append(
            f"{duplicate_rate:.1%} of the lines were seen before; consider "
            "--dedup."
        )
    if num_special:
        found.append(
            f"{num_special} special token(s) such as [SEP] stand in the "
            "text; they were read as plain text."
        )
    return found


def _to_markdown(report: DataReport) -> str:
    rate = report.random_pair_rate
    facts = {
        "documents": f"{report.num_documents:,}",
        "sentences": f"{report.num_sentences:,}",
        "tokens": f"{report.num_tokens:,}",
        "[UNK]": f"{report.unknown_rate:.3%} of tokens",
        "lines seen before": f"{report.duplicate_rate:.2%}",
        "nearly empty lines": f"{report.num_near_empty:,}",
        "documents of one sentence": f"{report.single_sentence_rate:.1%}",
        "random pairs to expect": "no pairs" if rate is None else f"{rate:.1%}",
    }
    lines = ["# Data report", "", "| what | how much |", "|---|---|"]
    lines += [f"| {name} | {value} |" for name, value in facts.items()]
    lines += ["", "| files | layout |", "|---|---|"]
    lines += [f"| {n:,} | {name} |" for name, n in report.structures.items()]
    heads = list(report.sentence_lengths)
    lines += ["", f"| length | {' | '.join(heads)} |", "|---" * 9 + "|"]
    for name, values in (
        ("tokens a sentence", report.sentence_lengths),
        ("sentences a document", report.document_lengths),
    ):
        numbers = " | ".join(str(value) for value in values.values())
        lines.append(f"| {name} | {numbers} |")
    lines += ["", "## Warnings", ""]
    lines += [f"- {warning}" for warning in report.warnings] or ["None."]
    return "\n".join(lines) + "\n"
