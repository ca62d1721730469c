"""Chinese, by commands: the three recipes, trained and asked."""

import json
from pathlib import Path

import pytest
import torch

from bert_from_scratch import BertConfig, BertForPreTraining, WordPieceTokenizer

from .conftest import Bert

CITIES = ("北京", "上海", "广州", "南京")
NAMES = ("张三", "李四", "王五")
FAST = ("--epochs", 40, "--lr", "3e-3", "--batch-size", 8, "--log-every", 50)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny BERT that knows the characters, untrained."""
    directory = tmp_path_factory.mktemp("model") / "bert"
    lines = [f"{name}住在{city}，谁来了？" for name in NAMES for city in CITIES]
    lines += ["这家饭店很好，房间干净。", "这本书不好，我不喜欢。"]
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


def write(folder: Path, names: tuple[str, ...], text: str) -> Path:
    for name in names:
        (folder / name).write_text(text, encoding="utf-8")
    return folder


@pytest.mark.slow
def test_reviews_are_told_apart(
    bert: Bert, model: Path, tmp_path: Path
) -> None:
    things = ("饭店", "房间", "书", "这本书", "这家饭店")
    rows = [f"1\t{thing}很好，我喜欢。" for thing in things]
    rows += [f"0\t{thing}不好，我不喜欢。" for thing in things]
    text = "\n".join(["label\ttext_a", *rows]) + "\n"
    names = ("train.tsv", "dev.tsv", "test.tsv")
    folder = write(tmp_path, names, text)
    out = tmp_path / "out"
    done = bert(
        *("finetune", "classify", model, "--recipe", "chnsenticorp"),
        *("--data", folder, "--out", out, "--max-length", 32, *FAST),
    )
    assert done.returncode == 0, done.stderr
    assert "accuracy" in done.stdout
    found = bert("predict", out, "房间不好", "房间很好")
    labels = [json.loads(line)["label"] for line in found.stdout.splitlines()]
    assert labels == ["0", "1"]


@pytest.mark.slow
def test_entities_know_their_characters(
    bert: Bert, model: Path, tmp_path: Path
) -> None:
    sentences = [
        f"{name[0]} B-PER\n{name[1]} I-PER\n住 O\n在 O\n"
        f"{city[0]} B-LOC\n{city[1]} I-LOC\n， O\n"
        for name in NAMES
        for city in CITIES
    ]
    names = ("train.txt", "test.txt")
    folder = write(tmp_path, names, "\n".join(sentences))
    out = tmp_path / "out"
    done = bert(
        *("finetune", "tag", model, "--recipe", "msra", "--data", folder),
        *("--out", out, "--max-length", 32, *FAST),
    )
    assert done.returncode == 0, done.stderr
    text = "李四住在南京，"
    found = json.loads(bert("predict", out, text).stdout)
    assert [
        (one["type"], text[one["start"] : one["end"]])
        for one in found["entities"]
    ] == [("PER", "李四"), ("LOC", "南京")]


@pytest.mark.slow
def test_answers_are_judged_by_characters(
    bert: Bert, model: Path, tmp_path: Path
) -> None:
    paragraphs = []
    for number, name in enumerate(NAMES):
        context = f"{name}住在北京，来了上海。"
        answer = {"text": name, "answer_start": 0}
        question = {
            "id": f"q{number}",
            "question": "谁来了？",
            "answers": [answer],
        }
        paragraphs.append({"context": context, "qas": [question]})
    data = [{"title": "来", "paragraphs": paragraphs}]
    text = json.dumps({"version": "v1.0", "data": data}, ensure_ascii=False)
    folder = write(tmp_path, ("train.json", "dev.json"), text)
    out = tmp_path / "out"
    done = bert(
        *("finetune", "answer", model, "--recipe", "cmrc2018"),
        *("--data", folder, "--out", out, "--max-length", 40, *FAST),
        *("--max-question", 16, "--epochs", 60),
    )
    assert done.returncode == 0, done.stderr
    metrics = json.loads((out / "metrics.json").read_text())
    assert metrics["plan"]["options"]["character_f1"] is True
    assert metrics["scores"]["f1"] == 1.0
    found = bert("predict", out, "谁来了？", "王五住在北京，来了上海。")
    answer = json.loads(found.stdout)
    assert (answer["answer"], answer["start"], answer["end"]) == ("王五", 0, 2)
