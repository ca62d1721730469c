"""What came before BERT: words, word vectors, and the networks over them."""
