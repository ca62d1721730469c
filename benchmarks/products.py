"""The products of a block, one by one: PyTorch's choice, and the fastest.

    python benchmarks/products.py [--tokens 131072] [--width 768]
        [--out FILE.json]

Each of the twelve products of a learning block, in bf16, is timed as PyTorch
does it and by the algorithms that cuBLASLt offers and whose result has the same
bits, in turn. `bert_from_scratch.kernels.products` chooses among these by
the same measurement when it has met a product often enough.
"""

import argparse
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import report
import turns
from bert_from_scratch.kernels.cublaslt import Product
from bert_from_scratch.kernels.products import (
    MOST_ALGORITHMS,
    find_equals,
    measure,
)

SEED = 0
WARM_LAUNCHES = 200


@dataclass(frozen=True)
class Case:
    """A product: a @ b, plus a bias, or added to a target."""

    name: str
    a: Tensor
    b: Tensor
    bias: Tensor | None = None
    target: Tensor | None = None

    @property
    def flops(self) -> float:
        """Returns how much arithmetic it is."""
        return 2.0 * len(self.a) * self.a.shape[1] * self.b.shape[1]


def main() -> None:
    """Times every product; writes what is known after each."""
    arguments = parse_arguments()
    if not torch.cuda.is_available():
        sys.exit("error: the products are timed on a GPU, and here is none")
    torch.manual_seed(SEED)
    run = report.describe_run(SEED)
    turns.take(partial(warm_up, arguments.tokens, arguments.width), False)
    rows: list[dict[str, Any]] = []
    for case in make_cases(arguments.tokens, arguments.width):
        rows.append(describe(case))
        print(rows[-1], flush=True)
        report.save(arguments.out, run, rows)
    report.write(arguments.out, run, rows)
    plain, best = (
        sum(row[column] for row in rows) for column in ("PyTorch ms", "best ms")
    )
    print(f"all twelve: {plain:.3f} ms, {best:.3f} by the best of each")


def parse_arguments() -> argparse.Namespace:
    """Reads the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tokens", type=int, default=131072)
    parser.add_argument("--width", type=int, default=768)
    parser.add_argument("--out", type=Path, default=Path("build/products.json"))
    return parser.parse_args()


def warm_up(tokens: int, width: int) -> None:
    """Brings the clocks down to where they stay under load."""
    x, weight = draw(tokens, width), draw(width, width)
    for _ in range(WARM_LAUNCHES):
        x @ weight
    torch.cuda.synchronize()


def draw(*shape: int) -> Tensor:
    """Draws numbers like those of a trained block."""
    return torch.randn(shape, dtype=torch.bfloat16, device="cuda")


def make_cases(tokens: int, width: int) -> Iterator[Case]:
    """Yields the products of a block, in the order of their layers."""
    inner = 4 * width
    for name, wide_in, wide_out in (
        ("queries, keys, values", width, 3 * width),
        ("out of attention", width, width),
        ("into the feed-forward layer", width, inner),
        ("out of the feed-forward layer", inner, width),
    ):
        x, weight = draw(tokens, wide_in), draw(wide_out, wide_in)
        grad, around = draw(tokens, wide_out), draw(tokens, wide_in)
        bias = draw(wide_out) if name.startswith("queries") else None
        # 梯度一份绕过这一层：乘积直接加到它上面
        adds = name.startswith(("queries", "into"))
        target = around if adds else None
        yield Case(f"{name}: forward", x, weight.t(), bias)
        yield Case(f"{name}: to the input", grad, weight, target=target)
        yield Case(f"{name}: to the weight", grad.t(), x)


def describe(case: Case) -> dict[str, Any]:
    """Times a case every way; returns its row."""
    parts = (case.a, case.b, case.bias, case.target)
    ways = list(find_equals(*parts))
    plain, *others = measure([launch for _, launch in ways])
    best = min(others, default=plain)
    product = Product(*parts[:3], adds=case.target is not None)
    return {
        "what": case.name,
        "PyTorch ms": plain,
        "best ms": min(best, plain),
        "of PyTorch's": best / plain,
        "offered": len(product.find_algorithms(MOST_ALGORITHMS)),
        "with the same bits": len(others),
        "TFLOP/s": case.flops / min(best, plain) / 1e9,
    }


if __name__ == "__main__":
    report.run(main)
