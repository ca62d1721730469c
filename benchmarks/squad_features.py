"""SQuAD windows and n-best lists: time and memory, without the model.

    python benchmarks/squad_features.py [--questions 10570] [--peer 1000]

All questions of dev-v1.1 become windows and, with random numbers in place of a
model's, answers; every answer must be an exact part of its context. The peer is
transformers' way on some of the questions: its fast tokenizer with overflowing
tokens, then a loop over the 20 best starts and ends, as in its example scripts.
Ours compares all spans, and tells no text twice.
"""

import argparse
import os
import resource
import tarfile
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from transformers import BertTokenizerFast

import report
from bert_from_scratch import WordPieceTokenizer
from bert_from_scratch.data.tasks.examples import QuestionExample
from bert_from_scratch.data.tasks.squad import read_questions
from bert_from_scratch.finetune.answering import AnsweringTask, AnswerPrediction
from bert_from_scratch.tokenizer.vocabulary import read_vocabulary

MAX_LENGTH, STRIDE, N_BEST, MAX_ANSWER = 384, 128, 20, 30

Output = NDArray[np.float32]


def main() -> None:
    """Times both and writes the comparison."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--questions", type=int, default=10570)
    parser.add_argument("--peer", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--out", type=Path, default=Path("build/squad_features.json")
    )
    arguments = parser.parse_args()
    data_dir = report.data_dir()
    vocab_path = data_dir / "vocabs" / "bert-base-uncased-vocab.txt"
    examples = read_dev(data_dir)[: arguments.questions]
    ours = measure_ours(vocab_path, examples, arguments.seed)
    some = examples[:: max(1, len(examples) // arguments.peer)]
    theirs = measure_theirs(vocab_path, some, arguments.seed)
    rows = [ours, theirs, compare(ours, theirs)]
    report.write(arguments.out, report.describe_run(arguments.seed), rows)


def read_dev(data_dir: Path) -> list[QuestionExample]:
    """Reads dev-v1.1 out of the archive."""
    name = "squad/dev-v1.1.json"
    with (
        tempfile.TemporaryDirectory() as folder,
        tarfile.open(data_dir / "squad.tar.xz") as archive,
    ):
        archive.extract(name, folder, filter="data")
        return read_questions(Path(folder) / name).examples


def peak_mb() -> float:
    """Returns the most memory that this process has had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def draw(lengths: list[int], seed: int) -> list[Output]:
    """Draws start and end scores, float32 [S, 2] for every window."""
    generator = np.random.default_rng(seed)
    return [
        generator.normal(0, 3, (length, 2)).astype(np.float32)
        for length in lengths
    ]


def measure_ours(
    vocab_path: Path, examples: list[QuestionExample], seed: int
) -> dict[str, Any]:
    """Runs the task `answer` around random numbers."""
    tokenizer = WordPieceTokenizer(read_vocabulary(vocab_path))
    task = AnsweringTask(
        tokenizer, MAX_LENGTH, STRIDE, n_best=N_BEST, max_answer=MAX_ANSWER
    )
    start = time.perf_counter()
    items = task.items(examples)
    features = time.perf_counter() - start
    outputs = draw([item.num_tokens for item in items], seed)
    start = time.perf_counter()
    predictions = task.decode(examples, items, outputs)
    n_best = time.perf_counter() - start
    return {
        "who": "ours",
        "questions": len(examples),
        "windows": len(items),
        "features s": features,
        "n-best s": n_best,
        "peak MB": peak_mb(),
        "broken": count_broken(examples, predictions),
        "bar": "< 60 s, < 1500 MB, 0",
    }


def count_broken(
    examples: list[QuestionExample], predictions: list[AnswerPrediction]
) -> int:
    """Counts candidates, of all questions, that are not in the context."""
    return sum(
        not c.text or c.text != example.context[c.start : c.end]
        for example, prediction in zip(examples, predictions, strict=True)
        for c in prediction.candidates
    )


def measure_theirs(
    vocab_path: Path, examples: list[QuestionExample], seed: int
) -> dict[str, Any]:
    """Does the same with transformers' tokenizer and a loop over pairs."""
    vocabulary = {t: i for i, t in enumerate(read_vocabulary(vocab_path))}
    tokenizer = BertTokenizerFast(vocab=vocabulary, do_lower_case=True)
    start = time.perf_counter()
    encoded = tokenizer(
        [example.question for example in examples],
        [example.context for example in examples],
        truncation="only_second",
        max_length=MAX_LENGTH,
        stride=STRIDE,
        return_overflowing_tokens=True,
        return_offsets_mapping=True,
    )
    offsets = [
        [
            pair if segment == 1 else None
            for pair, segment in zip(
                encoded["offset_mapping"][row],
                encoded.sequence_ids(row),
                strict=True,
            )
        ]
        for row in range(len(encoded["input_ids"]))
    ]
    features = time.perf_counter() - start
    outputs = draw([len(ids) for ids in encoded["input_ids"]], seed)
    owners = encoded["overflow_to_sample_mapping"]
    start = time.perf_counter()
    answers = loop_over_pairs(examples, owners, offsets, outputs)
    n_best = time.perf_counter() - start
    assert all(len(best) <= N_BEST for best in answers)
    return {
        "who": "transformers",
        "questions": len(examples),
        "windows": len(offsets),
        "features s": features,
        "n-best s": n_best,
        "peak MB": "-",
        "broken": "-",
        "bar": "-",
    }


def loop_over_pairs(
    examples: list[QuestionExample],
    owners: list[int],
    offsets: list[list[Any]],
    outputs: list[Output],
) -> list[list[dict[str, Any]]]:
    """Compares the best starts with the best ends, window by window."""
    found: list[list[dict[str, Any]]] = [[] for _ in examples]
    for owner, places, scores in zip(owners, offsets, outputs, strict=True):
        best = np.argsort(scores, axis=0)[: -N_BEST - 1 : -1]
        for first in best[:, 0].tolist():
            for last in best[:, 1].tolist():
                if places[first] is None or places[last] is None:
                    continue
                if 0 <= last - first < MAX_ANSWER:
                    found[owner].append(
                        {
                            "offsets": (places[first][0], places[last][1]),
                            "score": scores[first, 0] + scores[last, 1],
                            "start_logit": scores[first, 0],
                            "end_logit": scores[last, 1],
                        }
                    )
    return [
        finish_list(example.context, pairs)
        for example, pairs in zip(examples, found, strict=True)
    ]


def finish_list(
    context: str, pairs: list[dict[str, Any]]
) -> list[dict[str, Any]]:
    """Sorts the pairs of a question, and adds texts and probabilities."""
    best = sorted(pairs, key=lambda pair: -pair["score"])[:N_BEST]
    if best:
        scores = np.array([pair["score"] for pair in best])
        powers = np.exp(scores - scores.max())
        chances = powers / powers.sum()
        for pair, chance in zip(best, chances, strict=True):
            start, end = pair["offsets"]
            pair.update(text=context[start:end], probability=chance)
    return best


def compare(ours: dict[str, Any], theirs: dict[str, Any]) -> dict[str, Any]:
    """Says how many times as long the peer takes for a question."""
    times = {
        key: (theirs[key] / theirs["questions"])
        / (ours[key] / ours["questions"])
        for key in ("features s", "n-best s")
    }
    return {
        "who": "ratio a question",
        "questions": "-",
        "windows": "-",
        **times,
        "peak MB": "-",
        "broken": "-",
        "bar": "-",
    }


if __name__ == "__main__":
    # 与命令行工具相同：两个核都用上，也不联网
    os.environ["HF_HUB_OFFLINE"] = "1"
    main()
