"""How long work tells a person, or nobody, how far it is."""

from typing import Protocol


class ProgressReport(Protocol):
    """Called now and then during long work."""

    def __call__(self, stage: str, done: int, total: int) -> None:
        """Takes in how far the work is.

        Args:
            stage: What is being done, for a person.
            done: How much of the stage is done.
            total: How much there is, in the same unit; 0 when unknown.
        """


def keep_quiet(stage: str, done: int, total: int) -> None:
    """Tells nobody."""
