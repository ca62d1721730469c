"""Numbers of the cards that the project itself knows agree with its code."""

import math

import pytest
import torch

from bert_from_scratch.config import BertConfig
from bert_from_scratch.data.masking import MaskingRule
from bert_from_scratch.data.phases import read_phases
from bert_from_scratch.data.tasks.glue import GLUE
from bert_from_scratch.data.tasks.glue import RATES as GLUE_RATES
from bert_from_scratch.data.tasks.known_tasks import RATES
from bert_from_scratch.data.tasks.recipes import RECIPES
from bert_from_scratch.learn.cards.content import load_parts
from bert_from_scratch.learn.cards.quiz import right_option
from bert_from_scratch.model import BertModel
from bert_from_scratch.objectives.mlm import MaskedLMLoss
from bert_from_scratch.train.budget import MAX_WARMUP_STEPS
from bert_from_scratch.train.settings import TrainingSettings

CARDS = {card.id: card for part in load_parts() for card in part.cards}
RIGHT = {
    question.id: right_option(question)
    for part in load_parts()
    for question in part.questions
}
RULE = MaskingRule(4, (0, 1, 2, 3, 4), 30522)
BASE, LARGE = BertConfig.preset("base"), BertConfig.preset("large")


def assert_says(name: str, *facts: str) -> None:
    """A card or a right option says the facts in both languages."""
    text = CARDS[name].back if name in CARDS else RIGHT[name].text
    for fact in facts:
        assert fact in text.en, name
        assert fact in text.zh, name


def count_parameters(config: BertConfig) -> int:
    """Counts by the formula of the architecture, matrix by matrix."""
    width, inner = config.hidden_size, config.intermediate_size
    norm = 2 * width
    rows = config.vocab_size + config.max_position_embeddings
    embeddings = (rows + config.type_vocab_size) * width + norm
    attention = 4 * (width * width + width) + norm
    feed_forward = 2 * width * inner + inner + width + norm
    block = attention + feed_forward
    pooler = width * width + width
    return embeddings + config.num_hidden_layers * block + pooler


def shown(rate: float) -> str:
    """Writes a learning rate as the paper does, such as 5e-5."""
    return f"{rate:.0e}".replace("e-0", "e-")


@pytest.mark.parametrize(
    ("config", "name", "exact"),
    [(BASE, "B01", 109_482_240), (LARGE, "B02", 335_141_888)],
)
def test_sizes_and_parameters_of_base_and_large(
    config: BertConfig, name: str, exact: int
) -> None:
    with torch.device("meta"):
        model = BertModel(config)
    counted = sum(parameter.numel() for parameter in model.parameters())
    assert counted == count_parameters(config) == exact
    # 论文的 110M 与 340M 是四舍五入到千万
    millions = 10 * math.floor(exact / 10e6 + 0.5)
    sizes = f"L = {config.num_hidden_layers} "
    assert_says(name, sizes, f"H = {config.hidden_size} ", f"{millions}M")
    assert_says(name, f"A = {config.num_attention_heads} ")


def test_large_is_the_right_answer_on_large() -> None:
    assert_says("B-Q1", f"L = {LARGE.num_hidden_layers}", "340M")
    assert_says("B-Q1", f"H = {LARGE.hidden_size}")
    assert_says("B-Q1", f"A = {LARGE.num_attention_heads}")


def test_widths_of_feed_forward_networks_and_heads() -> None:
    assert BASE.intermediate_size == 4 * BASE.hidden_size
    assert_says("B03", str(BASE.intermediate_size))
    assert_says("B03", str(LARGE.intermediate_size))
    assert_says("B-Q4", str(LARGE.intermediate_size))
    assert BASE.head_size == LARGE.head_size
    assert_says("B-Q8", f"H / A = {BASE.head_size}")


def test_size_of_the_released_vocabulary() -> None:
    assert_says("B07", f"{BASE.vocab_size:,}")


def test_shares_of_masking() -> None:
    kept = 1 - RULE.mask_share - RULE.random_share
    hidden = f"{RULE.mask_rate:.0%}".replace("%", " %")
    assert_says("C01", hidden)
    assert_says("C12", f"{100 * RULE.mask_rate * RULE.random_share:.1f} %")
    assert_says("C-Q4", f"{100 * RULE.mask_rate * RULE.random_share:.1f} %")
    assert kept == pytest.approx(RULE.random_share)
    for name in ("C02", "C-Q1", "F01"):
        assert_says(name, f"{RULE.mask_share:.0%}".replace("%", " %"))
        assert_says(name, f"{RULE.random_share:.0%}".replace("%", " %"))


def test_loss_of_a_model_that_knows_nothing() -> None:
    logits = torch.zeros(1, 3, BASE.vocab_size)
    part = MaskedLMLoss()(logits, torch.tensor([[5, 6, 7]]))
    loss = float(part.total) / float(part.count)
    assert loss == pytest.approx(math.log(BASE.vocab_size), abs=1e-4)
    assert_says("C07", f"{BASE.vocab_size:,}", f"{loss:.2f}")
    assert_says("C-Q8", f"{loss:.2f}", f"{math.log(2):.2f}")


def test_the_wrong_losses_are_what_their_explanations_say() -> None:
    (question,) = (
        q for part in load_parts() for q in part.questions if q.id == "C-Q8"
    )
    size = BASE.vocab_size
    wrong = {
        "to base 10": (math.log10(size), math.log10(2)),
        "15 %": (RULE.mask_rate * math.log(size), math.log(2)),
        "to base 2": (math.log2(size), 1.0),
    }
    for reason, (mlm, nsp) in wrong.items():
        (option,) = (o for o in question.options if reason in o.why.en)
        for text in (option.text.en, option.text.zh):
            assert f"{mlm:.2f}" in text
            assert f"{nsp:.2f}" in text


def test_settings_of_fine_tuning() -> None:
    glue = GLUE[0]
    rates = [shown(rate) for rate in GLUE_RATES]
    assert_says("D02", str(glue.batch_size), str(glue.epochs), *rates)
    why = RIGHT["D-Q6"].why
    assert all(rate in why.en and rate in why.zh for rate in rates)
    for name, recipe in (("D07", "squad"), ("D09", "squad2"), ("D10", "swag")):
        settings = RECIPES[recipe]
        assert_says(name, shown(settings.learning_rate))
        assert_says(name, f"{settings.epochs} ", f"{settings.batch_size}")
    assert_says("F08", *map(shown, RATES))


def test_weights_of_a_classifier_of_three_labels() -> None:
    assert_says("D-Q1", f"{3 * BASE.hidden_size:,}")


def test_settings_of_pre_training() -> None:
    settings = TrainingSettings(steps=1)
    first, second = settings.betas
    assert_says("F04", shown(settings.learning_rate), f"β1 = {first}")
    assert_says("F04", f"β2 = {second}", str(settings.weight_decay))
    assert_says("F04", f"{MAX_WARMUP_STEPS:,}")
    assert_says("F-Q1", f"{MAX_WARMUP_STEPS:,}", shown(settings.learning_rate))
    assert_says("F05", str(BASE.hidden_dropout_prob), "GELU")
    assert BASE.hidden_act == "gelu"
    assert_says("F03", f"{256 * BASE.max_position_embeddings:,}")


def test_phases_of_pre_training() -> None:
    for phase in read_phases("128:0.9,512:0.1"):
        assert_says("F07", str(phase.max_length), f"{100 * phase.share:.0f} %")
