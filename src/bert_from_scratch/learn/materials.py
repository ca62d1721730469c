"""What lessons need that takes time to make: made once, when first needed."""

from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from bert_from_scratch.corpus.builtin import simple_sentences
from bert_from_scratch.corpus.progress import ProgressReport, keep_quiet
from bert_from_scratch.learn.minibert_data import Exercise
from bert_from_scratch.learn.minibert_training import TrainedMiniBert, train
from bert_from_scratch.learn.sample_model import SampleModel
from bert_from_scratch.learn.syllabus import NUM_EPOCHS, SEED


@dataclass(frozen=True)
class Materials:
    """Trained models for the lessons.

    Attributes:
        num_epochs: How long a MiniBert trains.
        seed: Decides a MiniBert's weights, hidden words and dropout.
        model_dir: The model to look at in the pipeline; None: a small one
            is made.
        texts: Two texts to send through it; None: the lesson's own.
        progress: Told how far the training is.
    """

    num_epochs: int = NUM_EPOCHS
    seed: int = SEED
    model_dir: Path | None = None
    texts: tuple[str, str] | None = None
    progress: ProgressReport = keep_quiet

    @cached_property
    def exercise(self) -> Exercise:
        """The tutorial's exercise: no positions, masks drawn once."""
        return Exercise(
            tuple(simple_sentences()),
            num_epochs=self.num_epochs,
            seed=self.seed,
        )

    @cached_property
    def tutorial_model(self) -> TrainedMiniBert:
        """MiniBert as the tutorial trains it."""
        return self._train(self.exercise, "MiniBert 1/4")

    @cached_property
    def with_positions(self) -> TrainedMiniBert:
        """The same, and its words know their places."""
        exercise = replace(self.exercise, with_positions=True)
        return self._train(exercise, "MiniBert 2/4")

    @cached_property
    def with_fresh_masks(self) -> TrainedMiniBert:
        """The tutorial's model, with other words hidden in every epoch."""
        exercise = replace(self.exercise, fresh_masks=True)
        return self._train(exercise, "MiniBert 3/4")

    @cached_property
    def with_both(self) -> TrainedMiniBert:
        """Positions and fresh masks: what BERT does."""
        exercise = replace(self.exercise, with_positions=True, fresh_masks=True)
        return self._train(exercise, "MiniBert 4/4")

    @cached_property
    def sample(self) -> SampleModel:
        """A tokenizer and an encoder to send text through."""
        if self.model_dir is None:
            return SampleModel.make()
        return SampleModel.load(self.model_dir)

    def _train(self, exercise: Exercise, stage: str) -> TrainedMiniBert:
        return train(exercise, progress=self.progress, stage=stage)
