"""The task `classify` without BERT: words, and the networks before it."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from torch import nn

from bert_from_scratch.data.tasks.examples import TextExample
from bert_from_scratch.finetune.baselines.classifier import WordClassifier
from bert_from_scratch.finetune.baselines.encoders import WordEncoderConfig
from bert_from_scratch.finetune.baselines.word_vectors import (
    train_word_vectors,
)
from bert_from_scratch.finetune.baselines.words import WordTokenizer
from bert_from_scratch.finetune.classification import ClassificationTask


@dataclass(frozen=True, eq=False)
class WordClassificationTask(ClassificationTask):
    """Texts or pairs as words, and classes.

    Attributes:
        encoder: A kind of `encoders.KINDS`.
        word_vectors: Where the word vectors of a new model start; None: at
            random.
    """

    encoder: str = "bow"
    word_vectors: NDArray[np.float32] | None = None

    @classmethod
    def for_texts(
        cls,
        texts: Sequence[TextExample],
        train: Sequence[TextExample],
        others: Sequence[TextExample],
        *,
        encoder: str,
        word_vectors: str | None = None,
        **settings: Any,
    ) -> Self:
        """Makes the task of some data.

        Args:
            texts: What is trained on: words and vectors come from here.
            train: Labelled, with all labels there are.
            others: Labelled, to be judged.
            encoder: A kind of `encoders.KINDS`.
            word_vectors: "cbow" or "skipgram" trains vectors first.
            **settings: Fields of `ClassificationTask`.
        """
        parts = [part for e in texts for part in (e.text, e.pair) if part]
        tokenizer = WordTokenizer.build(parts)
        vectors = None
        if word_vectors is not None:
            # 词向量只从训练文本学：不让测试文本泄漏进来
            encoded = tokenizer.encode_batch(parts)
            vectors = train_word_vectors(
                [sequence.input_ids for sequence in encoded],
                len(tokenizer),
                kind=word_vectors,  # type: ignore[arg-type]
            )
        return cls.for_data(
            tokenizer,
            train,
            others,
            encoder=encoder,
            word_vectors=vectors,
            **settings,
        )

    @property
    def is_recordable(self) -> bool:
        """Not these networks: they read the lengths of every batch."""
        return False

    def new_model(self, model_dir: Path) -> nn.Module:
        """Makes a fresh network; there is no pre-trained one."""
        del model_dir
        config = WordEncoderConfig(
            kind=self.encoder,  # type: ignore[arg-type]
            num_words=len(self.tokenizer),
        )
        return WordClassifier(
            config,
            self.labels,
            self.problem,
            self.class_weights,
            self.word_vectors,
        )

    def load_model(self, model_dir: Path) -> nn.Module:
        """Loads a network that was trained before."""
        return WordClassifier.from_pretrained(model_dir)

    def settings(self) -> dict[str, Any]:
        """Returns what prediction needs to know."""
        return {**super().settings(), "encoder": self.encoder}
