"""Which output rows compete with the positives."""
