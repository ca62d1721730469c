"""Choices: encoded together, learnt, ranked."""

from dataclasses import replace
from pathlib import Path
from typing import cast

import numpy as np
import pytest
import torch

from bert_from_scratch import BertConfig, BertError, BertModel
from bert_from_scratch import WordPieceTokenizer as Tokenizer
from bert_from_scratch.data.tasks.examples import ChoiceExample
from bert_from_scratch.finetune.choosing import ChoicePrediction, ChoosingTask
from bert_from_scratch.finetune.inference import predict
from bert_from_scratch.finetune.multiple_choice import MultipleChoice

WORDS = ["she", "opens", "the", "door", "sea", "sings", "walks", "in", "out"]
TOKENIZER = Tokenizer(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS])
EXAMPLES = [
    ChoiceExample("she opens the door", ("sings", "walks in", "sea"), 1, "l1"),
    ChoiceExample("the sea", ("sings", "walks in", "opens the door"), 0, "l2"),
    ChoiceExample("she walks out", ("the sea", "door", "in"), 2, "l3"),
    ChoiceExample("she sings", ("the sea", "opens in", "out"), 0, "l4"),
]
TASK = ChoosingTask.for_data(TOKENIZER, EXAMPLES, [], max_length=16)


@pytest.fixture
def model(tmp_path: Path) -> MultipleChoice:
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
    return cast("MultipleChoice", TASK.new_model(tmp_path))


def test_a_choice_is_the_pair_of_prompt_and_choice() -> None:
    item = TASK.items(EXAMPLES)[0]
    expected = TOKENIZER.encode("she opens the door", "walks in")
    assert len(item.sequences) == 3
    assert list(item.sequences[1].input_ids) == expected.input_ids
    assert list(item.sequences[1].token_type_ids) == expected.token_type_ids
    assert item.labels == 1


def test_the_longer_of_prompt_and_choice_is_cut_first() -> None:
    task = ChoosingTask(TOKENIZER, 2, max_length=8)
    example = ChoiceExample("the sea " * 9, ("she", "walks in"))
    expected = TOKENIZER.encode("the sea " * 9, "walks in", 8)
    sequence = task.items([example])[0].sequences[1]
    assert list(sequence.input_ids) == expected.input_ids


def test_four_questions_are_learnt_by_heart(
    model: MultipleChoice, tmp_path: Path
) -> None:
    items = TASK.items(EXAMPLES)
    batch = TASK.collate(items)
    optimizer = torch.optim.Adam(model.parameters(), 1e-2)
    for _ in range(40):
        optimizer.zero_grad()
        model(batch).loss.backward()
        optimizer.step()
    model.save_pretrained(tmp_path / "trained")
    loaded = cast("MultipleChoice", TASK.load_model(tmp_path / "trained"))
    found = predict(TASK, loaded, EXAMPLES, torch.device("cpu"))
    assert [prediction.answer for prediction in found] == [1, 0, 2, 0]
    assert TASK.score(EXAMPLES, found) == {"accuracy": 1.0}


def test_questions_with_any_number_of_choices_can_be_asked(
    model: MultipleChoice,
) -> None:
    two = ChoiceExample("she", ("sings", "walks in"))
    four = ChoiceExample("the sea", ("sings", "in", "out", "opens the door"))
    task = replace(TASK, num_choices=None)
    found = predict(task, model, [two, EXAMPLES[0], four], torch.device("cpu"))
    assert [len(p.probabilities) for p in found] == [2, 3, 4]
    (alone,) = predict(task, model, [four], torch.device("cpu"))
    np.testing.assert_allclose(
        found[2].probabilities, alone.probabilities, atol=1e-5
    )
    assert sum(found[2].probabilities) == pytest.approx(1)


def test_another_number_of_choices_is_refused_with_its_place() -> None:
    odd = ChoiceExample("the sea", ("sings", "opens"), 0, "dev.csv, line 8")
    with pytest.raises(BertError, match=r"dev\.csv, line 8: 2 choices, but 3"):
        ChoosingTask.for_data(TOKENIZER, EXAMPLES, [odd])
    with pytest.raises(BertError, match=r"dev\.csv, line 8"):
        TASK.check([*EXAMPLES, odd])


@pytest.mark.parametrize("answer", [None, 3, -1])
def test_a_wrong_answer_is_refused_with_its_place(answer: int | None) -> None:
    wrong = ChoiceExample("she", ("sings", "in", "out"), answer, "line 5")
    with pytest.raises(BertError, match="line 5: ") as caught:
        ChoosingTask.for_data(TOKENIZER, [*EXAMPLES, wrong], [])
    assert caught.value.hint


def test_no_data_and_no_choice_are_refused() -> None:
    with pytest.raises(BertError, match="no examples"):
        ChoosingTask.for_data(TOKENIZER, [], [])
    single = ChoiceExample("she", ("sings",), 0, "line 1")
    with pytest.raises(BertError, match="line 1: there is nothing to choose"):
        ChoosingTask.for_data(TOKENIZER, [single], [])


def test_questions_without_answers_can_be_asked() -> None:
    bare = ChoiceExample("she", ("sings", "in", "out"))
    batch = TASK.collate(TASK.items([bare, EXAMPLES[0]]))
    assert batch.labels is None


def test_a_prediction_is_ranked_described_and_judged() -> None:
    scores = np.log(np.array([0.2, 0.1, 0.7], np.float32))
    (found,) = TASK.decode(EXAMPLES[:1], [], [scores])
    assert found.ranking == (2, 0, 1)
    assert found.probabilities == pytest.approx((0.2, 0.1, 0.7))
    told = TASK.describe(EXAMPLES[0], found)
    assert told["prompt"] == "she opens the door"
    assert (told["answer"], told["choice"]) == (2, "sea")
    assert [row["choice"] for row in told["ranking"]] == [
        "sea",
        "sings",
        "walks in",
    ]
    assert told["ranking"][0]["number"] == 2
    assert told["ranking"][0]["probability"] == pytest.approx(0.7)
    assert TASK.mistake(EXAMPLES[0], found) == pytest.approx(0.9)
    assert TASK.mistake(EXAMPLES[0], ChoicePrediction((0.3, 0.4, 0.3))) == 0


def test_settings_make_the_same_task() -> None:
    assert ChoosingTask.from_settings(TOKENIZER, TASK.settings()) == TASK
