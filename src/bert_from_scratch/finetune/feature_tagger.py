"""FeatureTagger: a BiLSTM on what a frozen BERT says (paper, table 7).

Letters: B sequences, T tokens in all, W words of one sequence, C classes, D
width of a feature.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Self

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from bert_from_scratch import atomic
from bert_from_scratch.data.batch import Batch
from bert_from_scratch.embeddings.dropout import Dropout
from bert_from_scratch.errors import BertError
from bert_from_scratch.finetune.label_loss import LabelLoss
from bert_from_scratch.finetune.labels import PART
from bert_from_scratch.model.bert import BertModel
from bert_from_scratch.model.directory import find
from bert_from_scratch.model.initialise import initialise
from bert_from_scratch.model.tensor_file import write_tensors
from bert_from_scratch.objectives.output import StepOutput

LAYERS = (
    "embeddings",
    "last",
    "second-to-last",
    "sum-last4",
    "concat-last4",
    "sum-all",
    "weighted-sum",
)
FILE_NAME = "tagger.safetensors"


class FeatureTagger(nn.Module):
    """Features of words into a two-layer BiLSTM and a dense layer.

    The encoder never learns and never drops anything out. A batch needs
    `word_starts`: the first token of a word stands for it.

    Attributes:
        bert: The frozen encoder.
        labels: Names of the classes.
        layers: Which hidden states are the features.
    """

    def __init__(
        self,
        bert: BertModel,
        labels: Sequence[str],
        layers: str = "concat-last4",
        class_weights: Sequence[float] | None = None,
        hidden_size: int | None = None,
    ) -> None:
        """Builds a fresh tagger on an encoder.

        Args:
            bert: The encoder, which is frozen here.
            labels: Names of the classes.
            layers: One of `LAYERS`.
            class_weights: How much a word of each class counts in the loss;
                None: all the same.
            hidden_size: Width of the BiLSTM in each direction; None: that of
                the encoder, as in the paper.
        """
        super().__init__()
        config = bert.config
        _check_layers(layers, config.num_hidden_layers)
        self.config = config
        self.bert = bert.requires_grad_(False)
        self.labels = tuple(labels)
        self.layers = layers
        if layers == "weighted-sum":
            # 从零开始，softmax 之后就是各层的平均
            weights = torch.zeros(config.num_hidden_layers)
            self.layer_weights = nn.Parameter(weights)
        width = config.hidden_size * (4 if layers == "concat-last4" else 1)
        hidden_size = hidden_size or config.hidden_size
        self.lstm = nn.LSTM(
            width,
            hidden_size,
            num_layers=2,
            bidirectional=True,
            batch_first=True,
            dropout=config.hidden_dropout_prob,
        )
        self.dropout = Dropout(config.hidden_dropout_prob)
        self.classifier = nn.Linear(2 * hidden_size, len(labels))
        initialise(self.classifier, config.initializer_range)
        self.loss = LabelLoss(class_weights=class_weights)
        self.train()

    @classmethod
    def on_encoder(
        cls,
        model_dir: Path,
        labels: Sequence[str],
        layers: str,
        class_weights: Sequence[float] | None = None,
    ) -> Self:
        """Builds a fresh tagger on the encoder of a directory."""
        bert = BertModel.from_pretrained(model_dir, required_parts=())
        return cls(bert, labels, layers, class_weights)

    @classmethod
    def from_pretrained(
        cls, directory: str | Path, labels: Sequence[str], layers: str
    ) -> Self:
        """Loads a tagger and its encoder.

        Args:
            directory: A directory that `save_pretrained` wrote.
            labels: Names of the classes.
            layers: As it was trained.

        Returns:
            The tagger in evaluation mode.
        """
        directory = find(Path(directory))
        tensors = _read(directory / FILE_NAME)
        bert = BertModel.from_pretrained(directory, required_parts=())
        # 宽度不另存：从张量的形状就能读出来
        recurrent = tensors.get("lstm.weight_hh_l0", torch.empty(0, 0))
        tagger = cls(bert, labels, layers, hidden_size=recurrent.shape[1])
        expected = {k: v.shape for k, v in tagger._own_tensors().items()}
        if expected != {k: v.shape for k, v in tensors.items()}:
            raise BertError(
                f"{directory / FILE_NAME} does not fit {len(labels)} tags and "
                f"the features {layers!r}.",
                hint="was task.json taken from another directory?",
            )
        tagger.load_state_dict(tensors, strict=False)
        return tagger.eval()

    def save_pretrained(self, directory: str | Path) -> None:
        """Writes a plain BERT directory, and the tagger beside it."""
        directory = Path(directory)
        self.bert.save_pretrained(directory)
        with atomic.replace_file(directory / FILE_NAME) as scratch_path:
            write_tensors(scratch_path, self._own_tensors())

    def _own_tensors(self) -> dict[str, Tensor]:
        return {
            name: tensor.detach().cpu().contiguous()
            for name, tensor in self.state_dict().items()
            if not name.startswith("bert.")
        }

    def train(self, mode: bool = True) -> Self:
        """Sets the mode of all but the encoder, which has no dropout."""
        super().train(mode)
        # 特征是固定的：编码器始终处于评估模式
        self.bert.eval()
        return self

    def features(self, batch: Batch) -> Tensor:
        """Returns a vector a token, float [T, D]."""
        with torch.no_grad():
            x, layout = self.bert.embed(**batch.inputs())
            if self.layers == "embeddings":
                return x
            states = self.bert.encoder.hidden_states(x, layout)[1:]
        match self.layers:
            case "last":
                return states[-1]
            case "second-to-last":
                return states[-2]
            case "sum-last4":
                return torch.stack(states[-4:]).sum(0)
            case "concat-last4":
                return torch.cat(states[-4:], -1)
            case "sum-all":
                return torch.stack(states).sum(0)
        weights = self.layer_weights.softmax(0)
        return torch.einsum("l,ltd->td", weights, torch.stack(states))

    def logits(self, batch: Batch) -> Tensor:
        """Scores the classes of words, float [T, C]; 0 at other tokens."""
        assert batch.word_starts is not None
        assert batch.cu_seqlens is not None
        features = self.features(batch)[batch.word_starts]
        owners = batch.token_owners()[batch.word_starts]
        num_sequences = len(batch.cu_seqlens) - 1
        counts = torch.bincount(owners, minlength=num_sequences)
        # 没有词的序列也占一格：LSTM 不接受长度为零的行
        lengths = counts.clamp(min=1).cpu()
        longest = int(lengths.max())
        columns = torch.arange(longest, device=counts.device)
        is_word = columns < counts[:, None]
        rows = features.new_zeros(num_sequences, longest, features.shape[-1])
        rows[is_word] = features
        states, _ = self.lstm(
            pack_padded_sequence(
                rows, lengths, batch_first=True, enforce_sorted=False
            )
        )
        hidden, _ = pad_packed_sequence(states, batch_first=True)
        scores = self.classifier(self.dropout(hidden[is_word]))
        logits = scores.new_zeros(len(batch.input_ids), len(self.labels))
        logits[batch.word_starts] = scores
        return logits

    def forward(self, batch: Batch) -> StepOutput:
        """Computes the loss of a labelled batch."""
        assert batch.labels is not None
        part = self.loss(self.logits(batch), batch.labels)
        return StepOutput({PART: part})

    def count_labels(self, batch: Batch) -> dict[str, Tensor]:
        """Counts what the loss is averaged over, a scalar."""
        assert batch.labels is not None
        return {PART: self.loss.count(batch.labels)}


def _check_layers(layers: str, num_layers: int) -> None:
    if layers not in LAYERS:
        raise BertError(
            f"Unknown features {layers!r}.",
            hint=f"use one of {', '.join(LAYERS)}",
        )
    needed = {"second-to-last": 2, "sum-last4": 4, "concat-last4": 4}
    if num_layers < needed.get(layers, 1):
        raise BertError(
            f"The features {layers!r} need {needed[layers]} layers; this "
            f"model has {num_layers}.",
            hint="use last, sum-all or weighted-sum",
        )


def _read(path: Path) -> dict[str, Tensor]:
    try:
        return load_file(path)
    except FileNotFoundError:
        raise BertError(
            f"There is no {path}.",
            hint="was this model trained with --features?",
        ) from None
    except (SafetensorError, OSError) as error:
        raise BertError(
            f"{path} is truncated or damaged: {error}.",
            hint="copy or train it again",
        ) from error
