"""The products of a block, one by one: PyTorch's choice, and cuBLASLt's others.

    python benchmarks/products.py [--tokens 131072] [--width 768]
        [--candidates 12] [--rounds 5] [--out FILE.json]

Each of the twelve products of a learning block, in bf16, is timed as PyTorch
does it and by every algorithm that cuBLASLt offers; the fastest few take turns
with PyTorch's, and the median of their times counts. Then GELU and its
gradient: as a product with a kernel of our own behind it, and in the last
lines of the product (`cublaslt.py`). "wrong" is how far the result is from
PyTorch's, over the greatest number in it: cuBLASLt's GELU need not be the one
by the error function.
"""

import argparse
import statistics
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

import report
import turns
from bert_from_scratch import kernels
from cublaslt import DGELU_BGRAD, GELU_AUX_BIAS, WORKSPACE_BYTES, Product
from gpu_time import time_on_gpu

SEED = 0
NUM_FINALISTS = 3
LAUNCHES = 5
WARM_LAUNCHES = 200


@dataclass(frozen=True)
class Case:
    """A product, or one with something behind it.

    Attributes:
        name: What it is in a block.
        plain: PyTorch's way; returns its result.
        product: What cuBLASLt is asked.
        flops: Of the product.
        expected: The result in float32; None: that of `plain` will do.
    """

    name: str
    plain: Callable[[], Tensor]
    product: Product
    flops: float
    expected: Callable[[], Tensor] | None = None


def main() -> None:
    """Times every product; writes what is known after each."""
    arguments = parse_arguments()
    if not torch.cuda.is_available():
        sys.exit("error: the products are timed on a GPU, and here is none")
    torch.manual_seed(SEED)
    run = report.describe_run(SEED)
    workspace = torch.empty(WORKSPACE_BYTES, dtype=torch.uint8, device="cuda")
    turns.take(partial(warm_up, arguments.tokens, arguments.width), False)
    rows: list[dict[str, Any]] = []
    for case in make_cases(arguments.tokens, arguments.width):
        rows.append(measure(case, workspace, arguments))
        print(rows[-1], flush=True)
        report.save(arguments.out, run, rows)
    report.write(arguments.out, run, rows)
    plain, best = (
        sum(row[column] for row in rows if row["kind"] == "product")
        for column in ("PyTorch ms", "best ms")
    )
    print(f"all twelve: {plain:.3f} ms, {best:.3f} by the best of each")


def parse_arguments() -> argparse.Namespace:
    """Reads the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tokens", type=int, default=131072)
    parser.add_argument("--width", type=int, default=768)
    parser.add_argument("--candidates", type=int, default=12)
    parser.add_argument("--rounds", type=int, default=5)
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
        grad = draw(tokens, wide_out)
        # 梯度一份绕过这一层：乘积直接加到它上面
        adds = name.startswith(("queries", "into"))
        yield multiply(f"{name}: forward", x, weight.t())
        yield multiply(f"{name}: to the input", grad, weight, adds=adds)
        yield multiply(f"{name}: to the weight", grad.t(), x)
    if kernels.EXIST:
        yield with_gelu(tokens, width, inner)
        yield with_slope(tokens, width, inner)


def multiply(name: str, a: Tensor, b: Tensor, adds: bool = False) -> Case:
    """Returns a product by itself."""
    flops = 2.0 * a.shape[0] * a.shape[1] * b.shape[1]
    out = torch.zeros((a.shape[0], b.shape[1]), dtype=a.dtype, device=a.device)
    product = Product(a, b, out, adds=adds)
    plain: Callable[[], Tensor] = partial(torch.mm, a, b)
    if not adds:
        return Case(name, plain, product, flops)
    target = torch.zeros_like(out)
    return Case(name, lambda: target.addmm_(a, b), product, flops, plain)


def with_gelu(tokens: int, width: int, inner: int) -> Case:
    """Returns the way into the feed-forward layer, GELU included."""
    from bert_from_scratch.kernels.activation import gelu

    x, weight, bias = draw(tokens, width), draw(inner, width), draw(inner)
    weight *= width**-0.5
    out, aux = (torch.empty_like(draw(tokens, inner)) for _ in range(2))
    product = Product(
        *(x, weight.t(), out), epilogue=GELU_AUX_BIAS, bias=bias, aux=aux
    )
    return Case(
        "GELU behind its product",
        lambda: gelu(x @ weight.t(), bias),
        product,
        2.0 * tokens * width * inner,
        lambda: F.gelu(x.float() @ weight.t().float() + bias.float()),
    )


def with_slope(tokens: int, width: int, inner: int) -> Case:
    """Returns the way back out of the feed-forward layer, GELU's included."""
    from bert_from_scratch.kernels.activation import gelu

    grad, weight = draw(tokens, width), draw(width, inner)
    aux, bias = draw(tokens, inner).requires_grad_(), draw(inner).zero_()
    sums = torch.empty_like(bias)
    product = Product(
        *(grad, weight, torch.empty_like(aux, requires_grad=False)),
        epilogue=DGELU_BGRAD,
        bias=sums,
        aux=aux.detach(),
    )
    leaves = (aux, bias.requires_grad_())
    active = gelu(*leaves)

    def plain() -> Tensor:
        of_inner, _ = torch.autograd.grad(
            active, leaves, grad @ weight, retain_graph=True
        )
        return of_inner

    return Case(
        "GELU's gradient behind its product",
        plain,
        product,
        2.0 * tokens * width * inner,
    )


def measure(
    case: Case, workspace: Tensor, arguments: argparse.Namespace
) -> dict[str, Any]:
    """Times a case every way; returns its row."""
    kind = "product" if case.product.aux is None else "GELU"
    row: dict[str, Any] = {"what": case.name, "kind": kind}
    candidates = find_candidates(case, workspace, arguments.candidates)
    times = [
        time_on_gpu(partial(c.run, workspace), LAUNCHES) for c in candidates
    ]
    order = sorted(range(len(times)), key=times.__getitem__)
    finalists = order[:NUM_FINALISTS]
    ways: list[Callable[[], object]] = [case.plain]
    ways += [partial(candidates[n].run, workspace) for n in finalists]
    rounds = [
        [time_on_gpu(way, LAUNCHES) for way in ways]
        for _ in range(arguments.rounds)
    ]
    plain, *others = map(statistics.median, zip(*rounds, strict=True))
    best = min(others, default=plain)
    row |= {
        "PyTorch ms": plain,
        "first ms": times[0] if times else None,
        "best ms": min(best, plain),
        "of PyTorch's": best / plain,
        "best is number": finalists[others.index(best)] if others else None,
        "candidates": len(candidates),
        "TFLOP/s": case.flops / min(best, plain) / 1e9,
    }
    if finalists:
        row["wrong"] = error_of(case, candidates[finalists[0]], workspace)
    return row


def find_candidates(
    case: Case, workspace: Tensor, number: int
) -> list[Product]:
    """Returns the algorithms that do run; says which do not, and why."""
    candidates = case.product.candidates(number)
    found = []
    # 库肯给的，未必都能跑：跑不了的一个，不该毁掉整张表
    while True:
        try:
            candidate = next(candidates)
            candidate.run(workspace)
            found.append(candidate)
        except StopIteration:
            return found
        except RuntimeError as error:
            print(f"{case.name}: {error}", flush=True)


def error_of(case: Case, candidate: Product, workspace: Tensor) -> float:
    """Returns how far a candidate's result is from what it should be."""
    candidate.out.zero_()
    candidate.run(workspace)
    expected = (case.expected or case.plain)().float()
    gap = (candidate.out.float() - expected).abs().max()
    return float(gap / expected.abs().max())


if __name__ == "__main__":
    report.run(main)
