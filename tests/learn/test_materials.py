"""Materials are made once, and differ in what they are named after."""

from bert_from_scratch.learn.materials import Materials


def test_a_model_is_trained_once_and_told_of() -> None:
    told: list[str] = []
    materials = Materials(
        num_epochs=1, progress=lambda stage, done, total: told.append(stage)
    )
    first = materials.tutorial_model
    assert materials.tutorial_model is first
    assert len(told) == 1


def test_the_four_models_differ_in_positions_and_masks() -> None:
    materials = Materials(num_epochs=1)
    runs = (
        materials.tutorial_model,
        materials.with_positions,
        materials.with_fresh_masks,
        materials.with_both,
    )
    assert [
        (run.exercise.with_positions, run.exercise.fresh_masks) for run in runs
    ] == [(False, False), (True, False), (False, True), (True, True)]
