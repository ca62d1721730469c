"""The suite passes on BERTs: random ones of every size, and trained ones."""

import json
import os
from collections.abc import Iterator
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import pytest
import torch

from bert_from_scratch import (
    BertConfig,
    BertForPreTraining,
    SequenceClassifier,
    WordPieceTokenizer,
)
from bert_from_scratch.analysis.verify import CHECKS, Subject, verify
from bert_from_scratch.analysis.verify.check import (
    Check,
    Measurement,
    Said,
    at_most,
)
from bert_from_scratch.analysis.verify.report import write_report
from bert_from_scratch.analysis.verify.suite import Results, run_check
from bert_from_scratch.data.batch import pack
from bert_from_scratch.data.masking import MaskingRule, mask_tokens

from .conftest import LINES, MakeDir

NEEDS_MLM_HEAD = {"loss-at-labels", "tied-weights"}


def assert_passes(results: Results, not_applicable: set[str]) -> None:
    assert {o.check.identifier for o in results.outcomes} == {
        check.identifier for check in CHECKS
    }
    for outcome in results.outcomes:
        name = outcome.check.identifier
        wanted = "not applicable" if name in not_applicable else "pass"
        wrong = [m for m in outcome.measurements if not m.holds]
        assert outcome.verdict == wanted, (name, outcome.reason, wrong)
    assert results.verdict == "pass"


LARGE = pytest.mark.skipif(
    not os.environ.get("BERT_ALL_SIZES"),
    reason="takes three minutes; set BERT_ALL_SIZES=1",
)


@pytest.mark.parametrize(
    "preset",
    [
        "tiny",
        "mini",
        pytest.param("small", marks=pytest.mark.slow),
        pytest.param("medium", marks=pytest.mark.slow),
        pytest.param("base", marks=pytest.mark.slow),
        pytest.param("large", marks=[pytest.mark.slow, LARGE]),
    ],
)
def test_a_random_model_passes(make_dir: MakeDir, preset: str) -> None:
    assert_passes(verify(Subject.load(make_dir(preset))), set())


@pytest.mark.slow
def test_the_real_sentence_encoder_passes_its_encoder_checks(
    minilm_dir: Path,
) -> None:
    assert_passes(verify(Subject.load(minilm_dir)), NEEDS_MLM_HEAD)


@pytest.mark.slow
def test_a_real_masked_lm_passes(antiberty_dir: Path) -> None:
    texts = ["Q V Q L V E S G G [MASK] V V Q P G R S L R L"]
    assert_passes(verify(Subject.load(antiberty_dir, texts)), set())


def test_a_model_trained_for_seconds_passes(
    tokenizer: WordPieceTokenizer, tmp_path: Path
) -> None:
    torch.manual_seed(0)
    config = BertConfig.preset("tiny", vocab_size=len(tokenizer))
    model = BertForPreTraining(config)
    batch = pack([tokenizer.encode(line) for line in LINES])
    batch = replace(batch, sequence_keys=torch.arange(len(LINES)))
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    losses = []
    for step in range(25):
        hidden = mask_tokens(batch, MaskingRule.of(tokenizer), 0, step)
        hidden = replace(hidden, nsp_labels=torch.arange(len(LINES)) % 2)
        loss = model(hidden).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert sum(losses[-5:]) < 0.8 * sum(losses[:5])
    model.save_pretrained(tmp_path)
    tokenizer.save(tmp_path)
    assert_passes(verify(Subject.load(tmp_path)), set())


def test_a_classifier_passes_its_encoder_checks(
    tokenizer: WordPieceTokenizer, tmp_path: Path
) -> None:
    config = BertConfig.preset("tiny", vocab_size=len(tokenizer))
    SequenceClassifier(config, ["bad", "good"]).save_pretrained(tmp_path)
    tokenizer.save(tmp_path)
    results = verify(Subject.load(tmp_path))
    assert_passes(results, NEEDS_MLM_HEAD)
    said = "BertForSequenceClassification: not checked here"
    assert f"| task head | {said}" in write_report(results)


def test_a_model_of_sixteen_positions_passes(
    tokenizer: WordPieceTokenizer, tmp_path: Path
) -> None:
    config = BertConfig.preset(
        "tiny", vocab_size=len(tokenizer), max_position_embeddings=16
    )
    BertForPreTraining(config).save_pretrained(tmp_path)
    tokenizer.save(tmp_path)
    assert_passes(verify(Subject.load(tmp_path)), set())


def make_check(measurements: list[Measurement], breaks: bool) -> Check:
    def measure(subject: Subject) -> Iterator[Measurement]:
        yield from measurements
        if breaks:
            raise RuntimeError("mat1 and mat2 do not fit")

    return Check("made", Said.same("t"), Said.same("c"), "0 = 0", measure)


def test_a_check_that_breaks_down_has_failed_and_the_rest_goes_on(
    subject: Subject,
) -> None:
    fine = at_most(Said.same("x"), 0.0, 1.0)
    checks = (make_check([fine], True), make_check([fine], False))
    results = verify(subject, checks)
    assert [o.verdict for o in results.outcomes] == ["fail", "pass"]
    broken = results.outcomes[0]
    assert broken.measurements == (fine,)
    assert broken.reason is not None
    assert "mat1 and mat2 do not fit" in broken.reason.zh
    assert results.verdict == "fail"


def test_a_check_that_measures_nothing_has_failed(subject: Subject) -> None:
    assert run_check(make_check([], False), subject).verdict == "fail"


def test_identifiers_are_unique_and_every_word_is_in_both_languages() -> None:
    assert len({check.identifier for check in CHECKS}) == len(CHECKS) == 12
    for check in CHECKS:
        for said in (check.title, check.claim):
            assert said.en.isascii()
            assert any("\u4e00" <= letter <= "\u9fff" for letter in said.zh)


def test_the_results_say_what_was_measured_on_what(subject: Subject) -> None:
    results = verify(subject, CHECKS[:1])
    values = json.loads(json.dumps(results.to_dict(), allow_nan=False))
    weights = (subject.directory / "model.safetensors").read_bytes()
    hashes = values["model"]["sha256"]
    assert hashes["model.safetensors"] == sha256(weights).hexdigest()
    assert {"config.json", "vocab.txt", "tokenizer.json"} < hashes.keys()
    assert values["model"]["config"]["hidden_size"] == 128
    # torch 自己的版本号后面还带着 CUDA 的
    assert torch.__version__.startswith(values["versions"]["torch"])
    assert values["texts"][1]["text"] == "我喜欢学习人工[MASK]"
    (check,) = values["checks"]
    assert check["identifier"] == "extended-mask"
    for measurement in check["measurements"]:
        assert measurement.keys() == {
            *("name", "value", "relation", "bound", "holds")
        }


def test_progress_is_told_to_the_end(subject: Subject) -> None:
    told: list[tuple[int, int]] = []
    verify(
        subject,
        CHECKS[:2],
        lambda stage, done, total: told.append((done, total)),
    )
    assert told == [(0, 2), (1, 2), (2, 2)]
