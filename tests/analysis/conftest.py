"""Tiny models of every kind, untrained but rough; a browser for pages."""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from bert_from_scratch import (
    BertConfig,
    BertForPreTraining,
    BertModel,
    SequenceClassifier,
    WordPieceTokenizer,
)
from bert_from_scratch.analysis.inspection import Inspection
from bert_from_scratch.analysis.inspector import Inspector
from bert_from_scratch.analysis.subject import Model, Subject

WORDS = [
    *("the", "man", "reads", "a", "book", "old", "birds", "fed", "he"),
    *("was", "lonely", "我", "喜", "欢", "学", "习"),
]
TOKENS = [
    *("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"),
    *("<", ">", "/", '"', "(", ")", "1", ".", "&", "$", "script", "alert"),
    *WORDS,
]
LABELS = ("bad", "fair", "good")


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Tiny products gain nothing from threads."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def roughen(model: nn.Module, scale: float = 0.15) -> None:
    """Moves all weights away from their start, so that heads differ."""
    generator = torch.Generator().manual_seed(5)
    with torch.no_grad():
        for parameter in model.parameters():
            noise = torch.randn(parameter.shape, generator=generator)
            parameter.add_(scale * noise)


@pytest.fixture(scope="session")
def config() -> BertConfig:
    return BertConfig(
        vocab_size=len(TOKENS),
        hidden_size=32,
        num_hidden_layers=3,
        num_attention_heads=4,
        intermediate_size=48,
        max_position_embeddings=160,
    )


@pytest.fixture(scope="session")
def tokenizer() -> WordPieceTokenizer:
    return WordPieceTokenizer(TOKENS)


@pytest.fixture(scope="session")
def encoder(config: BertConfig) -> BertModel:
    torch.manual_seed(0)
    model = BertModel(config)
    roughen(model)
    return model.eval()


@pytest.fixture(scope="session")
def pretrained(config: BertConfig) -> BertForPreTraining:
    torch.manual_seed(1)
    model = BertForPreTraining(config)
    roughen(model)
    return model.eval()


@pytest.fixture(scope="session")
def classifier(config: BertConfig) -> SequenceClassifier:
    torch.manual_seed(2)
    model = SequenceClassifier(config, LABELS)
    roughen(model)
    return model.eval()


@pytest.fixture(scope="session")
def inspector_of(
    tokenizer: WordPieceTokenizer,
) -> Callable[[Model], Inspector]:
    """Makes an inspector of a model in memory."""

    def build(model: Model) -> Inspector:
        return Inspector(Subject("tiny", model.architecture, model, tokenizer))

    return build


@pytest.fixture
def save(
    tmp_path: Path, tokenizer: WordPieceTokenizer
) -> Callable[[Model], Path]:
    """Writes a model and its tokenizer into a folder."""

    def write(model: Model) -> Path:
        directory = tmp_path / "my-bert"
        model.save_pretrained(directory)
        tokenizer.save(directory)
        return directory

    return write


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """Debian's Chromium, or a skip with the reason."""
    sync_api = pytest.importorskip("playwright.sync_api")
    executable = shutil.which("chromium")
    if executable is None:
        pytest.skip("needs chromium: apt-get install chromium")
    with sync_api.sync_playwright() as playwright:
        found = playwright.chromium.launch(
            executable_path=executable, args=["--no-sandbox", "--disable-gpu"]
        )
        yield found
        found.close()


@pytest.fixture
def open_page(
    browser: Any, tmp_path: Path
) -> Iterator[Callable[[Inspection], Any]]:
    """Opens an inspection from disk; any request or complaint fails."""
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    complaints: list[str] = []
    path = tmp_path / "page.html"

    def check(route: Any) -> None:
        if route.request.url == path.as_uri():
            route.continue_()
        else:
            complaints.append(route.request.url)
            route.abort()

    def show(inspection: Inspection) -> Any:
        inspection.save(path)
        page = context.new_page()
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("dialog", lambda dialog: complaints.append(dialog.message))
        page.goto(path.as_uri())
        page.wait_for_selector("body[data-complete=true]")
        return page

    context.route("**/*", check)
    context.set_offline(True)
    yield show
    context.close()
    assert complaints == []
