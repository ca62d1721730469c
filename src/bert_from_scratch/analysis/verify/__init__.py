"""Claims that must be true of every BERT, measured on this one.

>>> from bert_from_scratch.analysis.verify import Subject, verify
>>> verify(Subject.load("my-bert")).verdict
'pass'
"""

from bert_from_scratch.analysis.verify.check import Check, Measurement, Outcome
from bert_from_scratch.analysis.verify.report import save, write_report
from bert_from_scratch.analysis.verify.subject import Subject
from bert_from_scratch.analysis.verify.suite import CHECKS, Results, verify

__all__ = [
    "CHECKS",
    "Check",
    "Measurement",
    "Outcome",
    "Results",
    "Subject",
    "save",
    "verify",
    "write_report",
]
