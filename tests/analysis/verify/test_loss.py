"""A loss that counts other positions than the labelled ones is found."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from bert_from_scratch.analysis.verify.loss import LOSS_AT_LABELS
from bert_from_scratch.analysis.verify.subject import Subject
from bert_from_scratch.analysis.verify.suite import run_check
from bert_from_scratch.data.batch import IGNORE_INDEX
from bert_from_scratch.model.layout import Layout
from bert_from_scratch.objectives import MaskedLMLoss, Part

from .conftest import judge


class LossOverAllSlots(MaskedLMLoss):
    """Divides by the number of positions, labelled or not."""

    def forward(
        self, logits: Tensor, mlm_labels: Tensor, num_words: int | None = None
    ) -> Part:
        part = super().forward(logits, mlm_labels)
        return Part(part.total, torch.tensor(len(mlm_labels)), part.correct)


class LossAtPadding(MaskedLMLoss):
    """Reads a position without a label as one labelled 0, which is [PAD]."""

    def forward(
        self, logits: Tensor, mlm_labels: Tensor, num_words: int | None = None
    ) -> Part:
        return super().forward(logits, mlm_labels.clamp(min=0))


class SmoothedLoss(MaskedLMLoss):
    """Gives every other WordPiece a little of the probability."""

    def forward(
        self, logits: Tensor, mlm_labels: Tensor, num_words: int | None = None
    ) -> Part:
        total = F.cross_entropy(
            logits, mlm_labels, reduction="sum", label_smoothing=1e-4
        )
        part = super().forward(logits, mlm_labels)
        return Part(total, part.count, part.correct)


class LossWithoutClamp(MaskedLMLoss):
    """Divides by zero where there is no label."""

    def forward(
        self, logits: Tensor, mlm_labels: Tensor, num_words: int | None = None
    ) -> Part:
        part = super().forward(logits, mlm_labels)
        if not int(part.count):
            return Part(part.total / 0, part.count, part.correct)
        return part


@pytest.mark.parametrize(
    "loss", [LossOverAllSlots, LossAtPadding, SmoothedLoss, LossWithoutClamp]
)
def test_a_wrong_loss_fails(subject: Subject, loss: type[MaskedLMLoss]) -> None:
    assert judge(LOSS_AT_LABELS, subject) == "pass"
    assert subject.pretraining is not None
    subject.pretraining.mlm_loss = loss()
    assert judge(LOSS_AT_LABELS, subject) == "fail"


def test_a_wrong_loss_differs_from_the_one_by_hand_and_from_pytorchs(
    subject: Subject,
) -> None:
    assert subject.pretraining is not None
    subject.pretraining.mlm_loss = LossAtPadding()
    outcome = run_check(LOSS_AT_LABELS, subject)
    names = {m.name.en for m in outcome.measurements if not m.holds}
    assert {
        "|our loss - by hand|",
        "|our loss - PyTorch's|",
        "change of our loss by other logits at unlabelled positions",
        "change of our loss by 64 more unlabelled positions",
        "largest gradient at unlabelled positions",
    } < names


def test_a_right_loss_at_wrong_places_fails(
    subject: Subject, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert subject.pretraining is not None
    encoder = subject.pretraining.bert.encoder
    original = encoder.forward

    def shifted(
        x: Tensor, layout: Layout, places: Tensor | None = None
    ) -> Tensor:
        if places is not None:
            places = (places + 1) % x.shape[:-1].numel()
        return original(x, layout, places)

    monkeypatch.setattr(encoder, "forward", shifted)
    assert judge(LOSS_AT_LABELS, subject) == "fail"


def test_the_three_losses_agree_below_1e_8(subject: Subject) -> None:
    measured = {
        m.name.en: m for m in run_check(LOSS_AT_LABELS, subject).measurements
    }
    for name in (
        "|our loss - by hand|",
        "|our loss - PyTorch's|",
        "|PyTorch's loss - by hand|",
    ):
        assert measured[name].bound == 1e-8
        assert measured[name].holds
    assert measured["labelled positions"].value == len(subject.texts)
    assert IGNORE_INDEX == -100
