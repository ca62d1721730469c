"""The task `answer`: from questions to windows and back to answers."""

import json
import logging
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from bert_from_scratch import (
    BertConfig,
    BertError,
    BertModel,
    WordPieceTokenizer,
)
from bert_from_scratch.data.batch import IGNORE_INDEX
from bert_from_scratch.data.tasks.examples import Answer, QuestionExample
from bert_from_scratch.finetune.answering import (
    AnsweringTask,
    AnswerPrediction,
)
from bert_from_scratch.finetune.qa_span import QuestionAnswerer
from bert_from_scratch.finetune.spans import Candidate

from .outputs import outputs_of

CONTEXTS = [
    "The baker Mira sells rye bread near the old bridge.",
    "A grey owl watched the harbour from a tall pine.",
    "In spring Tom painted four boats blue.",
    "米拉在桥边卖面包。",
]
QUESTIONS = [
    (0, "Who sells bread?", "Mira"),
    (0, "Where is bread sold?", "near the old bridge"),
    (1, "What did the owl watch?", "the harbour"),
    (1, "Where did it sit?", "a tall pine"),
    (2, "When was it?", "spring"),
    (2, "How many boats?", "four"),
    (3, "谁卖面包?", "米拉"),
    (3, "在哪里?", "桥边"),
]


def make_example(number: int) -> QuestionExample:
    which, question, answer = QUESTIONS[number]
    context = CONTEXTS[which]
    answers = (Answer(answer, context.index(answer)),)
    place = f"train.json, question {number}"
    return QuestionExample(
        f"q{number}", question, context, answers, place=place
    )


EXAMPLES = [make_example(number) for number in range(len(QUESTIONS))]
IMPOSSIBLE = QuestionExample(
    "no", "Who wept?", CONTEXTS[0], is_impossible=True, place="no answer"
)


@pytest.fixture(scope="module")
def tokenizer() -> WordPieceTokenizer:
    texts = [*CONTEXTS, *(question for _, question, _ in QUESTIONS)]
    return WordPieceTokenizer.train(texts, 400, min_count=1)


@pytest.fixture
def task(tokenizer: WordPieceTokenizer) -> AnsweringTask:
    # 窗口很短：较长的上下文必须跨窗口作答
    return AnsweringTask(tokenizer, max_length=18, stride=4, max_question=8)


@pytest.fixture
def encoder_dir(tmp_path: Path, tokenizer: WordPieceTokenizer) -> Path:
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=len(tokenizer),
        hidden_size=64,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=128,
        max_position_embeddings=32,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
        # 起始权重大一些：极小的模型否则要很久才分得清问题
        initializer_range=0.1,
    )
    BertModel(config).save_pretrained(tmp_path / "encoder")
    return tmp_path / "encoder"


def predicted(
    text: str, null_difference: float, null_score: float = 0.0
) -> AnswerPrediction:
    """A prediction with one span and "no answer" as its candidates."""
    span = Candidate(text, 4, 4 + len(text), null_score - null_difference)
    null = Candidate("", 0, 0, null_score)
    return AnswerPrediction(
        **span._asdict(),
        null_difference=null_difference,
        candidates=(span, null),
    )


def answer_all(
    task: AnsweringTask,
    model: QuestionAnswerer,
    examples: list[QuestionExample],
) -> list[AnswerPrediction]:
    items = task.items(examples)
    outputs = outputs_of(model, task.collate(items))
    return task.decode(examples, items, outputs)


def test_a_tiny_model_learns_eight_questions_by_heart(
    task: AnsweringTask, encoder_dir: Path, tmp_path: Path
) -> None:
    torch.manual_seed(0)
    model = task.new_model(encoder_dir)
    items = task.items(EXAMPLES)
    assert len(items) > len(EXAMPLES)
    batch = task.collate(items)
    optimizer = torch.optim.AdamW(model.parameters(), 3e-3)
    for _ in range(40):
        optimizer.zero_grad()
        model(batch).loss.backward()
        optimizer.step()
    assert isinstance(model, QuestionAnswerer)
    predictions = answer_all(task, model, EXAMPLES)
    assert [p.text for p in predictions] == [a for _, _, a in QUESTIONS]
    assert task.score(EXAMPLES, predictions) == {"exact_match": 1.0, "f1": 1.0}
    model.save_pretrained(tmp_path / "trained")
    loaded = task.load_model(tmp_path / "trained")
    assert isinstance(loaded, QuestionAnswerer)
    again = answer_all(task, loaded, EXAMPLES[::-1])
    assert [p.text for p in again[::-1]] == [p.text for p in predictions]


def test_an_encoder_alone_cannot_answer(
    task: AnsweringTask, encoder_dir: Path
) -> None:
    with pytest.raises(BertError, match="lacks 2 tensors"):
        task.load_model(encoder_dir)


def test_items_know_their_example_and_batches_their_labels(
    task: AnsweringTask,
) -> None:
    items = task.items([EXAMPLES[6], IMPOSSIBLE])
    assert items[0].labels == (7, 8)
    assert {item.labels for item in items if item.example == 1} == {(0, 0)}
    batch = task.collate(items)
    assert batch.start_positions is not None
    assert batch.end_positions is not None
    assert batch.start_positions.tolist() == [7] + [0] * (len(items) - 1)
    assert batch.end_positions.tolist() == [8] + [0] * (len(items) - 1)


def test_questions_that_cannot_be_learnt_are_counted_and_still_judged(
    task: AnsweringTask, caplog: pytest.LogCaptureFixture
) -> None:
    lost = replace(EXAMPLES[0], answers=(Answer("Nobody", -1),), place="dev, 7")
    with caplog.at_level(logging.WARNING):
        items = task.items([EXAMPLES[6], lost])
    assert "1 of 2 questions" in caplog.text
    assert "such as dev, 7" in caplog.text
    unlabelled = [item for item in items if item.example == 1]
    assert unlabelled
    assert all(item.labels is None for item in unlabelled)
    batch = task.collate(items)
    assert batch.start_positions is not None
    assert batch.start_positions.tolist() == [7] + [IGNORE_INDEX] * len(
        unlabelled
    )
    outputs = [
        np.zeros((len(item.sequences[0].input_ids), 2), np.float32)
        for item in items
    ]
    assert len(task.decode([EXAMPLES[6], lost], items, outputs)) == 2


def test_unlabelled_questions_are_encoded_without_a_warning(
    task: AnsweringTask, caplog: pytest.LogCaptureFixture
) -> None:
    bare = [replace(example, answers=()) for example in EXAMPLES]
    batch = task.collate(task.items(bare))
    assert batch.start_positions is None
    assert not caplog.records


def make_outputs(
    task: AnsweringTask, example: QuestionExample, answer: str, null: float
) -> AnswerPrediction:
    """Decodes scores that point at one answer, and at [CLS] a little."""
    start = example.context.index(answer)
    items = task.items([replace(example, answers=(Answer(answer, start),))])
    outputs = []
    for item in items:
        output = np.zeros((len(item.sequences[0].input_ids), 2), np.float32)
        output[0] = null / 2
        if item.labels and item.labels != (0, 0):
            output[item.labels[0], 0] = output[item.labels[1], 1] = 5
        outputs.append(output)
    return task.decode([example], items, outputs)[0]


def test_no_answer_wins_only_above_the_threshold(task: AnsweringTask) -> None:
    asked = EXAMPLES[0]
    with_null = replace(task, has_null=True)
    sure = make_outputs(with_null, asked, "Mira", null=4)
    assert (sure.text, sure.start, sure.end) == ("Mira", 10, 14)
    assert (sure.score, sure.null_difference) == (10, -6)
    unsure = make_outputs(with_null, asked, "Mira", null=12)
    assert (unsure.text, unsure.start, unsure.end) == ("", 0, 0)
    assert (unsure.score, unsure.null_difference) == (12, 2)
    assert unsure.candidates[0].text == ""
    at_threshold = replace(with_null, null_threshold=2.0)
    assert make_outputs(at_threshold, asked, "Mira", null=12).text == "Mira"
    without_null = make_outputs(task, asked, "Mira", null=12)
    assert without_null.text == "Mira"
    assert all(c.text for c in without_null.candidates)


def test_choosing_again_is_decoding_with_the_other_threshold(
    task: AnsweringTask,
) -> None:
    first = replace(task, has_null=True)
    second = replace(first, null_threshold=3.0)
    before = make_outputs(first, EXAMPLES[0], "Mira", null=12)
    after = make_outputs(second, EXAMPLES[0], "Mira", null=12)
    assert before != after
    assert second.choose_again([before]) == [after]
    assert first.choose_again([after]) == [before]


def test_without_spans_the_answer_is_empty(task: AnsweringTask) -> None:
    items = task.items([EXAMPLES[6]])
    output = np.full((len(items[0].sequences[0].input_ids), 2), -np.inf)
    output[0] = 1
    outputs = [output.astype(np.float32)]
    for one in (task, replace(task, has_null=True, null_threshold=9.0)):
        (found,) = one.decode([EXAMPLES[6]], items, outputs)
        assert (found.text, found.score, found.probability) == ("", 2, 1)
        json.dumps(one.describe(EXAMPLES[6], found), allow_nan=False)


def test_the_best_threshold_separates_what_can_be_answered(
    task: AnsweringTask,
) -> None:
    first = replace(task, has_null=True)
    examples = [EXAMPLES[0], EXAMPLES[4], IMPOSSIBLE]
    predictions = [
        predicted("Mira", -1.0),
        predicted("spring", 2.5),
        predicted("rye bread", 4.0),
    ]
    chosen = first.choose_again(predictions)
    assert [p.text for p in chosen] == ["Mira", "", ""]
    better = first.with_best_threshold(examples, chosen)
    assert better.null_threshold == 3.25
    again = better.choose_again(chosen)
    assert [p.text for p in again] == ["Mira", "spring", ""]
    assert better.score(examples, again)["f1"] == 1
    assert better.score(examples, chosen)["f1"] == pytest.approx(2 / 3)
    with pytest.raises(ValueError, match="has_null"):
        task.with_best_threshold(examples, chosen)


def test_scores_and_mistakes_are_words_or_characters(
    task: AnsweringTask,
) -> None:
    words = predicted("near the bridge", -1)
    # 去掉冠词后：near bridge 对 near old bridge
    assert task.mistake(EXAMPLES[1], words) == pytest.approx(1 - 0.8)
    assert task.mistake(EXAMPLES[1], predicted("blue", -1)) == 1
    assert task.mistake(IMPOSSIBLE, predicted("", -1)) == 0
    characters = replace(task, character_f1=True)
    part = predicted("在桥边", -1)
    assert characters.mistake(EXAMPLES[7], part) == pytest.approx(1 - 0.8)
    assert task.mistake(EXAMPLES[7], part) == 1


def test_questions_of_one_id_do_not_hide_each_other(
    task: AnsweringTask,
) -> None:
    examples = [EXAMPLES[0], replace(EXAMPLES[4], id="q0")]
    predictions = [predicted("Mira", -1), predicted("winter", -1)]
    assert task.score(examples, predictions)["f1"] == 0.5


def test_a_prediction_is_told_as_json(task: AnsweringTask) -> None:
    found = predicted("Mira", -1.0)
    told = task.describe(EXAMPLES[0], found)
    assert json.loads(json.dumps(told)) == told
    assert list(told) == [
        *("id", "question", "answer", "start", "end", "score"),
        *("probability", "n_best"),
    ]
    assert told["n_best"][0]["text"] == told["answer"] == "Mira"
    with_null = replace(task, has_null=True).describe(EXAMPLES[0], found)
    assert with_null["null_difference"] == -1.0


def test_settings_make_the_same_task(task: AnsweringTask) -> None:
    changed = replace(task, has_null=True, null_threshold=1.5, n_best=3)
    values = json.loads(json.dumps(changed.settings()))
    assert "tokenizer" not in values
    assert AnsweringTask.from_settings(task.tokenizer, values) == changed


def test_sizes_below_one_are_refused(tokenizer: WordPieceTokenizer) -> None:
    with pytest.raises(BertError, match=r"candidates \(0\)"):
        AnsweringTask(tokenizer, n_best=0)
    with pytest.raises(BertError, match=r"answer \(0 tokens\)"):
        AnsweringTask(tokenizer, max_answer=0)
