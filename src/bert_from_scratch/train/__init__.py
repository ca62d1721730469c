"""The training loop: knows no BERT, only `model(batch) -> StepOutput`."""
