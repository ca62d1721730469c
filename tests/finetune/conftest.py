"""A tiny BERT, untrained, and a small task of our own writing."""

import random
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from bert_from_scratch import BertConfig, BertForPreTraining, WordPieceTokenizer

GOOD = ("fine", "good", "lovely", "bright", "warm")
BAD = ("poor", "bad", "awful", "dark", "cold")
THINGS = ("film", "room", "book", "song", "day")


def make_rows(count: int, seed: int) -> list[tuple[str, str]]:
    """Draws sentences with their labels: the adjective decides."""
    generator = random.Random(seed)
    rows = []
    for _ in range(count):
        label = generator.choice(("good", "bad"))
        word = generator.choice(GOOD if label == "good" else BAD)
        rows.append((f"the {generator.choice(THINGS)} was {word} .", label))
    return rows


@pytest.fixture(autouse=True)
def one_thread(request: pytest.FixtureRequest) -> Iterator[None]:
    """Tiny products gain nothing from threads and wait for them long."""
    before = torch.get_num_threads()
    if request.node.get_closest_marker("slow") is None:
        torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session")
def tiny_bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A BERT of two layers and width 32, without any training."""
    directory = tmp_path_factory.mktemp("tiny") / "bert"
    lines = [text for text, _ in make_rows(200, 0)]
    tokenizer = WordPieceTokenizer.train(lines, vocab_size=120)
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=len(tokenizer),
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=64,
        max_position_embeddings=64,
        initializer_range=0.1,
    )
    BertForPreTraining(config).save_pretrained(directory)
    tokenizer.save(directory)
    return directory


@pytest.fixture(scope="session")
def reviews(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with train.tsv and dev.tsv."""
    folder = tmp_path_factory.mktemp("reviews")
    for name, count, seed in (("train", 96, 1), ("dev", 40, 2)):
        rows = [f"{text}\t{label}" for text, label in make_rows(count, seed)]
        text = "\n".join(["text\tlabel", *rows]) + "\n"
        (folder / f"{name}.tsv").write_text(text, encoding="utf-8")
    return folder
