"""The lessons: prose in two languages around numbers computed on the spot."""
