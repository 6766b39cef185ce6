"""The task of word vectors: from corpora to a model, by the stream of pairs or by their counts."""
