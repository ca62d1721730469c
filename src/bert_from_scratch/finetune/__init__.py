"""Heads of the paper's tasks, and how they are trained and judged."""
