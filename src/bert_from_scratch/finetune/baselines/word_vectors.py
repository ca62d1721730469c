"""word2vec: CBOW and skip-gram with negative sampling (Mikolov et al., 2013).

The corpus is one stream of words, cut into blocks. All windows of a block are
one matrix product, and the words of a block share their noise words.

Letters: G blocks of a step, L words of a block, C = L + 2 * window words that
it sees, K noise words that it shares, D width of a vector, V words.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

Kind = Literal["cbow", "skipgram"]
KINDS: tuple[Kind, ...] = get_args(Kind)

BLOCK_WORDS = 64
BLOCK_NOISE = 64
BLOCKS_PER_STEP = 32
LEARNING_RATE = 0.05
EPSILON = 1e-10


@dataclass(frozen=True)
class Windows:
    """Some blocks of words, what they see, and their noise words.

    Attributes:
        centres: Words in the middle of a window, long [G, L].
        contexts: The words around, long [G, C].
        is_context: Whether a word lies in the window of a centre, float
            [G, L, C], 0 or 1.
        noise: Random words, long [G, K].
    """

    centres: Tensor
    contexts: Tensor
    is_context: Tensor
    noise: Tensor


def train_word_vectors(
    sequences: Sequence[NDArray[np.int32]],
    num_words: int,
    *,
    kind: Kind,
    width: int = 100,
    window: int = 5,
    num_negative: int = 5,
    epochs: int = 5,
    seed: int = 0,
    subsample: float = 1e-3,
    progress: Callable[[int, int], None] | None = None,
) -> NDArray[np.float32]:
    """Learns one vector a word; same input and seed, same vectors.

    Args:
        sequences: Texts as word ids; windows do not cross their ends.
        num_words: Size of the vocabulary, V.
        kind: "cbow": the mean of the window predicts its middle;
            "skipgram": the middle predicts every word of the window.
        width: Length of a vector, D.
        window: Most words to look at on each side.
        num_negative: Noise words that weigh against one true word.
        epochs: Passes over the texts.
        seed: Chooses the initial vectors, noise and windows.
        subsample: Words more frequent than this are left out at random;
            0: none is.
        progress: Told the number of words done and of all words.

    Returns:
        Vectors, float32 [V, D]. Those of words that never occur are small
        and random, that of id 0 (padding) is zero.
    """
    if kind not in KINDS:
        raise ValueError(f"kind must be one of {KINDS}, got {kind!r}")
    stream = WindowStream(sequences, num_words, window, subsample, seed)
    inputs, outputs = _new_tables(num_words, width, stream.generator)
    optimizer = _SparseAdagrad([inputs.weight, outputs.weight])
    for epoch in range(epochs):
        for windows, share in stream.steps():
            loss = window_loss(kind, inputs, outputs, windows, num_negative)
            loss.backward()
            optimizer.step()
            if progress:
                done = round((epoch + share) * len(stream))
                progress(done, epochs * len(stream))
    vectors: NDArray[np.float32] = inputs.weight.detach().numpy()
    vectors[0] = 0
    return vectors


def window_loss(
    kind: Kind,
    inputs: Callable[[Tensor], Tensor],
    outputs: Callable[[Tensor], Tensor],
    windows: Windows,
    num_negative: int,
) -> Tensor:
    """Sums the negative-sampling loss over all windows, a scalar.

    Args:
        kind: "cbow" or "skipgram".
        inputs: Looks up the vectors that are kept, [..., D].
        outputs: Looks up the vectors that they are compared with, [..., D].
        windows: The words.
        num_negative: What all noise words weigh together against one true
            word.
    """
    is_context = windows.is_context
    num_contexts = is_context.sum(-1, keepdim=True)
    if kind == "cbow":
        sums = is_context @ inputs(windows.contexts)
        hidden = sums / num_contexts.clamp(min=1)
        scores = (hidden * outputs(windows.centres)).sum(-1, keepdim=True)
        num_true = is_true = (num_contexts > 0).float()
    else:
        hidden = inputs(windows.centres)
        scores = hidden @ outputs(windows.contexts).mT
        num_true, is_true = num_contexts, is_context
    noise_scores = hidden @ outputs(windows.noise).mT
    # 整块共用噪声词，每个正例仍按 num_negative 个负例加权，梯度的期望不变
    noise_weight = num_true * (num_negative / windows.noise.shape[-1])
    true_loss = (F.softplus(-scores) * is_true).sum()
    return true_loss + (F.softplus(noise_scores) * noise_weight).sum()


def _new_tables(
    num_words: int, width: int, generator: torch.Generator
) -> tuple[nn.Embedding, nn.Embedding]:
    """Makes small random input vectors, and output vectors of zeros."""
    start = (torch.rand(num_words, width, generator=generator) - 0.5) / width
    # 每步只碰到少数行：稀疏梯度不必扫过整张表
    inputs = nn.Embedding.from_pretrained(start, freeze=False, sparse=True)
    zeros = torch.zeros(num_words, width)
    return inputs, nn.Embedding.from_pretrained(
        zeros, freeze=False, sparse=True
    )


class _SparseAdagrad:
    """Adagrad that touches only the rows of a step.

    The one in PyTorch warns of its own sparse tensors.
    """

    def __init__(self, tables: Sequence[Tensor]) -> None:
        self.tables = [(t, t.new_zeros(len(t), 1)) for t in tables]

    @torch.no_grad()
    def step(self) -> None:
        """Changes the tables by their gradients, and forgets those."""
        for table, squares in self.tables:
            assert table.grad is not None
            grad = table.grad.coalesce()
            rows, values = grad.indices()[0], grad.values()
            squares.index_add_(0, rows, values.square().mean(1, True))
            # 词频相差几个数量级：步长除以各自的历史，常见词才不会走得太远；
            # 一行只记一个数，方向不变，否则所有向量会被推向同一个方向
            rates = LEARNING_RATE / (squares[rows] + EPSILON).sqrt()
            table.index_add_(0, rows, values * -rates)
            table.grad = None


class WindowStream:
    """All texts end to end, given out as windows in random order."""

    def __init__(
        self,
        sequences: Sequence[NDArray[np.int32]],
        num_words: int,
        window: int,
        subsample: float,
        seed: int,
    ) -> None:
        """Counts the words; arguments as in `train_word_vectors`."""
        if not sum(len(sequence) for sequence in sequences):
            raise ValueError("there are no words to learn from")
        self.window = window
        self.generator = torch.Generator().manual_seed(seed)
        self.words = torch.from_numpy(np.concatenate(sequences)).long()
        lengths = torch.tensor([len(sequence) for sequence in sequences])
        self.owners = torch.repeat_interleave(lengths)
        counts = torch.bincount(self.words, minlength=num_words).double()
        # 噪声按词频的 0.75 次方抽取：常见词略少，罕见词略多
        self.noise_sums = counts.pow(0.75).cumsum(0)
        self.keep_chances = _keep_chances(counts, subsample)

    def __len__(self) -> int:
        return len(self.words)

    def steps(self) -> Iterator[tuple[Windows, float]]:
        """Yields the windows of one epoch, and the share that is done."""
        words, owners = self._thin_out()
        num_blocks = -(-len(words) // BLOCK_WORDS)
        order = torch.randperm(num_blocks, generator=self.generator)
        for start in range(0, num_blocks, BLOCKS_PER_STEP):
            blocks = order[start : start + BLOCKS_PER_STEP]
            share = (start + len(blocks)) / num_blocks
            yield self._windows(words, owners, blocks), share

    def _thin_out(self) -> tuple[Tensor, Tensor]:
        draws = torch.rand(len(self.words), generator=self.generator)
        is_kept = draws < self.keep_chances[self.words]
        return self.words[is_kept], self.owners[is_kept]

    def _windows(
        self, words: Tensor, owners: Tensor, blocks: Tensor
    ) -> Windows:
        starts = blocks[:, None] * BLOCK_WORDS
        places = starts + torch.arange(BLOCK_WORDS)
        around = starts + torch.arange(-self.window, BLOCK_WORDS + self.window)
        # 越界处取边上的词，但主人编号不同，所以不会成为任何窗口的一员
        last = len(words) - 1
        centre_owners = owners[places.clamp(max=last)].where(places <= last, -1)
        context_owners = owners[around.clamp(0, last)].where(
            (around >= 0) & (around <= last), -2
        )
        # 窗口大小随机，等于让近处的词权重更大
        reach = torch.randint(
            1, self.window + 1, places.shape, generator=self.generator
        )
        distance = (around[:, None, :] - places[:, :, None]).abs()
        is_near = (distance <= reach[:, :, None]) & (distance > 0)
        is_same = centre_owners[:, :, None] == context_owners[:, None, :]
        return Windows(
            centres=words[places.clamp(max=last)],
            contexts=words[around.clamp(0, last)],
            is_context=(is_near & is_same).float(),
            noise=self._draw_noise(len(blocks)),
        )

    def _draw_noise(self, num_blocks: int) -> Tensor:
        draws = torch.rand(
            (num_blocks, BLOCK_NOISE),
            generator=self.generator,
            dtype=torch.float64,
        )
        # 在累积和里二分查找，等价于按权重抽样，比 multinomial 省去每次归一化
        return torch.searchsorted(
            self.noise_sums, draws * self.noise_sums[-1], right=True
        )


def _keep_chances(counts: Tensor, subsample: float) -> Tensor:
    """Returns how likely each word is to be kept, float64 [V]."""
    if subsample == 0:
        return torch.ones_like(counts)
    ratios = subsample * counts.sum() / counts.clamp(min=1)
    return (ratios.sqrt() + ratios).clamp(max=1)
