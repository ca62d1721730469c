"""The BERT paper in questions and answers: cards, a quiz, a memory of both."""
