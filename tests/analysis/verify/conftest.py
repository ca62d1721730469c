"""Models to verify: random ones of every preset, whole and by halves."""

from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest
import torch

from bert_from_scratch import BertConfig, BertForPreTraining, WordPieceTokenizer
from bert_from_scratch.analysis.verify.check import Check, Verdict
from bert_from_scratch.analysis.verify.subject import Subject
from bert_from_scratch.analysis.verify.suite import run_check

MakeDir = Callable[[str], Path]

# 认得两条默认文本里的每一个字
LINES = [
    "The man reads the book. The keeper reads the letters at night.",
    "我喜欢学习人工智能。",
    "人工灯照亮了港口，我学习看灯。",
]


@pytest.fixture(scope="session", autouse=True)
def one_thread() -> Iterator[None]:
    """Threads wait for each other longer than small models compute."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session")
def tokenizer() -> WordPieceTokenizer:
    return WordPieceTokenizer.train(LINES * 4, 160)


@pytest.fixture(scope="session")
def make_dir(
    tokenizer: WordPieceTokenizer, tmp_path_factory: pytest.TempPathFactory
) -> MakeDir:
    """Writes a random model of a preset, with biases that are not zero."""

    @cache
    def make(preset: str) -> Path:
        directory = tmp_path_factory.mktemp("verify") / preset
        torch.manual_seed(0)
        config = BertConfig.preset(preset, vocab_size=len(tokenizer))
        model = BertForPreTraining(config)
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.add_(torch.randn_like(parameter), alpha=0.01)
        model.save_pretrained(directory)
        tokenizer.save(directory)
        return directory

    return make


@pytest.fixture
def subject(make_dir: MakeDir) -> Subject:
    """A tiny model that a test may break."""
    return Subject.load(make_dir("tiny"))


def judge(check: Check, subject: Subject) -> Verdict:
    """Runs one check; a breakdown would not show that it measures."""
    outcome = run_check(check, subject)
    if outcome.verdict == "fail":
        assert outcome.reason is None, outcome.reason.en
    return outcome.verdict
