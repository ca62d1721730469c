"""How good answers are, by the rules of the official scripts.

Every score is a fraction from 0 to 1, or a correlation from -1 to 1; never a
percentage.
"""

from bert_from_scratch.finetune.metrics.answers import (
    NullThreshold,
    apply_null_threshold,
    best_null_threshold,
    cmrc_scores,
    squad_scores,
)
from bert_from_scratch.finetune.metrics.entities import (
    Entity,
    entity_scores,
    entity_scores_by_type,
    find_entities,
)
from bert_from_scratch.finetune.metrics.labels import (
    classification_scores,
    confusion_matrix,
    correlation_scores,
    multi_label_scores,
)

__all__ = [
    "Entity",
    "NullThreshold",
    "apply_null_threshold",
    "best_null_threshold",
    "classification_scores",
    "cmrc_scores",
    "confusion_matrix",
    "correlation_scores",
    "entity_scores",
    "entity_scores_by_type",
    "find_entities",
    "multi_label_scores",
    "squad_scores",
]
