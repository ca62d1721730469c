"""Text to WordPiece ids and back."""

from bert_from_scratch.tokenizer.bulk import BulkEncoder
from bert_from_scratch.tokenizer.wordpiece import Encoding, WordPieceTokenizer

__all__ = ["BulkEncoder", "Encoding", "WordPieceTokenizer"]
