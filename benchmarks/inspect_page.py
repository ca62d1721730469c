"""Size and speed of a long page of `bert inspect`, in a real browser.

    python benchmarks/inspect_page.py [--tokens 512] [--preset base]
        [--rounds 6] [--out FILE.json]

A random model of a preset reads as many tokens as asked for; the page opens in
Debian's Chromium, and layer and head are changed again and again. A change is
timed in the page, from the event to the end of the frame that shows it. Bars of
the project: 15 MB and 100 ms for 512 tokens and BERT-base's shape.
"""

import argparse
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
from playwright.sync_api import sync_playwright

import report
from bert_from_scratch import BertConfig, BertModel, WordPieceTokenizer
from bert_from_scratch.analysis.inspection import Inspection
from bert_from_scratch.analysis.inspector import Inspector
from bert_from_scratch.analysis.subject import Subject

CHROMIUM = "/usr/bin/chromium"
FLAGS = ["--no-sandbox", "--disable-gpu"]
SPECIALS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
NUM_WORDS = 300

# 在页面里计时：从改动到画完这一帧
CHANGE = """async ([box, values]) => {
  const times = [];
  for (const value of values) {
    const start = performance.now();
    const element = document.getElementById(box);
    element.value = String(value);
    element.dispatchEvent(new Event("change"));
    await new Promise((resume) =>
      requestAnimationFrame(() => setTimeout(resume)));
    times.push(performance.now() - start);
  }
  return times;
}"""


def main() -> None:
    """Makes a page, opens it, and times changes."""
    arguments = parse_arguments()
    start = time.perf_counter()
    found = inspect(arguments.preset, arguments.tokens)
    seconds = time.perf_counter() - start
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "page.html")
        found.save(path)
        size = path.stat().st_size
        changes = drive(path, found, arguments.rounds)
    rows = [
        {
            "what": f"change of {name}",
            "median ms": statistics.median(times),
            "slowest ms": max(times),
            "bar ms": 100,
            "holds": statistics.median(times) < 100,
        }
        for name, times in changes.items()
    ]
    run = report.describe_run(seed=0)
    run |= {
        "tokens": len(found.tokens),
        "preset": arguments.preset,
        "page MB": size / 1e6,
        "seconds to inspect": seconds,
    }
    print(f"page: {size / 1e6:.1f} MB (bar 15), inspected in {seconds:.1f} s")
    report.write(arguments.out, run, rows)


def parse_arguments() -> argparse.Namespace:
    """Reads the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tokens", type=int, default=512)
    parser.add_argument("--preset", default="base")
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--out", type=Path, default="build/inspect_page.json")
    return parser.parse_args()


def inspect(preset: str, num_tokens: int) -> Inspection:
    """Looks into a random model of a preset."""
    words = [f"w{number}" for number in range(NUM_WORDS)]
    tokenizer = WordPieceTokenizer([*SPECIALS, *words])
    torch.manual_seed(0)
    config = BertConfig.preset(preset, vocab_size=len(tokenizer))
    model = BertModel(config).eval()
    subject = Subject(preset, "BertModel", model, tokenizer)
    chosen = (words[n * 7 % NUM_WORDS] for n in range(num_tokens - 2))
    return Inspector(subject).inspect(" ".join(chosen))


def drive(path: Path, found: Inspection, rounds: int) -> dict[str, list[float]]:
    """Changes layer and head in a browser; returns milliseconds."""
    model = found.model
    boxes: dict[str, list[int]] = {
        "layer": _mix(model.num_hidden_layers),
        "head": _mix(model.num_attention_heads),
    }
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=CHROMIUM, args=FLAGS
        )
        page: Any = browser.new_page(viewport={"width": 1280, "height": 900})
        page.goto(path.as_uri())
        page.locator("body[data-complete=true]").wait_for()
        times: dict[str, list[float]] = {name: [] for name in boxes}
        for _ in range(rounds):
            for name, values in boxes.items():
                times[name] += page.evaluate(CHANGE, [name, values])
        browser.close()
    return times


def _mix(count: int) -> list[int]:
    # 跳着换：相邻两次不是同一层，缓存帮不上忙
    return [number * 5 % count + 1 for number in range(count)]


if __name__ == "__main__":
    main()
