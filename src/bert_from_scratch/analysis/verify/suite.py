"""All checks, one after the other, and what came out."""

import hashlib
import logging
import platform
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from time import perf_counter
from typing import Any

import torch

from bert_from_scratch.analysis.verify.attention import (
    EXTENDED_MASK,
    FUSED_ATTENTION,
    SOFTMAX_ROWS,
)
from bert_from_scratch.analysis.verify.boundaries import BOUNDARIES
from bert_from_scratch.analysis.verify.check import (
    Check,
    Measurement,
    NotApplicable,
    Outcome,
    Said,
    Verdict,
)
from bert_from_scratch.analysis.verify.loss import LOSS_AT_LABELS
from bert_from_scratch.analysis.verify.mask_token import MASK_VISIBLE
from bert_from_scratch.analysis.verify.masking import MASKING
from bert_from_scratch.analysis.verify.packing import PACKED_EQUALS_PADDED
from bert_from_scratch.analysis.verify.padding import PADDING_INVARIANCE
from bert_from_scratch.analysis.verify.reference import REFERENCE
from bert_from_scratch.analysis.verify.shapes import SHAPES, count_parameters
from bert_from_scratch.analysis.verify.subject import Subject
from bert_from_scratch.analysis.verify.tied_weights import TIED_WEIGHTS
from bert_from_scratch.corpus.progress import ProgressReport, keep_quiet

logger = logging.getLogger(__name__)

FORMAT_VERSION = 1
CHECKS: tuple[Check, ...] = (
    EXTENDED_MASK,
    PADDING_INVARIANCE,
    MASK_VISIBLE,
    LOSS_AT_LABELS,
    SOFTMAX_ROWS,
    SHAPES,
    TIED_WEIGHTS,
    MASKING,
    PACKED_EQUALS_PADDED,
    BOUNDARIES,
    FUSED_ATTENTION,
    REFERENCE,
)
_PACKAGES = ("bert-from-scratch", "torch", "tokenizers", "transformers")
_FILES = ("config.json", "vocab.txt", "tokenizer.json")
_WEIGHTS = ("model*.safetensors", "pytorch_model*.bin")


@dataclass(frozen=True)
class Results:
    """What the suite found out about a model.

    Attributes:
        model: Its directory, config, parameters and the hashes of its files.
        texts: Each text with its tokens and ids.
        versions: Of the software that computed.
        outcomes: Of every check, in order.
    """

    model: dict[str, Any]
    texts: tuple[dict[str, Any], ...]
    versions: dict[str, str]
    outcomes: tuple[Outcome, ...]

    @property
    def verdict(self) -> Verdict:
        """Whether all checks that apply passed."""
        is_failed = any(o.verdict == "fail" for o in self.outcomes)
        return "fail" if is_failed else "pass"

    def to_dict(self) -> dict[str, Any]:
        """Returns everything as plain values for JSON."""
        return {
            "format_version": FORMAT_VERSION,
            "verdict": self.verdict,
            "model": self.model,
            "texts": list(self.texts),
            "versions": self.versions,
            "checks": [outcome.to_dict() for outcome in self.outcomes],
        }


def verify(
    subject: Subject,
    checks: tuple[Check, ...] = CHECKS,
    progress: ProgressReport = keep_quiet,
) -> Results:
    """Runs the checks on a model.

    Args:
        subject: The model and the texts.
        checks: Which to run.
        progress: Told the number of checks done.
    """
    outcomes = []
    for number, check in enumerate(checks):
        progress("verifying", number, len(checks))
        outcomes.append(run_check(check, subject))
    progress("verifying", len(checks), len(checks))
    return Results(
        _describe(subject),
        tuple(
            {"text": text, "tokens": e.tokens, "input_ids": e.input_ids}
            for text, e in zip(subject.texts, subject.encodings, strict=True)
        ),
        _versions(),
        tuple(outcomes),
    )


def run_check(check: Check, subject: Subject) -> Outcome:
    """Runs one check; one that breaks down has failed."""
    start = perf_counter()
    measurements: list[Measurement] = []
    verdict: Verdict
    reason = None
    try:
        with torch.no_grad():
            measurements.extend(check.measure(subject))
        is_pass = bool(measurements) and all(m.holds for m in measurements)
        verdict = "pass" if is_pass else "fail"
    except NotApplicable as error:
        verdict, reason = "not applicable", error.reason
    except Exception as error:
        # 坏模型什么异常都可能抛：算不下去就是没通过，其余检查照常进行
        logger.debug("%s broke down", check.identifier, exc_info=True)
        said = f"{type(error).__name__}: {error}"
        reason = Said(f"It broke down: {said}", f"计算中断：{said}")
        verdict = "fail"
    seconds = perf_counter() - start
    return Outcome(check, verdict, tuple(measurements), reason, seconds)


def _describe(subject: Subject) -> dict[str, Any]:
    return {
        "directory": str(subject.directory),
        "parameters": count_parameters(subject),
        "has_mlm_head": subject.pretraining is not None,
        "has_nsp_head": subject.has_nsp_head,
        "has_pooler": subject.has_pooler,
        "task_head": subject.task_head,
        "config": asdict(subject.config),
        "sha256": _hash_files(subject.directory),
    }


def _hash_files(directory: Path) -> dict[str, str]:
    """Returns the hashes of the files that make the model what it is."""
    paths = [directory / name for name in _FILES]
    for pattern in _WEIGHTS:
        paths.extend(sorted(directory.glob(pattern)))
    hashes = {}
    for path in paths:
        if path.is_file():
            with path.open("rb") as file:
                digest = hashlib.file_digest(file, "sha256")
            hashes[path.name] = digest.hexdigest()
    return hashes


def _versions() -> dict[str, str]:
    versions = {"python": platform.python_version()}
    for name in _PACKAGES:
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            continue
    return versions
