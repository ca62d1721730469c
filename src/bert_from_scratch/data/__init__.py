"""Ids to batches: the only producer of `Batch`."""

from bert_from_scratch.data.batch import IGNORE_INDEX, Batch, pack, pad

__all__ = ["IGNORE_INDEX", "Batch", "pack", "pad"]
