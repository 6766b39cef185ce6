"""How good a model is: similarity, analogies, held-out text, labels, with intervals."""
