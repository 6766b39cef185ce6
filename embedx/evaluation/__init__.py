"""Scores with intervals: similarity, analogies, held-out text, labels."""
