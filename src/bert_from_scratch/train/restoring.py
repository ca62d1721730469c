"""Going back to the newest checkpoint that is whole."""

import logging
from pathlib import Path

from bert_from_scratch.errors import BertError
from bert_from_scratch.train.checkpoint import list_checkpoints, load_checkpoint
from bert_from_scratch.train.trainer import BertTrainer

logger = logging.getLogger(__name__)


def restore_newest(
    trainer: BertTrainer, checkpoints_dir: Path, *, may_start_anew: bool
) -> None:
    """Fills a trainer from the newest whole checkpoint, if there is any.

    Damaged ones before it are told of and put aside.

    Args:
        trainer: As it was built.
        checkpoints_dir: Where checkpoints lie, or none does.
        may_start_anew: Whether to begin from the start where all of them are
            damaged; else that is an error.
    """
    error: BertError | None = None
    damaged: list[Path] = []
    for path in reversed(list_checkpoints(checkpoints_dir)):
        try:
            state = load_checkpoint(path, trainer.model, trainer.optimizer)
        except BertError as damage:
            # 最新的坏了就用前一个：重走几步好过停在那里等人
            logger.warning("%s It is left out.", damage.message)
            error = error or damage
            damaged.append(path)
            continue
        trainer.restore(state)
        break
    else:
        if error is not None and not may_start_anew:
            raise BertError(
                f"No checkpoint is whole. {error.message}",
                hint="start a new run with the same options",
            )
    trainer.processes.wait()
    for path in damaged if trainer.processes.is_first else ():
        # 让出名字：走到同一步时要能重新写
        path.rename(path.with_name(f"damaged-{path.name}"))
