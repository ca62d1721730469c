"""Text files to lines: plain or compressed, streamed, checked."""

from bert_from_scratch.corpus.files import TextBlock, find_files, read_blocks

__all__ = ["TextBlock", "find_files", "read_blocks"]
