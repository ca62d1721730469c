"""BERT from scratch: from .txt files to a BERT that any BERT tool can load.

>>> from bert_from_scratch import BertModel, WordPieceTokenizer

The names below are imported on first use, so that `import bert_from_scratch`
and `bert --help` do not wait for torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bert_from_scratch.config import BertConfig as BertConfig
    from bert_from_scratch.data.batch import Batch as Batch
    from bert_from_scratch.errors import BertError as BertError
    from bert_from_scratch.finetune.multiple_choice import (
        MultipleChoice as MultipleChoice,
    )
    from bert_from_scratch.finetune.qa_span import QASpanHead as QASpanHead
    from bert_from_scratch.finetune.qa_span import (
        QuestionAnswerer as QuestionAnswerer,
    )
    from bert_from_scratch.finetune.sequence_classifier import (
        SequenceClassifier as SequenceClassifier,
    )
    from bert_from_scratch.finetune.token_classifier import (
        TokenClassifier as TokenClassifier,
    )
    from bert_from_scratch.model.bert import BertModel as BertModel
    from bert_from_scratch.objectives.pretraining import (
        BertForPreTraining as BertForPreTraining,
    )
    from bert_from_scratch.predict.task import TaskPredictor as TaskPredictor
    from bert_from_scratch.tokenizer import (
        WordPieceTokenizer as WordPieceTokenizer,
    )

__version__ = "0.1.0"

_HOME = {
    "Batch": "data.batch",
    "BertConfig": "config",
    "BertError": "errors",
    "BertForPreTraining": "objectives.pretraining",
    "BertModel": "model.bert",
    "MultipleChoice": "finetune.multiple_choice",
    "QASpanHead": "finetune.qa_span",
    "QuestionAnswerer": "finetune.qa_span",
    "SequenceClassifier": "finetune.sequence_classifier",
    "TaskPredictor": "predict.task",
    "TokenClassifier": "finetune.token_classifier",
    "WordPieceTokenizer": "tokenizer",
}

__all__ = [*_HOME, "__version__"]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
