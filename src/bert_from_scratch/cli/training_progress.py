"""The one line that a person watches while a model trains."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.progress import BarColumn, TextColumn
from rich.progress import Progress as Bar

from bert_from_scratch.cli.console import say, stderr

if TYPE_CHECKING:
    from bert_from_scratch.finetune.run import Where
    from bert_from_scratch.train.recorder import Progress

SECONDS_A_LINE = 30


@contextmanager
def show_training() -> Iterator[Callable[["Progress"], None]]:
    """Yields a report: a bar on a terminal, now and then a line elsewhere."""
    bar = Bar(
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=20),
        console=stderr,
        transient=True,
        disable=not stderr.is_terminal,
    )
    task = bar.add_task("", total=1.0)
    last_line = time.monotonic()

    def report(progress: "Progress") -> None:
        nonlocal last_line
        if not stderr.is_terminal:
            is_time = time.monotonic() - last_line > SECONDS_A_LINE
            if is_time or progress.result.step == 1:
                say(describe(progress))
                last_line = time.monotonic()
            return
        # 第一步之后才显示：其余进程不报告，也就不画进度条
        bar.start()
        bar.update(
            task, completed=progress.progress, description=describe(progress)
        )

    try:
        yield report
    finally:
        bar.stop()


@contextmanager
def show_attempts() -> Iterator[Callable[["Where", "Progress"], None]]:
    """Yields a report of fine-tuning: which attempt, and how far it is."""
    with show_training() as report:
        last: Where | None = None

        def tell(where: "Where", progress: "Progress") -> None:
            nonlocal last
            if where != last and where.count > 1:
                say(
                    f"attempt {where.number} of {where.count}: lr "
                    f"{where.learning_rate:g}, seed {where.seed}"
                )
            last = where
            report(progress)

        yield tell


def describe(progress: "Progress") -> str:
    """Says where a run is, in one line."""
    result = progress.result
    parts = ", ".join(f"{n} {p.loss:.3f}" for n, p in result.parts.items())
    listed = f" ({parts})" if len(result.parts) > 1 else ""
    text = (
        f"step {result.step:,}  loss {result.loss:.3f}{listed}  "
        f"lr {result.learning_rate:.2e}  "
        f"{progress.tokens_per_second:,.0f} tokens/s"
    )
    if progress.mfu is not None:
        text += f"  MFU {progress.mfu:.0%}"
    if progress.evaluation is not None:
        held_out = next(iter(progress.evaluation.values()))
        text += f"  held out {held_out.loss:.3f}"
    if progress.seconds_left is not None:
        text += f"  {format_time(progress.seconds_left)} left"
    return text


def format_time(seconds: float) -> str:
    """Writes a time as people say it.

    >>> format_time(75), format_time(7260), format_time(200_000)
    ('1:15', '2:01:00', '2 days 7:33')
    """
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    if days:
        return f"{days} days {hours}:{minutes:02d}"
    if hours:
        return f"{hours}:{minutes:02d}:{rest:02d}"
    return f"{minutes}:{rest:02d}"
