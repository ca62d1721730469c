"""The input of BERT: token + segment + position."""

from bert_from_scratch.embeddings.embedding import BertEmbedding

__all__ = ["BertEmbedding"]
