"""Metrics for `tensorboard --logdir RUN`; a run goes on without it."""

import logging
from pathlib import Path
from typing import Any

logger = logging.getLogger(__name__)


class TensorBoard:
    """Writes numbers as TensorBoard events, as long as that works."""

    def __init__(self, directory: Path, first_step: int) -> None:
        """Opens the events of a run.

        Args:
            directory: The run.
            first_step: Events of this step and later ones are outdated.
        """
        self._writer: Any = None
        try:
            from torch.utils.tensorboard import SummaryWriter

            self._writer = SummaryWriter(
                str(directory), purge_step=first_step, flush_secs=30
            )
        except (ImportError, OSError) as error:
            _warn(error)

    def write(self, step: int, values: dict[str, Any], group: str) -> None:
        """Writes all numbers of a line of metrics."""
        if self._writer is None:
            return
        try:
            for name, value in values.items():
                if name != "step" and isinstance(value, int | float):
                    self._writer.add_scalar(f"{group}/{name}", value, step)
        except (OSError, RuntimeError) as error:
            # 图表只是给人看的：写不了也不能毁掉训练
            _warn(error)
            self._writer = None

    def close(self) -> None:
        """Writes what is still in memory."""
        if self._writer is not None:
            try:
                self._writer.close()
            except OSError as error:
                _warn(error)
            self._writer = None


def _warn(error: Exception) -> None:
    logger.warning(
        "No TensorBoard events: %s. All metrics are in metrics.jsonl.", error
    )
