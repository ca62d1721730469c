"""BertModel: ids in, hidden states and a pooled sentence vector out."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from bert_from_scratch.config import BertConfig
from bert_from_scratch.embeddings import BertEmbedding
from bert_from_scratch.embeddings.linear import Linear
from bert_from_scratch.errors import BertError
from bert_from_scratch.model.directory import StoredModel
from bert_from_scratch.model.encoder import BertEncoder
from bert_from_scratch.model.initialise import initialise
from bert_from_scratch.model.layout import Layout, Packed, Padded


@dataclass(frozen=True)
class EncoderOutput:
    """What BERT says about a batch.

    Attributes:
        hidden_state: One vector a token, float [B, S, H] or packed [T, H].
        pooled: One vector a sequence, from its [CLS], float [B, H]; where
            the model has no pooler, that of [CLS] itself.
    """

    hidden_state: Tensor
    pooled: Tensor


class Pooler(nn.Module):
    """A dense layer and tanh over the [CLS] vector, as in Google's code."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.dense = Linear(config.hidden_size, config.hidden_size)

    def forward(self, first_tokens: Tensor) -> Tensor:
        """Maps the [CLS] vectors, float [B, H], to pooled ones, [B, H]."""
        return torch.tanh(self.dense(first_tokens))


class BertModel(StoredModel):
    """The encoder of BERT: embeddings, Transformer blocks, pooler.

    >>> model = BertModel.from_pretrained("my-bert")
    >>> output = model(input_ids, token_type_ids, attention_mask=mask)
    >>> output.hidden_state, output.pooled
    """

    # 磁盘上的类名与前缀沿用 Hugging Face，任何 BERT 工具都能直接读
    architecture = "BertModel"
    optional_parts = ("pooler",)

    def __init__(self, config: BertConfig, *, with_pooler: bool = True) -> None:
        """Builds a BERT with fresh weights.

        Args:
            config: Its shape.
            with_pooler: Whether it has a pooler; heads that look at tokens
                alone do without.
        """
        super().__init__(config)
        self.embedding = BertEmbedding(config)
        self.encoder = BertEncoder(config)
        self.pooler = Pooler(config) if with_pooler else nn.Identity()
        initialise(self, config.initializer_range)

    def forward(
        self,
        input_ids: Tensor,
        token_type_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        position_ids: Tensor | None = None,
        cu_seqlens: Tensor | None = None,
        max_seqlen: int | None = None,
        places: Tensor | None = None,
    ) -> EncoderOutput:
        """Encodes a padded batch [B, S], or a packed one [T].

        Args:
            input_ids: WordPiece ids, long [B, S] or packed [T].
            token_type_ids: Segment of each token, long, shaped like
                `input_ids`; all 0 when None.
            attention_mask: Non-zero at real tokens, [B, S]; None when
                nothing is padding. Only for a padded batch.
            position_ids: Places, long, shaped like `input_ids`; counted
                from 0 in every sequence when None.
            cu_seqlens: Starts of the packed sequences and the end, int32
                [B + 1]. It is what makes a batch packed.
            max_seqlen: Upper bound on the packed lengths; looked up in
                `cu_seqlens` when None.
            places: Where the last hidden states are wanted, as places in the
                flattened batch (row * S + column when padded), long [P];
                `hidden_state` is [P, H] then. Nothing else is computed in
                the last block, besides the [CLS]. None: everywhere.
        """
        x, layout = self.embed(
            input_ids,
            token_type_ids,
            attention_mask,
            position_ids,
            cu_seqlens,
            max_seqlen,
        )
        if places is None:
            x = self.encoder(x, layout)
            return EncoderOutput(x, self.pooler(layout.first_tokens(x)))
        wanted = torch.cat((places, layout.first_places(x)))
        x = self.encoder(x, layout, wanted)
        chosen, first = x.tensor_split((len(places),))
        return EncoderOutput(chosen, self.pooler(first))

    def embed(
        self,
        input_ids: Tensor,
        token_type_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        position_ids: Tensor | None = None,
        cu_seqlens: Tensor | None = None,
        max_seqlen: int | None = None,
    ) -> tuple[Tensor, Layout]:
        """Returns the encoder's input, [..., H], and where sequences lie.

        The arguments are those of `forward`.
        """
        layout = _find_layout(input_ids, attention_mask, cu_seqlens, max_seqlen)
        if position_ids is None:
            position_ids = _count_positions(input_ids, layout)
        if token_type_ids is None:
            token_type_ids = torch.zeros_like(input_ids)
        self._check_length(input_ids, layout)
        if input_ids.device.type == "cpu":
            # GPU 上检查会强制同步，只在 CPU 上做；越界的报错在此才看得懂
            _check_ids("input_ids", input_ids, self.config.vocab_size)
            _check_ids(
                "token_type_ids", token_type_ids, self.config.type_vocab_size
            )
            _check_ids(
                "position_ids",
                position_ids,
                self.config.max_position_embeddings,
            )
        return self.embedding(input_ids, token_type_ids, position_ids), layout

    def _check_length(self, input_ids: Tensor, layout: Layout) -> None:
        if isinstance(layout, Packed):
            length = layout.max_seqlen
        else:
            length = input_ids.shape[1]
        longest = self.config.max_position_embeddings
        if length > longest:
            raise BertError(
                f"A sequence of {length} tokens is too long: this model has "
                f"max_position_embeddings={longest}.",
                hint=f"truncate to {longest} tokens or split the text",
            )


def _find_layout(
    input_ids: Tensor,
    attention_mask: Tensor | None,
    cu_seqlens: Tensor | None,
    max_seqlen: int | None,
) -> Layout:
    if cu_seqlens is None:
        if input_ids.dim() != 2:
            raise ValueError(
                f"input_ids must be [B, S], got {tuple(input_ids.shape)}; "
                "a packed batch [T] also needs cu_seqlens"
            )
        return Padded(attention_mask)
    if attention_mask is not None:
        raise ValueError("a packed batch takes cu_seqlens, no attention_mask")
    if input_ids.dim() != 1:
        raise ValueError(
            f"packed input_ids must be [T], got {tuple(input_ids.shape)}"
        )
    if max_seqlen is None:
        max_seqlen = int(cu_seqlens.diff().max())
    return Packed(cu_seqlens, max_seqlen)


def _count_positions(input_ids: Tensor, layout: Layout) -> Tensor:
    if isinstance(layout, Packed):
        return layout.position_ids(len(input_ids))
    return torch.arange(input_ids.shape[1], device=input_ids.device)


def _check_ids(name: str, ids: Tensor, size: int) -> None:
    if torch.compiler.is_compiling() or not ids.numel():
        return
    low, high = (int(bound) for bound in ids.aminmax())
    if low < 0 or high >= size:
        raise BertError(
            f"{name} holds {low if low < 0 else high}, outside 0 ... "
            f"{size - 1}.",
            hint="was the text encoded with this model's own tokenizer?",
        )
