"""Word vectors: queries, loading, saving, and files of other programs."""
