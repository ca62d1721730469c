"""One evaluator for all: MLM and NSP on a frozen masked copy of held-out text.

    python benchmarks/ten_minutes.py DATA MODEL [MODEL ...] [--batches 100]
        [--out FILE.json]

DATA are token shards of text that no model has seen. So many batches of 64
pairs of 128 tokens are masked once (15 %, 80/10/10, seed 0) and kept beside the
result; when the text is used up, it is paired anew. Every model, ours and
Hugging Face's, is loaded by `transformers` and judged on exactly these. MODEL
is a directory of Hugging Face's, or a run of `bert pretrain`.
"""

import argparse
import math
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from torch import Tensor

import report
from bert_from_scratch.data.batch import IGNORE_INDEX
from bert_from_scratch.model.directory import find
from ten_minutes_peer import PaddedPairs

SEED = 0
ROWS = 64
LENGTH = 128


def main() -> None:
    """Freezes the masks, judges every model, writes a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("models", type=Path, nargs="+")
    parser.add_argument("--batches", type=int, default=100)
    parser.add_argument(
        "--out", type=Path, default=Path("build/ten_minutes.json")
    )
    arguments = parser.parse_args()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    frozen = freeze(arguments.data, arguments.batches)
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    arrays = {k: np.stack([b[k].numpy() for b in frozen]) for k in frozen[0]}
    np.savez_compressed(
        arguments.out.with_suffix(".npz"), allow_pickle=False, **arrays
    )
    rows: list[dict[str, Any]] = [
        {"model": str(path)} | judge(path, frozen, device)
        for path in arguments.models
    ]
    for row in rows:
        row["behind the best"] = row["MLM loss"] - min(
            other["MLM loss"] for other in rows
        )
    report.write(arguments.out, report.describe_run(SEED), rows)


def freeze(data_dir: Path, count: int) -> list[dict[str, Tensor]]:
    """Masks the first batches of an epoch, once and for all."""
    pairs = PaddedPairs(data_dir, ROWS, LENGTH, SEED)
    return list(islice(pairs.padded(is_pinned=False), count))


@torch.inference_mode()
def judge(
    path: Path, frozen: list[dict[str, Tensor]], device: torch.device
) -> dict[str, float]:
    """Computes losses and accuracies of one model in float32."""
    model = transformers.BertForPreTraining.from_pretrained(find(path))
    model = model.to(device).eval()
    loss = right = count = 0.0
    nsp_right = nsp_count = 0
    for batch in frozen:
        moved = {name: tensor.to(device) for name, tensor in batch.items()}
        labels = moved.pop("labels")
        nsp_labels = moved.pop("next_sentence_label")
        output = model(**moved)
        is_hidden = labels != IGNORE_INDEX
        logits = output.prediction_logits[is_hidden].float()
        wanted = labels[is_hidden]
        loss += torch.nn.functional.cross_entropy(
            logits, wanted, reduction="sum"
        ).item()
        right += (logits.argmax(-1) == wanted).sum().item()
        count += len(wanted)
        guesses = output.seq_relationship_logits.argmax(-1)
        nsp_right += int((guesses == nsp_labels).sum())
        nsp_count += len(nsp_labels)
    return {
        "MLM loss": loss / count,
        "perplexity": math.exp(min(loss / count, 700)),
        "MLM accuracy": right / count,
        "NSP accuracy": nsp_right / nsp_count,
        "hidden tokens": count,
    }


if __name__ == "__main__":
    report.run(main)
