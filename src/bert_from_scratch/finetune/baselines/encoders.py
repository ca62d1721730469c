"""WordEncoder: one vector a text, by the networks that came before BERT.

Letters: B texts, S positions of a padded row, T words in all, D width of a
word vector, H hidden size.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal, Self, get_args

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from bert_from_scratch.data.batch import Batch
from bert_from_scratch.embeddings.dropout import Dropout
from bert_from_scratch.errors import BertError

Kind = Literal["bow", "cnn", "rnn", "lstm", "gru", "bilstm"]
KINDS: tuple[Kind, ...] = get_args(Kind)

NUM_SEGMENTS = 2
FILTER_WIDTHS = (3, 4, 5)
INITIAL_SPREAD = 0.1


@dataclass(frozen=True)
class WordEncoderConfig:
    """The shape of one encoder.

    Attributes:
        kind: One of `KINDS`.
        num_words: Size of the vocabulary.
        width: Length of a word vector, D.
        hidden_size: Width of the hidden layers, or filters of each width
            of a cnn, H.
        dropout: Share of the values of a word vector that are dropped.
    """

    kind: Kind
    num_words: int
    width: int = 100
    hidden_size: int = 128
    dropout: float = 0.3

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise BertError(
                f"Unknown encoder {self.kind!r}.",
                hint=f"use one of {', '.join(KINDS)}",
            )
        for name in ("num_words", "width", "hidden_size"):
            value = getattr(self, name)
            if type(value) is not int or value < 1:
                raise BertError(
                    f"{name} must be a whole number from 1, got {value!r}."
                )
        if not 0 <= self.dropout < 1:
            raise BertError(f"dropout must lie in [0, 1), got {self.dropout}.")

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """Builds a config; a key that is missing or unknown is an error."""
        known = {field.name for field in fields(cls)}
        if set(values) != known:
            raise BertError(
                "The encoder config must have the keys "
                f"{', '.join(sorted(known))}; got "
                f"{', '.join(sorted(values)) or 'none'}."
            )
        return cls(**values)

    def to_dict(self) -> dict[str, Any]:
        """Returns all fields, ready for JSON."""
        return asdict(self)


class WordEncoder(nn.Module):
    """Word and segment vectors, then a network that joins them to one."""

    def __init__(
        self,
        config: WordEncoderConfig,
        word_vectors: NDArray[np.float32] | None = None,
    ) -> None:
        """Builds an encoder with fresh weights.

        Args:
            config: Its shape.
            word_vectors: Where the word vectors start, float32 [num_words,
                D]; they are trained on. None: at random.
        """
        super().__init__()
        self.config = config
        self.word = nn.Embedding(config.num_words, config.width)
        # 相加的段向量告诉网络一个词属于哪一句：成对的文本才分得清
        self.segment = nn.Embedding(NUM_SEGMENTS, config.width)
        nn.init.normal_(self.word.weight, std=INITIAL_SPREAD)
        nn.init.normal_(self.segment.weight, std=INITIAL_SPREAD)
        if word_vectors is not None:
            self._start_from(word_vectors)
        self.dropout = Dropout(config.dropout)
        self.network = _new_network(config)

    def _start_from(self, word_vectors: NDArray[np.float32]) -> None:
        if word_vectors.shape != self.word.weight.shape:
            raise ValueError(
                f"word vectors are {word_vectors.shape}, not "
                f"{tuple(self.word.weight.shape)}"
            )
        # 复制而不是共用内存：训练不会改动调用者的数组
        with torch.no_grad():
            self.word.weight.copy_(torch.from_numpy(word_vectors))

    @property
    def output_size(self) -> int:
        """Width of the vector of a text."""
        return self.network.output_size

    def forward(self, batch: Batch) -> Tensor:
        """Encodes a packed batch, float [B, output_size].

        Dropout of the result is left to the head.
        """
        x = self.word(batch.input_ids) + self.segment(batch.token_type_ids)
        return self.network(self.dropout(x), batch)


def _new_network(
    config: WordEncoderConfig,
) -> "_MeanOfWords | _Convolutions | _Recurrent":
    if config.kind == "bow":
        return _MeanOfWords(config)
    if config.kind == "cnn":
        return _Convolutions(config)
    return _Recurrent(config)


class _MeanOfWords(nn.Module):
    """Bag of words: the mean of each segment, then two dense layers."""

    def __init__(self, config: WordEncoderConfig) -> None:
        super().__init__()
        self.output_size = config.hidden_size
        self.layers = nn.Sequential(
            nn.Linear(NUM_SEGMENTS * config.width, config.hidden_size),
            nn.ReLU(),
            Dropout(config.dropout),
            nn.Linear(config.hidden_size, config.hidden_size),
            nn.ReLU(),
        )

    def forward(self, x: Tensor, batch: Batch) -> Tensor:
        """Maps packed words [T, D] to [B, H]."""
        assert batch.cu_seqlens is not None
        num_groups = (len(batch.cu_seqlens) - 1) * NUM_SEGMENTS
        # 平均与词序无关，段向量平均后只剩比例；所以两段各自平均再拼接
        groups = batch.token_owners() * NUM_SEGMENTS + batch.token_type_ids
        counts = torch.bincount(groups, minlength=num_groups).clamp(min=1)
        sums = x.new_zeros(num_groups, x.shape[-1]).index_add(0, groups, x)
        means = sums / counts[:, None]
        return self.layers(means.view(-1, NUM_SEGMENTS * x.shape[-1]))


class _Convolutions(nn.Module):
    """Filters over neighbouring words, the best place of each (Kim, 2014)."""

    def __init__(self, config: WordEncoderConfig) -> None:
        super().__init__()
        self.output_size = len(FILTER_WIDTHS) * config.hidden_size
        self.filters = nn.ModuleList(
            nn.Conv1d(config.width, config.hidden_size, width)
            for width in FILTER_WIDTHS
        )

    def forward(self, x: Tensor, batch: Batch) -> Tensor:
        """Maps packed words [T, D] to [B, 3H]."""
        rows, is_word = _unpack(x, batch)
        features = []
        for width, layer in zip(FILTER_WIDTHS, self.filters, strict=True):
            # 两端补零，每个词都有一个以它为中心的窗口：一个词的文本也能算
            padding = ((width - 1) // 2, width // 2)
            found = F.relu(layer(F.pad(rows.mT, padding)))
            # 激活值不小于零，填充处置零就不会赢得最大值
            features.append(found.mul(is_word[:, None]).amax(-1))
        return torch.cat(features, -1)


class _Recurrent(nn.Module):
    """A recurrent network, and the maximum of each of its states."""

    def __init__(self, config: WordEncoderConfig) -> None:
        super().__init__()
        cells: dict[str, type[nn.RNN | nn.LSTM | nn.GRU]] = {
            "rnn": nn.RNN,
            "lstm": nn.LSTM,
            "gru": nn.GRU,
            "bilstm": nn.LSTM,
        }
        both_ways = config.kind == "bilstm"
        self.output_size = config.hidden_size * (2 if both_ways else 1)
        self.cell = cells[config.kind](
            config.width,
            config.hidden_size,
            bidirectional=both_ways,
        )

    def forward(self, x: Tensor, batch: Batch) -> Tensor:
        """Maps packed words [T, D] to [B, output_size]."""
        assert batch.cu_seqlens is not None
        rows, _ = _unpack(x, batch)
        # 告诉循环网络真实长度：反向一路从最后一个词读起，而不是从填充读起
        packed = pack_padded_sequence(
            rows,
            batch.cu_seqlens.diff().cpu(),
            batch_first=True,
            enforce_sorted=False,
        )
        states, _ = self.cell(packed)
        # 取各时刻的最大值而不是末状态：梯度直达每个词，长文本的开头不会被忘记
        padded, _ = pad_packed_sequence(
            states, batch_first=True, padding_value=-torch.inf
        )
        return padded.amax(1)


def _unpack(x: Tensor, batch: Batch) -> tuple[Tensor, Tensor]:
    """Lays packed words out in rows.

    Returns:
        Word vectors, zero after the end of a text, [B, S, D]; and where
        words are, bool [B, S].
    """
    assert batch.cu_seqlens is not None, "word encoders read packed batches"
    # 输入是首尾相接的；卷积和循环网络要逐行的，只在这里补零
    shape = (len(batch.cu_seqlens) - 1, batch.max_seqlen)
    places = batch.token_owners(), batch.position_ids
    rows = x.new_zeros(*shape, x.shape[-1]).index_put(places, x)
    is_word = torch.zeros(shape, dtype=torch.bool, device=x.device)
    is_word[places] = True
    return rows, is_word
