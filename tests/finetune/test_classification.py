import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from torch import nn

from bert_from_scratch import BertConfig, BertError, WordPieceTokenizer
from bert_from_scratch.data.tasks.examples import TextExample
from bert_from_scratch.finetune.classification import ClassificationTask
from bert_from_scratch.finetune.inference import predict
from bert_from_scratch.finetune.sequence_classifier import SequenceClassifier

CPU = torch.device("cpu")
TEXTS = ("the film was good .", "the room was cold .", "the day was warm .")


def make_examples(labels: Sequence[str]) -> list[TextExample]:
    return [
        TextExample(text, labels=tuple(label.split("|")), place=f"line {n}")
        for n, (text, label) in enumerate(zip(TEXTS, labels, strict=True), 1)
    ]


def make_task(tiny_bert: Path, **settings: Any) -> ClassificationTask:
    examples = make_examples(("good", "bad", "good"))
    tokenizer = WordPieceTokenizer.load(tiny_bert)
    return ClassificationTask.for_data(tokenizer, examples, [], **settings)


def test_labels_are_found_in_order(tiny_bert: Path) -> None:
    assert make_task(tiny_bert).labels == ("bad", "good")


def test_numbers_as_labels_are_in_the_order_of_numbers(tiny_bert: Path) -> None:
    tokenizer = WordPieceTokenizer.load(tiny_bert)
    examples = make_examples(("10", "2", "-1"))
    task = ClassificationTask.for_data(tokenizer, examples, [])
    assert task.labels == ("-1", "2", "10")


def test_a_label_that_train_lacks_is_named_with_its_place(
    tiny_bert: Path,
) -> None:
    tokenizer = WordPieceTokenizer.load(tiny_bert)
    train = make_examples(("good", "bad", "good"))
    dev = make_examples(("good", "ugly", "bad"))
    with pytest.raises(BertError, match="line 2: the label 'ugly'"):
        ClassificationTask.for_data(tokenizer, train, dev)


def test_one_class_is_refused(tiny_bert: Path) -> None:
    tokenizer = WordPieceTokenizer.load(tiny_bert)
    with pytest.raises(BertError, match="one class only: 'good'"):
        ClassificationTask.for_data(tokenizer, make_examples(("good",) * 3), [])


def test_two_labels_need_multi_label(tiny_bert: Path) -> None:
    tokenizer = WordPieceTokenizer.load(tiny_bert)
    examples = make_examples(("good", "bad|good", "bad"))
    with pytest.raises(BertError, match="line 2") as error:
        ClassificationTask.for_data(tokenizer, examples, [])
    assert "--multi-label" in str(error.value.hint)


def test_uniform_scores_cost_the_log_of_the_number_of_classes(
    tiny_bert: Path,
) -> None:
    task = make_task(tiny_bert)
    model = task.new_model(tiny_bert).eval()
    assert isinstance(model, SequenceClassifier)
    nn.init.zeros_(model.classifier.weight)
    items = task.items(make_examples(("good", "bad", "good")))
    loss = model(task.collate(items)).loss
    assert loss.item() == pytest.approx(math.log(2))


@pytest.mark.parametrize("weights", [None, (0.5, 2.0)])
def test_loss_and_gradients_are_those_of_transformers(
    tiny_bert: Path, tmp_path: Path, weights: tuple[float, ...] | None
) -> None:
    task = make_task(tiny_bert, class_weights=weights)
    torch.manual_seed(0)
    model = task.new_model(tiny_bert).eval()
    assert isinstance(model, SequenceClassifier)
    model.save_pretrained(tmp_path / "model")
    peer = transformers.AutoModelForSequenceClassification.from_pretrained(
        tmp_path / "model"
    ).eval()
    examples = make_examples(("good", "bad", "good"))
    texts = [example.text for example in examples]
    encodings = task.tokenizer.encode_batch(texts)
    ids = torch.tensor([encoding.input_ids for encoding in encodings])
    logits = peer(input_ids=ids).logits
    labels = torch.tensor([1, 0, 1])
    weight = None if weights is None else torch.tensor(weights)
    expected = nn.functional.cross_entropy(logits, labels, weight)
    expected.backward()
    loss = model(task.collate(task.items(examples))).loss
    loss.backward()
    torch.testing.assert_close(loss, expected, atol=1e-6, rtol=1e-5)
    assert model.classifier.weight.grad is not None
    torch.testing.assert_close(
        model.classifier.weight.grad, peer.classifier.weight.grad
    )
    torch.testing.assert_close(
        model.bert.embedding.token.weight.grad,
        peer.bert.embeddings.word_embeddings.weight.grad,
        atol=1e-6,
        rtol=1e-4,
    )


def test_transformers_reads_labels_and_writes_back(
    tiny_bert: Path, tmp_path: Path
) -> None:
    model = make_task(tiny_bert).new_model(tiny_bert)
    assert isinstance(model, SequenceClassifier)
    model.save_pretrained(tmp_path / "ours")
    peer, info = (
        transformers.AutoModelForSequenceClassification.from_pretrained(
            tmp_path / "ours", output_loading_info=True
        )
    )
    assert not info["missing_keys"]
    assert not info["unexpected_keys"]
    assert peer.config.id2label == {0: "bad", 1: "good"}
    peer.save_pretrained(tmp_path / "theirs")
    again = SequenceClassifier.from_pretrained(tmp_path / "theirs")
    assert again.labels == ("bad", "good")
    assert torch.equal(again.classifier.weight, model.classifier.weight)


def test_several_labels_at_once(tiny_bert: Path) -> None:
    tokenizer = WordPieceTokenizer.load(tiny_bert)
    examples = make_examples(("good", "good|warm", "bad"))
    task = ClassificationTask.for_data(
        tokenizer, examples, [], is_multi_label=True, metric="f1_micro"
    )
    batch = task.collate(task.items(examples))
    assert batch.labels is not None
    # bad, good, warm
    assert batch.labels.tolist() == [[0, 1, 0], [0, 1, 1], [1, 0, 0]]
    model = task.new_model(tiny_bert)
    fit(model, task, examples)
    found = predict(task, model, examples, CPU)
    assert [set(p.labels) for p in found] == [
        {"good"},
        {"good", "warm"},
        {"bad"},
    ]
    assert task.score(examples, found)["f1_micro"] == 1


def fit(
    model: nn.Module,
    task: ClassificationTask,
    examples: Sequence[TextExample],
    steps: int = 150,
) -> None:
    optimizer = torch.optim.AdamW(model.parameters(), 3e-3)
    batch = task.collate(task.items(examples))
    model.eval()
    for _ in range(steps):
        optimizer.zero_grad()
        model(batch).loss.backward()
        optimizer.step()


def test_it_learns_three_texts_by_heart(tiny_bert: Path) -> None:
    task = make_task(tiny_bert)
    torch.manual_seed(0)
    model = task.new_model(tiny_bert)
    examples = make_examples(("good", "bad", "good"))
    fit(model, task, examples)
    found = predict(task, model, examples, CPU)
    assert [p.labels for p in found] == [("good",), ("bad",), ("good",)]
    assert all(sum(p.probabilities) == pytest.approx(1) for p in found)
    assert [
        task.mistake(e, p) for e, p in zip(examples, found, strict=True)
    ] == [0] * 3


def test_a_wrong_label_is_the_worse_the_surer_it_is(tiny_bert: Path) -> None:
    task = make_task(tiny_bert)
    example = make_examples(("good", "bad", "good"))[0]
    sure = task._decode(torch.tensor([4.0, 0.0]).numpy())
    unsure = task._decode(torch.tensor([0.1, 0.0]).numpy())
    assert task.mistake(example, sure) > task.mistake(example, unsure) > 0.5


def test_neighbours_in_a_batch_do_not_matter(tiny_bert: Path) -> None:
    task = make_task(tiny_bert)
    model = task.new_model(tiny_bert)
    examples = make_examples(("good", "bad", "good"))
    together = predict(task, model, examples, CPU)
    alone = [predict(task, model, [e], CPU)[0] for e in examples]
    for one, other in zip(together, alone, strict=True):
        assert one.probabilities == pytest.approx(other.probabilities)


def test_balanced_weights_make_classes_count_the_same(tiny_bert: Path) -> None:
    examples = make_examples(("good", "bad", "good"))
    task = make_task(tiny_bert).with_balanced_classes(examples)
    # bad once, good twice, of three in two classes
    assert task.class_weights == pytest.approx((1.5, 0.75))


def test_a_regression_head_of_transformers_is_read_as_one(
    tmp_path: Path,
) -> None:
    config = BertConfig.preset("tiny", vocab_size=30)
    model = SequenceClassifier(config, ["LABEL_0"], "regression")
    model.save_pretrained(tmp_path / "model")
    again = SequenceClassifier.from_pretrained(tmp_path / "model")
    assert again.problem == "regression"
