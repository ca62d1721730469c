"""Tags: found, given to first sub-tokens, learnt, and read back."""

import itertools
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import torch

from bert_from_scratch import BertConfig, BertError, BertModel
from bert_from_scratch import WordPieceTokenizer as Tokenizer
from bert_from_scratch.data.batch import IGNORE_INDEX
from bert_from_scratch.data.tasks.examples import TagExample
from bert_from_scratch.finetune.feature_tagger import FeatureTagger
from bert_from_scratch.finetune.items import Item
from bert_from_scratch.finetune.tagging import (
    TaggingTask,
    TagPrediction,
    example_of_text,
)
from bert_from_scratch.finetune.task import Output
from bert_from_scratch.finetune.token_classifier import TokenClassifier
from bert_from_scratch.tokenizer.engine import TextRules

from .outputs import outputs_of

TOKENS = [
    *("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"),
    *("ada", "##lin", "max", "met", "in", "york", "new", "snow", ".", "'"),
    *("cafe", "he", "##llo", "我", "爱", "北", "京"),
]
TOKENIZER = Tokenizer(TOKENS)
EXAMPLES = [
    TagExample(
        ("Adalin", "met", "Max", "."),
        ("B-PER", "O", "B-PER", "O"),
        1,
        "n.txt, line 2",
    ),
    TagExample(
        ("Max", "in", "New", "York"),
        ("B-PER", "O", "B-LOC", "I-LOC"),
        1,
        "n.txt, line 7",
    ),
    TagExample(("new", "snow"), ("O", "O"), 2, "n.txt, line 13"),
]
TASK = TaggingTask.for_data(
    TOKENIZER, EXAMPLES, [], max_length=16, document_context=False
)


@pytest.fixture
def encoder_dir(tmp_path: Path) -> Path:
    torch.manual_seed(0)
    config = BertConfig.preset(
        "tiny",
        vocab_size=len(TOKENS),
        hidden_size=32,
        initializer_range=0.2,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )
    BertModel(config).save_pretrained(tmp_path / "encoder")
    return tmp_path / "encoder"


def perfect_outputs(task: TaggingTask, items: list[Item]) -> list[Output]:
    """What a model that knows the labels would say; elsewhere, nonsense."""
    outputs = []
    for item in items:
        window = cast("Any", item.sequences[0])
        scores = np.full((len(window.input_ids), len(task.labels)), 5.0)
        scores[window.positions] = 0
        scores[window.positions, item.labels] = 5
        outputs.append(scores.astype(np.float32))
    return outputs


def test_tags_are_found_in_order() -> None:
    assert TASK.labels == ("B-LOC", "B-PER", "I-LOC", "O")
    assert TASK.metric == "entity_f1"


def test_an_unknown_tag_is_refused_with_its_place() -> None:
    strange = TagExample(("Max",), ("B-ORG",), 0, "dev.txt, line 4")
    with pytest.raises(BertError, match=r"dev\.txt, line 4.*'B-ORG'"):
        TaggingTask.for_data(TOKENIZER, EXAMPLES, [strange])
    with pytest.raises(BertError, match=r"dev\.txt, line 4.*'B-ORG'"):
        TASK.items([strange])


def test_missing_tags_are_refused_with_their_place() -> None:
    bare = TagExample(("Max",), place="n.txt, line 20")
    with pytest.raises(BertError, match=r"n\.txt, line 20: there are no tags"):
        TaggingTask.for_data(TOKENIZER, [*EXAMPLES, bare], [])


def test_every_inside_has_its_beginning() -> None:
    example = TagExample(("new", "york"), ("O", "I-LOC"))
    task = TaggingTask.for_data(TOKENIZER, [example], [])
    assert task.labels == ("B-LOC", "I-LOC", "O")
    task = task.with_balanced_classes([example])
    assert task.class_weights == pytest.approx((2 / 3, 2 / 3, 2 / 3))


def test_first_tokens_alone_carry_labels() -> None:
    batch = TASK.collate(TASK.items(EXAMPLES))
    assert batch.labels is not None
    assert batch.word_starts is not None
    no = IGNORE_INDEX
    assert batch.labels.tolist() == [
        *(no, 1, no, 3, 1, 3, no),
        *(no, 1, 3, 0, 2, no),
        *(no, 3, 3, no),
    ]
    assert torch.equal(batch.word_starts, batch.labels != no)
    bare = replace(EXAMPLES[0], tags=None)
    unlabelled = TASK.collate(TASK.items([bare, *EXAMPLES[1:]]))
    assert unlabelled.labels is None
    assert unlabelled.word_starts is not None
    assert torch.equal(unlabelled.word_starts, batch.word_starts)


def test_context_never_crosses_documents() -> None:
    task = replace(TASK, document_context=True)
    items = task.items(EXAMPLES)
    words = [
        [TOKENS[number] for number in item.sequences[0].input_ids]
        for item in items
    ]
    assert words[0][1:6] == ["ada", "##lin", "met", "max", "."]
    assert words[0] == words[1]
    assert words[2] == ["[CLS]", "new", "snow", "[SEP]"]
    batch = task.collate(items)
    assert batch.labels is not None
    num_words = sum(len(example.words) for example in EXAMPLES)
    assert int((batch.labels != IGNORE_INDEX).sum()) == num_words


@pytest.mark.parametrize("context", [False, True])
@pytest.mark.parametrize("max_length", [8, 16])
def test_right_scores_give_the_right_tags(
    context: bool, max_length: int
) -> None:
    task = replace(TASK, document_context=context, max_length=max_length)
    long = TagExample(
        EXAMPLES[0].words * 5 + ("\x00",) + EXAMPLES[1].words,
        (EXAMPLES[0].tags or ()) * 5 + ("O",) + (EXAMPLES[1].tags or ()),
        2,
    )
    examples = [*EXAMPLES, long, TagExample((), (), 3)]
    items = task.items(examples)
    assert len(items) > len(examples)
    found = task.decode(examples, items, perfect_outputs(task, items))
    assert [p.tags for p in found] == [e.tags for e in examples]
    scores = task.score(examples, found)
    assert scores["entity_f1"] == scores["accuracy"] == 1


def test_a_word_without_tokens_is_outside_and_shifts_nothing() -> None:
    example = TagExample(("\x00", "Max", "\u200d"), ("O", "B-PER", "O"))
    items = TASK.items([example])
    (found,) = TASK.decode([example], items, perfect_outputs(TASK, items))
    assert found.tags == ("O", "B-PER", "O")
    assert found.probabilities[0] == found.probabilities[2] == 1
    assert 0.9 < found.probabilities[1] < 1


@pytest.mark.parametrize("features", [None, "weighted-sum"])
def test_three_sentences_are_learnt_by_heart(
    encoder_dir: Path, features: str | None
) -> None:
    task = replace(TASK, features=features)
    torch.manual_seed(1)
    model = cast("Any", task.new_model(encoder_dir))
    items = task.items(EXAMPLES)
    batch = task.collate(items)
    optimizer = torch.optim.Adam(
        [p for p in model.parameters() if p.requires_grad], 1e-2
    )
    for _ in range(40):
        optimizer.zero_grad()
        model(batch).loss.backward()
        optimizer.step()
    model.save_pretrained(encoder_dir.parent / "trained")
    values = task.settings()
    again = TaggingTask.from_settings(TOKENIZER, values)
    loaded = cast("Any", again.load_model(encoder_dir.parent / "trained"))
    is_frozen = features is not None
    assert isinstance(loaded, FeatureTagger if is_frozen else TokenClassifier)
    bare = [replace(example, tags=None) for example in EXAMPLES]
    items = again.items(bare)
    found = again.decode(bare, items, outputs_of(loaded, again.collate(items)))
    assert [p.tags for p in found] == [e.tags for e in EXAMPLES]


def test_parts_of_speech_are_scored_by_words() -> None:
    example = TagExample(("Max", "met"), ("NOUN", "VERB"))
    task = TaggingTask.for_data(TOKENIZER, [example], [])
    assert task.metric == "accuracy"
    found = TagPrediction(("NOUN", "NOUN"), (0.9, 0.8))
    assert task.score([example], [found]) == {"accuracy": 0.5}
    assert task.describe(example, found)["entities"] == []


def test_a_mistake_is_as_bad_as_its_surest_wrong_tag() -> None:
    found = TagPrediction(("O", "O", "B-LOC", "O"), (0.7, 0.99, 0.8, 0.9))
    assert TASK.mistake(EXAMPLES[0], found) == 0.8
    right = TagPrediction(EXAMPLES[0].tags or (), (0.9,) * 4)
    assert TASK.mistake(EXAMPLES[0], right) == 0


def test_free_text_knows_where_its_words_stand() -> None:
    text = " Adalin's  café, 我爱北京hello "
    example, spans = example_of_text(TOKENIZER, text, document=5)
    assert example.words == (
        *("Adalin", "'", "s", "café", ","),
        *("我", "爱", "北", "京", "hello"),
    )
    assert tuple(text[start:end] for start, end in spans) == example.words
    assert example.document == 5
    assert example.tags is None


@pytest.mark.parametrize("lowercase", [True, False])
def test_the_words_of_a_text_have_the_tokens_of_the_text(
    lowercase: bool,
) -> None:
    tokenizer = Tokenizer(TOKENS, TextRules(lowercase))
    task = replace(TASK, tokenizer=tokenizer, max_length=64)
    random = np.random.default_rng(0)
    letters = list("aAdé'我京. \n\x00\u200d\u0301\u0301.İß👍🏽max[SEP]")
    for _ in range(300):
        text = "".join(random.choice(letters, random.integers(0, 20)))
        example, spans = example_of_text(tokenizer, text)
        (item,) = task.items([example])
        expected = tokenizer.encode(text, specials_are_text=True)
        assert list(item.sequences[0].input_ids) == expected.input_ids
        assert all(a[1] <= b[0] for a, b in itertools.pairwise(spans))


def test_a_long_free_text_is_no_error() -> None:
    example, _ = example_of_text(TOKENIZER, "max met ada. " * 500)
    assert len(example.words) == 2000


def test_entities_of_free_text_have_its_offsets() -> None:
    text = "Max  in\nNew   York"
    example, spans = example_of_text(TOKENIZER, text)
    found = TagPrediction(EXAMPLES[1].tags or (), (0.9, 0.9, 0.8, 0.7))
    told = TASK.describe(example, found, text, spans)
    assert [e["text"] for e in told["entities"]] == ["Max", "New   York"]
    assert told["entities"][1]["start"] == 8
    joined = TASK.describe(example, found)
    assert joined["text"] == "Max in New York"
    assert joined["entities"][1]["text"] == "New York"
    assert joined["words"] == ["Max", "in", "New", "York"]
    assert joined["tags"] == list(found.tags)


def test_files_with_documents_are_read_with_their_context() -> None:
    assert any(example.document for example in EXAMPLES)
    found = TaggingTask.for_data(TOKENIZER, EXAMPLES, [])
    assert found.document_context
    alone = [replace(example, document=0) for example in EXAMPLES]
    assert not TaggingTask.for_data(TOKENIZER, alone, []).document_context
