"""The loss counts labelled positions, and nothing else.

Letters: P positions, V WordPieces.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from torch import Tensor

from bert_from_scratch.analysis.verify.check import (
    Check,
    Measurement,
    Said,
    at_most,
    equal,
    masked_lm,
    more_than,
)
from bert_from_scratch.analysis.verify.formula import TOLERANCE
from bert_from_scratch.analysis.verify.subject import Subject
from bert_from_scratch.data.batch import IGNORE_INDEX, Batch
from bert_from_scratch.objectives.pretraining import BertForPreTraining

EXACT = 1e-8
NUM_SPARE = 64
NOISE = 10.0


@dataclass(frozen=True)
class _Scored:
    """Logits at every place of a batch, and labels at a few.

    Attributes:
        batch: Padded rows.
        logits: The model's own, float64 [P, V].
        labels: Ids at labelled places, IGNORE_INDEX elsewhere, long [P].
    """

    batch: Batch
    logits: Tensor
    labels: Tensor

    @property
    def is_labelled(self) -> Tensor:
        """Where a label stands, bool [P]."""
        return self.labels != IGNORE_INDEX


def _measure(subject: Subject) -> Iterator[Measurement]:
    model = masked_lm(subject)
    scored = _score(subject, model)
    by_hand = _by_hand(scored.logits, scored.labels)
    yield more_than(
        Said("labelled positions", "带标签的位置数"),
        int(scored.is_labelled.sum()),
        0,
    )
    yield more_than(
        Said("positions without a label", "不带标签的位置数"),
        int((~scored.is_labelled).sum()),
        0,
    )
    yield more_than(
        Said("the loss, by hand", "手算的损失"), float(by_hand), 0.0
    )
    yield from _compare(model, scored, by_hand)
    yield from _disturb(model, scored)
    yield from _measure_gradient(model, scored)
    yield from _measure_forward(model, scored, by_hand)


def _score(subject: Subject, model: BertForPreTraining) -> _Scored:
    batch = subject.padded()
    hidden_state = model.bert(**batch.inputs()).hidden_state
    places = torch.arange(batch.input_ids.numel())
    logits = model.mlm_logits(hidden_state, places).double()
    labels = torch.full((len(places),), IGNORE_INDEX)
    starts = range(0, len(places), batch.max_seqlen)
    # 每条文本标一处：[MASK] 所在，没有 [MASK] 就取中间
    chosen = [
        start + subject.hide_one(encoding)[1]
        for start, encoding in zip(starts, subject.encodings, strict=False)
    ]
    labels[chosen] = torch.tensor(subject.draw_ids(len(chosen)))
    return _Scored(batch, logits, labels)


def _by_hand(logits: Tensor, labels: Tensor) -> Tensor:
    """Computes log(sum(exp(z))) - z[label], meaned over the labels."""
    terms = []
    for row, label in zip(logits, labels.tolist(), strict=True):
        if label != IGNORE_INDEX:
            # 先减去最大值再取指数，大的打分才不会溢出
            top = row.max()
            terms.append(top + (row - top).exp().sum().log() - row[label])
    return torch.stack(terms).mean()


def _compare(
    model: BertForPreTraining, scored: _Scored, by_hand: Tensor
) -> Iterator[Measurement]:
    ours = model.mlm_loss(scored.logits, scored.labels).mean
    theirs = F.cross_entropy(
        scored.logits, scored.labels, ignore_index=IGNORE_INDEX
    )
    yield at_most(
        Said("|our loss - by hand|", "|本项目的损失 - 手算|"),
        float((ours - by_hand).abs()),
        EXACT,
    )
    yield at_most(
        Said("|our loss - PyTorch's|", "|本项目的损失 - PyTorch 的损失|"),
        float((ours - theirs).abs()),
        EXACT,
    )
    yield at_most(
        Said("|PyTorch's loss - by hand|", "|PyTorch 的损失 - 手算|"),
        float((theirs - by_hand).abs()),
        EXACT,
    )


def _disturb(
    model: BertForPreTraining, scored: _Scored
) -> Iterator[Measurement]:
    """Changes what must not matter."""
    logits, labels = scored.logits, scored.labels
    before = model.mlm_loss(logits, labels).mean
    generator = torch.Generator().manual_seed(0)
    noise = (
        torch.randn(logits.shape, generator=generator, dtype=logits.dtype)
        * (~scored.is_labelled)[:, None]
    )
    noisy = model.mlm_loss(logits + NOISE * noise, labels).mean
    yield at_most(
        Said(
            "change of our loss by other logits at unlabelled positions",
            "改动无标签处的打分，损失的变化",
        ),
        float((noisy - before).abs()),
        EXACT,
    )
    more = torch.cat([logits, logits[:1].expand(NUM_SPARE, -1)])
    unlabelled = torch.full((NUM_SPARE,), IGNORE_INDEX)
    longer = model.mlm_loss(more, torch.cat([labels, unlabelled])).mean
    yield at_most(
        Said(
            f"change of our loss by {NUM_SPARE} more unlabelled positions",
            f"再添 {NUM_SPARE} 个无标签的位置，损失的变化",
        ),
        float((longer - before).abs()),
        EXACT,
    )
    nothing = torch.full_like(labels, IGNORE_INDEX)
    yield equal(
        Said("our loss without any label", "一个标签都没有时的损失"),
        float(model.mlm_loss(logits, nothing).mean),
        0.0,
    )


def _measure_gradient(
    model: BertForPreTraining, scored: _Scored
) -> Iterator[Measurement]:
    is_labelled = scored.is_labelled
    with torch.enable_grad():
        logits = scored.logits.detach().clone().requires_grad_()
        loss = model.mlm_loss(logits, scored.labels).mean
        (gradient,) = torch.autograd.grad(loss, logits)
    yield at_most(
        Said("largest gradient at unlabelled positions", "无标签处的最大梯度"),
        float(gradient[~is_labelled].abs().max()),
        0.0,
    )
    # 交叉熵的梯度有闭式：softmax(z) 减去独热标签，再除以标签数
    expected = scored.logits[is_labelled].softmax(dim=-1)
    labels = scored.labels[is_labelled]
    expected[torch.arange(len(labels)), labels] -= 1
    yield at_most(
        Said(
            "gradient at labelled positions against (softmax - one-hot) / n",
            "有标签处的梯度与 (softmax - one-hot) / n 之差",
        ),
        float((gradient[is_labelled] - expected / len(labels)).abs().max()),
        EXACT,
    )


def _measure_forward(
    model: BertForPreTraining, scored: _Scored, by_hand: Tensor
) -> Iterator[Measurement]:
    places = scored.is_labelled.nonzero().flatten()
    # 训练时的空槽位：指向 0，标签为 IGNORE_INDEX，不得计入平均
    spare = torch.zeros(NUM_SPARE, dtype=torch.long)
    batch = replace(
        scored.batch,
        mlm_positions=torch.cat([places, spare]),
        mlm_labels=torch.cat([scored.labels[places], spare + IGNORE_INDEX]),
    )
    loss = model(batch).parts["mlm"].mean.double()
    yield at_most(
        Said(
            f"whole model in float32, {NUM_SPARE} spare slots: |loss - by "
            "hand| / loss",
            f"整个模型（单精度，{NUM_SPARE} 个空槽位）：|损失 - 手算| / 损失",
        ),
        float((loss - by_hand).abs() / by_hand),
        TOLERANCE,
    )


LOSS_AT_LABELS = Check(
    "loss-at-labels",
    Said("Loss only at labelled positions", "损失只计有标签处"),
    Said(
        "The MLM loss is the mean over labelled positions alone: ours, "
        "PyTorch's and one computed by hand agree (float64), and nothing at "
        "other positions changes it. Labels are drawn at random here, so the "
        "loss says nothing of the model.",
        "MLM 损失只对有标签的位置取平均：本项目、PyTorch 与手算三者一致"
        "（双精度），其他位置怎么变都不影响它。这里的标签是随机抽的，损失的大小"
        "与模型好坏无关。",
    ),
    "loss = 1/n * sum over labels != -100 of (log sum_v exp(z_v) - z_label)",
    _measure,
)
