"""Pre-training beside Hugging Face on a CPU: real tokens a second.

    python benchmarks/pretraining.py [--preset mini] [--steps 30]
        [--batch-tokens 4096] [--text PATH] [--threads N]

The peer is `BertForPreTraining` (sdpa) fed by
`DataCollatorForLanguageModeling`, in a loop that does strictly less than
`transformers.Trainer`. Both start from the same weights and take turns, step
by step, on the same pairs. What either does to make a batch out of them is
timed. Hugging Face no longer has code that makes sentence pairs: the peer gets
ours for nothing, while our time includes making them.
"""

import argparse
import queue
import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import Any

import torch
import transformers

import report
from bert_from_scratch import BertConfig, WordPieceTokenizer
from bert_from_scratch.corpus.files import read_blocks
from bert_from_scratch.data.batch import IGNORE_INDEX, Batch
from bert_from_scratch.data.masking import MaskingRule
from bert_from_scratch.data.prefetch import prefetch
from bert_from_scratch.data.prepare import prepare
from bert_from_scratch.data.pretraining import BatchShape, PretrainingData
from bert_from_scratch.data.shards import TokenShards
from bert_from_scratch.data.steps import Position, StepData
from bert_from_scratch.model import names
from bert_from_scratch.objectives import BertForPreTraining
from bert_from_scratch.tokenizer.vocabulary import read_vocabulary
from bert_from_scratch.train.settings import TrainingSettings
from bert_from_scratch.train.trainer import BertTrainer

SEED = 0
LENGTH = 128
TEXT_BYTES = 10_000_000
WARMUP = 3
BAR = 3.0

Pair = dict[str, Any]


def main() -> None:
    """Prepares real text once, then lets both train on it in turn."""
    arguments = parse_arguments()
    torch.set_num_threads(arguments.threads)
    num_steps = WARMUP + arguments.steps
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        tokenizer = prepare_text(arguments.text, folder)
        data, planning = plan(folder, tokenizer, arguments.batch_tokens)
        # 从 epoch 中间开始：开头几步装箱时偏爱短句对，对方的填充会偏多
        start = Position(cursor=data.num_steps(0) // 2)
        steps = islice(data.steps(start), num_steps)
        batches = [unpack(step, data.rule) for step in steps]
        ours, peer = build_models(
            # 与 bert pretrain 的默认一致：两边都没有注意力 dropout
            BertConfig.preset(
                arguments.preset,
                vocab_size=len(tokenizer),
                attention_probs_dropout_prob=0.0,
            )
        )
        settings = TrainingSettings(steps=num_steps, seed=SEED)
        peer_run = PeerRun(peer, folder / "tokenizer", batches, settings)
        check_agreement(ours, peer, peer_run.collator(batches[0]))
        with closing(OurRun(ours, data, settings, start)) as our_run:
            seconds = take_turns(our_run, peer_run, num_steps)
    costs = divide(seconds, batches, planning)
    run = report.describe_run(SEED) | {
        "threads": arguments.threads,
        "planning_seconds_a_token": planning,
        "seconds_a_token": costs,
    }
    report.write(arguments.out, run, summarise(costs, batches[WARMUP:]))


def parse_arguments() -> argparse.Namespace:
    """Reads the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--preset", default="mini")
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--batch-tokens", type=int, default=4096)
    parser.add_argument("--text", type=Path, help="default: wiki_en.txt.xz")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument(
        "--out", type=Path, default=Path("build/pretraining.json")
    )
    arguments = parser.parse_args()
    arguments.text = arguments.text or report.data_dir() / "wiki_en.txt.xz"
    return arguments


def prepare_text(text_path: Path, folder: Path) -> WordPieceTokenizer:
    """Runs `prepare` on the beginning of a text."""
    beginning = folder / "text.txt"
    num_bytes = 0
    with beginning.open("wb") as file:
        for block in read_blocks(text_path):
            num_bytes += file.write("\n".join([*block.lines, ""]).encode())
            if num_bytes >= TEXT_BYTES:
                break
    vocab_path = report.data_dir() / "vocabs" / "bert-base-uncased-vocab.txt"
    tokenizer = WordPieceTokenizer(read_vocabulary(vocab_path))
    tokenizer.save(folder / "tokenizer")
    prepare([beginning], folder / "tokenizer", folder / "data")
    return tokenizer


def plan(
    folder: Path, tokenizer: WordPieceTokenizer, batch_tokens: int
) -> tuple[PretrainingData, float]:
    """Plans an epoch; returns also what that cost, in seconds a token."""
    shape = BatchShape.plan(batch_tokens, LENGTH)
    rule = MaskingRule.of(tokenizer)
    shards = TokenShards.open(folder / "data")
    data = PretrainingData(shards, tokenizer, shape, rule, SEED)
    start = time.perf_counter()
    planned = data.plan(0)
    seconds = time.perf_counter() - start
    return data, seconds / int(planned.sequences.lengths.sum())


def build_models(config: BertConfig) -> tuple[BertForPreTraining, Any]:
    """Builds both models with the same weights."""
    torch.manual_seed(SEED)
    ours = BertForPreTraining(config)
    peer = transformers.BertForPreTraining(
        transformers.BertConfig(**asdict(config), attn_implementation="sdpa")
    )
    loaded = peer.load_state_dict(
        names.to_hugging_face(ours.state_dict()), strict=False
    )
    # 缺的只能是与词嵌入、偏置共用的那两个张量
    assert not loaded.unexpected_keys
    assert set(loaded.missing_keys) <= set(peer._tied_weights_keys)
    return ours, peer


def unpack(step: StepData, rule: MaskingRule) -> list[Pair]:
    """Turns a step of ours into ready-made pairs, as a data set holds them."""
    (batch,) = step.micro_batches
    assert batch.cu_seqlens is not None
    assert batch.nsp_labels is not None
    sizes = batch.cu_seqlens.diff().tolist()
    ids = (part.tolist() for part in batch.input_ids.split(sizes))
    types = (part.tolist() for part in batch.token_type_ids.split(sizes))
    labels = batch.nsp_labels.tolist()
    special = set(rule.special_ids)
    return [
        {
            "input_ids": pair,
            "token_type_ids": segments,
            # 文档建议预先给出，否则整理器逐词查找特殊符号，要慢得多
            "special_tokens_mask": [int(i in special) for i in pair],
            "next_sentence_label": label,
        }
        for pair, segments, label in zip(ids, types, labels, strict=True)
    ]


class TurnGate(Iterator[StepData]):
    """Lets the prefetch thread work in our turns only.

    Without it the thread would make our next batch in the peer's turn: at the
    peer's cost, and for nothing.
    """

    def __init__(self, steps: Iterator[StepData], num_ahead: int) -> None:
        self._steps = steps
        self._wanted: queue.Queue[bool] = queue.Queue()
        for _ in range(num_ahead):
            self._wanted.put(True)

    def __next__(self) -> StepData:
        goes_on = self._wanted.get()
        try:
            if not goes_on:
                raise StopIteration
            return next(self._steps)
        finally:
            self._wanted.task_done()

    def open(self) -> None:
        """Lets the thread make one more step."""
        self._wanted.put(True)

    def wait(self) -> None:
        """Waits until the thread has made all it was allowed to."""
        self._wanted.join()

    def close(self) -> None:
        """Ends the steps, so that the thread can end."""
        self._wanted.put(False)


class OurRun:
    """BertTrainer with prefetch, as `bert pretrain` runs it."""

    def __init__(
        self,
        model: BertForPreTraining,
        data: PretrainingData,
        settings: TrainingSettings,
        start: Position,
    ) -> None:
        self._trainer = BertTrainer(model, data, settings)
        depth = 2
        self._gate = TurnGate(data.steps(start), depth)
        self._steps = prefetch(self._gate, depth)

    def step(self, number: int) -> None:
        """Takes one step and makes one later batch beside it."""
        del number
        self._gate.open()
        self._trainer.train_batch(next(self._steps))
        self._gate.wait()

    def close(self) -> None:
        """Ends the thread."""
        self._gate.close()
        self._steps.close()


class PeerRun:
    """What `transformers.Trainer` does in a step, and nothing besides."""

    def __init__(
        self,
        model: Any,
        tokenizer_dir: Path,
        batches: list[list[Pair]],
        settings: TrainingSettings,
    ) -> None:
        tokenizer = transformers.AutoTokenizer.from_pretrained(tokenizer_dir)
        self.collator = transformers.DataCollatorForLanguageModeling(
            tokenizer, mlm_probability=0.15
        )
        self._model = model
        self._batches = batches
        self._max_norm = settings.max_gradient_norm
        parameters = list(model.parameters())
        self._optimizer = torch.optim.AdamW(
            [
                {
                    "params": [p for p in parameters if p.dim() >= 2],
                    "weight_decay": settings.weight_decay,
                },
                {
                    "params": [p for p in parameters if p.dim() < 2],
                    "weight_decay": 0.0,
                },
            ],
            lr=settings.learning_rate,
            betas=settings.betas,
            eps=settings.epsilon,
            # Trainer 在新版 PyTorch 上默认用 adamw_torch_fused，CPU 也一样
            fused=True,
        )

    def step(self, number: int) -> None:
        """Collates, and takes one step."""
        batch = self.collator(self._batches[number])
        self._model(**batch).loss.backward()
        torch.nn.utils.clip_grad_norm_(self._model.parameters(), self._max_norm)
        self._optimizer.step()
        self._model.zero_grad()


@torch.inference_mode()
def check_agreement(ours: BertForPreTraining, peer: Any, batch: Any) -> None:
    """Makes sure that both compute the same loss on the same masks."""
    ids, labels = batch["input_ids"], batch["labels"].flatten()
    positions = (labels != IGNORE_INDEX).nonzero().flatten()
    same = Batch(
        input_ids=ids,
        token_type_ids=batch["token_type_ids"],
        position_ids=torch.arange(ids.shape[1]).expand(ids.shape),
        attention_mask=batch["attention_mask"].bool(),
        max_seqlen=ids.shape[1],
        mlm_positions=positions,
        mlm_labels=labels[positions],
        nsp_labels=batch["next_sentence_label"],
    )
    torch.testing.assert_close(
        ours.eval()(same).loss, peer.eval()(**batch).loss, atol=1e-4, rtol=1e-4
    )
    ours.train()
    peer.train()


def take_turns(
    ours: OurRun, peer: PeerRun, num_steps: int
) -> dict[str, list[float]]:
    """Times step by step, in changing order.

    Taking turns keeps a machine that speeds up or slows down from favouring
    one of them.
    """
    runs: dict[str, OurRun | PeerRun] = {"ours": ours, "peer": peer}
    seconds: dict[str, list[float]] = {who: [] for who in runs}
    for number in range(num_steps):
        for who in list(runs)[:: 1 if number % 2 else -1]:
            start = time.perf_counter()
            runs[who].step(number)
            seconds[who].append(time.perf_counter() - start)
    return seconds


def count_tokens(batch: list[Pair]) -> int:
    """Counts real tokens."""
    return sum(len(pair["input_ids"]) for pair in batch)


def divide(
    seconds: dict[str, list[float]],
    batches: list[list[Pair]],
    planning: float,
) -> dict[str, list[float]]:
    """Returns seconds a real token of each step after the warm-up."""
    num_tokens = [count_tokens(batch) for batch in batches]
    costs = {
        who: [s / n for s, n in zip(times, num_tokens, strict=True)][WARMUP:]
        for who, times in seconds.items()
    }
    # 我们的计划（造句对、装箱）在轮流之前做完整个 epoch，这里按词摊回
    return costs | {"ours": [cost + planning for cost in costs["ours"]]}


def summarise(
    costs: dict[str, list[float]], batches: list[list[Pair]]
) -> list[dict[str, Any]]:
    """Compares by the median and by the fastest step."""
    num_tokens = sum(map(count_tokens, batches))
    num_slots = sum(
        len(batch) * max(len(pair["input_ids"]) for pair in batch)
        for batch in batches
    )
    rows = []
    for what, middle in (("median", statistics.median), ("minimum", min)):
        ours, peer = middle(costs["ours"]), middle(costs["peer"])
        rows.append(
            {
                "by": what,
                "steps": len(batches),
                "real tokens": num_tokens,
                "share of padding": 1 - num_tokens / num_slots,
                "ours tokens/s": round(1 / ours),
                "Hugging Face tokens/s": round(1 / peer),
                "ratio": peer / ours,
                "bar": BAR,
            }
        )
    return rows


if __name__ == "__main__":
    main()
