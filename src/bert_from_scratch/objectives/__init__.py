"""What BERT is trained on: masked words and the next sentence."""

from bert_from_scratch.objectives.mlm import MaskedLMHead, MaskedLMLoss
from bert_from_scratch.objectives.nsp import NSPHead, NSPLoss
from bert_from_scratch.objectives.output import Part, StepOutput
from bert_from_scratch.objectives.pretraining import BertForPreTraining

__all__ = [
    "BertForPreTraining",
    "MaskedLMHead",
    "MaskedLMLoss",
    "NSPHead",
    "NSPLoss",
    "Part",
    "StepOutput",
]
