"""BERT's parts written once more, slowly, to be read rather than run."""
