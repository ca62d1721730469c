"""Numbers for texts: read with care, learnt, and scored."""

from pathlib import Path
from typing import cast

import numpy as np
import pytest
import torch

from bert_from_scratch import BertConfig, BertError, BertModel
from bert_from_scratch import WordPieceTokenizer as Tokenizer
from bert_from_scratch.data.tasks.examples import TextExample
from bert_from_scratch.finetune.regression import RegressionTask
from bert_from_scratch.finetune.sequence_classifier import SequenceClassifier

from .outputs import outputs_of

WORDS = ["cold", "cool", "warm", "hot", "tea", "is", "the"]
TOKENIZER = Tokenizer(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS])
TASK = RegressionTask(TOKENIZER, max_length=16)
EXAMPLES = [
    TextExample("the tea is cold", "hot", ("0.5",), "heat.tsv, line 1"),
    TextExample("the tea is cool", "warm", ("1.5",), "heat.tsv, line 2"),
    TextExample("the tea is warm", "tea", ("-2",), "heat.tsv, line 3"),
    TextExample("the tea is hot", "cool", ("4e0",), "heat.tsv, line 4"),
]


@pytest.fixture
def model(tmp_path: Path) -> SequenceClassifier:
    torch.manual_seed(0)
    config = BertConfig.preset(
        "tiny",
        vocab_size=len(TOKENIZER),
        hidden_size=32,
        num_hidden_layers=1,
        initializer_range=0.2,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )
    BertModel(config).save_pretrained(tmp_path)
    return cast("SequenceClassifier", TASK.new_model(tmp_path))


def test_four_numbers_are_learnt_by_heart(
    model: SequenceClassifier, tmp_path: Path
) -> None:
    items = TASK.items(EXAMPLES)
    batch = TASK.collate(items)
    assert batch.labels is not None
    assert batch.labels.tolist() == [0.5, 1.5, -2, 4]
    optimizer = torch.optim.Adam(model.parameters(), 1e-2)
    for _ in range(120):
        optimizer.zero_grad()
        model(batch).loss.backward()
        optimizer.step()
    model.save_pretrained(tmp_path / "trained")
    loaded = cast("SequenceClassifier", TASK.load_model(tmp_path / "trained"))
    assert loaded.problem == "regression"
    with torch.no_grad():
        found = TASK.decode(EXAMPLES, items, outputs_of(loaded, batch))
    assert found == pytest.approx([0.5, 1.5, -2, 4], abs=0.1)
    scores = TASK.score(EXAMPLES, found)
    assert scores[TASK.metric] == pytest.approx(1)


@pytest.mark.parametrize("label", ["warm", "nan", "inf", ""])
def test_what_is_no_number_is_refused_with_its_place(label: str) -> None:
    wrong = TextExample("the tea", None, (label,), "heat.tsv, line 9")
    with pytest.raises(BertError, match=r"line 9.*not a finite number"):
        RegressionTask.for_data(TOKENIZER, EXAMPLES, [wrong])


def test_training_without_numbers_is_refused() -> None:
    bare = TextExample("the tea", place="heat.tsv, line 7")
    with pytest.raises(BertError, match="line 7: one number") as caught:
        RegressionTask.for_data(TOKENIZER, [bare], [])
    assert caught.value.hint
    assert TASK.collate(TASK.items([bare])).labels is None
    two = TextExample("the tea", labels=("1", "2"), place="line 8")
    with pytest.raises(BertError, match="line 8: one number"):
        RegressionTask.for_data(TOKENIZER, [two], [])


def test_a_prediction_is_described_and_judged() -> None:
    (found,) = TASK.decode([], [], [np.array([1.0], np.float32)])
    told = TASK.describe(EXAMPLES[0], found)
    assert told == {"text": "the tea is cold", "pair": "hot", "score": 1.0}
    assert TASK.mistake(EXAMPLES[0], found) == 0.5
    assert TASK.mistake(EXAMPLES[1], found) == 0.5
    assert "pair" not in TASK.describe(TextExample("tea"), found)


def test_settings_make_the_same_task() -> None:
    again = RegressionTask.from_settings(TOKENIZER, TASK.settings())
    assert again == TASK
