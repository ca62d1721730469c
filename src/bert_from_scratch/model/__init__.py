"""The Transformer encoder of BERT, and named tensors in and out of a folder."""

from bert_from_scratch.model.attention import MultiHeadSelfAttention
from bert_from_scratch.model.bert import BertModel, EncoderOutput
from bert_from_scratch.model.block import TransformerBlock
from bert_from_scratch.model.encoder import BertEncoder
from bert_from_scratch.model.layout import Layout, Packed, Padded

__all__ = [
    "BertEncoder",
    "BertModel",
    "EncoderOutput",
    "Layout",
    "MultiHeadSelfAttention",
    "Packed",
    "Padded",
    "TransformerBlock",
]
