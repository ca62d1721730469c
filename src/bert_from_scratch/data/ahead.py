"""Finding the next of something while the present one is in use."""

import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Generic, TypeVar

Result = TypeVar("Result")
Rest = Callable[[], object]

WORK_SECONDS = 0.002
REST_SECONDS = 0.01


def never_rest() -> None:
    """Goes on at once."""


class Ahead(Generic[Result]):
    """Results by number, of which some are found in the background."""

    def __init__(
        self, find: Callable[[int, Rest], Result], num_kept: int = 2
    ) -> None:
        """Prepares; nothing is found yet.

        Args:
            find: Finds a result by its number; calls the other argument every
                now and then, which may take a while to return.
            num_kept: How many results are remembered.
        """
        self._find = find
        self._num_kept = num_kept
        self._tasks: OrderedDict[int, _Task[Result]] = OrderedDict()
        self._lock = threading.Lock()

    def __call__(self, number: int) -> Result:
        """Returns a result: a known one, or found here and now."""
        task, is_new = self._get(number)
        task.is_urgent.set()
        if is_new:
            self._work(number, task)
        try:
            return task.future.result()
        except BaseException:
            # 失败的不留着：再问一次就再试一次
            with self._lock:
                if self._tasks.get(number) is task:
                    del self._tasks[number]
            raise

    def begin(self, number: int) -> None:
        """Begins to find a result in the background."""
        task, is_new = self._get(number)
        if is_new:
            threading.Thread(
                target=self._work, args=(number, task), daemon=True, name="plan"
            ).start()

    def _get(self, number: int) -> tuple["_Task[Result]", bool]:
        """Returns what is known of a number, and whether that is nothing."""
        with self._lock:
            is_new = number not in self._tasks
            task = self._tasks.setdefault(number, _Task())
            self._tasks.move_to_end(number)
            while len(self._tasks) > self._num_kept:
                self._tasks.popitem(last=False)
            return task, is_new

    def _work(self, number: int, task: "_Task[Result]") -> None:
        try:
            task.future.set_result(self._find(number, task.rest))
        except BaseException as error:
            task.future.set_exception(error)


@dataclass
class _Task(Generic[Result]):
    """A result that somebody finds, or has found.

    Attributes:
        future: The result.
        is_urgent: Whether somebody waits for it.
        begun: When the present stretch of work began.
    """

    future: "Future[Result]" = field(default_factory=Future)
    is_urgent: threading.Event = field(default_factory=threading.Event)
    begun: float = field(default_factory=time.monotonic)

    def rest(self) -> None:
        """Lets other threads run, unless somebody waits for the result."""
        # Python 一次只让一个线程跑：后台的活若一口气做完，给 GPU 派活的线程就
        # 要一直等它，GPU 也跟着闲下来
        if time.monotonic() - self.begun < WORK_SECONDS:
            return
        self.is_urgent.wait(REST_SECONDS)
        self.begun = time.monotonic()
