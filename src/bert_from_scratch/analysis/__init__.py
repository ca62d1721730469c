"""A look inside BERT: one text in pictures, and claims that are measured.

>>> from bert_from_scratch.analysis import inspect_text
>>> inspect_text("my-bert", "The parser returns a [MASK] of tokens.")

In a notebook, the last line shows the page.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bert_from_scratch.analysis.inspection import Inspection as Inspection
    from bert_from_scratch.analysis.inspector import Inspector as Inspector
    from bert_from_scratch.analysis.inspector import (
        inspect_text as inspect_text,
    )

_HOME = {
    "Inspection": "inspection",
    "Inspector": "inspector",
    "inspect_text": "inspector",
}

__all__ = ["Inspection", "Inspector", "inspect_text"]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
